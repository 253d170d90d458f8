"""Settings that must precede the import of NumPy, JAX and Keras, and fixtures for all tests."""

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads slow down many small products
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # or what one test starts, processes of another may not join
os.environ.setdefault("RAY_worker_niceness", "0")  # or tasks wait for the tests of all other workers
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads must not spin while other workers need the core
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiling takes longer than running
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1")
# What one worker, one process or the last run of the tests has compiled, the others read: half of the time of JAX.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / "build" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

gc.disable()  # until the tests are collected: what they import stays, and looking through it takes seconds

settings.register_profile("gradwalk", deadline=None)  # a slow machine must not fail a test
settings.load_profile("gradwalk")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip modules of the package without doctests: importing them all takes seconds in every worker."""
    source = collection_path.suffix == ".py" and "src" in collection_path.parts
    return True if source and ">>>" not in collection_path.read_text(encoding="utf-8") else None


# Tests that wait for a cluster, a browser or a process: begun first, they wait while other workers use the cores.
WAITING = ("sweep_ray", "site", "report_browser", "explorer", "sweep_resume", "interruption", "signals", "fetch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that wait first, and leave the others as they are."""
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in WAITING)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but only what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _one_thread():
    """Run torch on one thread, which is faster for small networks and leaves the other cores to the sampler."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


REGISTRIES = {
    "gradwalk.activations": "FAMILIES",
    "gradwalk.data": "DATASETS",
    "gradwalk.figures": "FIGURES",
    "gradwalk.nets": "INITIALISERS",
    "gradwalk.nets.optimizers": "OPTIMIZERS",
    "gradwalk.report": "CLAIMS",
    "gradwalk.sweep": "ENGINES",
}


def _registries() -> list[Any]:
    """Return the registries whose modules are loaded."""
    return [getattr(sys.modules[module], name) for module, name in REGISTRIES.items() if module in sys.modules]


@pytest.fixture(autouse=True)
def _registries_restored():
    """Remove what a test or doctest registers."""
    before = {id(registry): registry.registered for registry in _registries()}
    yield
    for registry in _registries():
        for name in set(registry.registered) - set(before.get(id(registry), ())):
            registry.remove(name)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    """A data folder that does not exist yet, and no proxy for servers on this machine."""
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


# The headless shell opens a page in a third of the processor time: it has no windows and toolbars of its own.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """Debian's Chromium, headless; the last three flags keep it from contacting its maker's servers."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()
