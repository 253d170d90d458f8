"""Set before any test module loads NumPy or Keras; one thread for torch; no test that reads the clock; a browser."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many small products: threads in them wait for one another

settings.register_profile("gradwalk", deadline=None)  # a slow machine fails no test
settings.load_profile("gradwalk")


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks run faster on one thread of torch, and the machine's others stay free for the sampler."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    """An empty data folder, and no proxy between us and ourselves."""
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """A real browser, Debian's own; without the last three flags it looks for its maker's hosts."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()
