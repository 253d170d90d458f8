"""A sweep from its spec to its store: what is done is kept, what was begun goes on, what waits is trained."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from gradwalk import checks
from gradwalk.data import Dataset, load
from gradwalk.nets.widths import parameter_count
from gradwalk.sweep.engine import Engine, Local
from gradwalk.sweep.interrupt import Interrupts
from gradwalk.sweep.record import Recorder, Report
from gradwalk.sweep.spec import Spec
from gradwalk.sweep.store import CHECKPOINTS, Result
from gradwalk.sweep.writer import Entry, Writer
from gradwalk.train import Run
from gradwalk.train.checkpoint import checkpoint_path

ENGINES = ("local", "ray")
SAVE_EVERY = 60.0  # seconds between checkpoints


@dataclass(frozen=True)
class SweepSummary:
    """How a sweep ended: its runs in the order of the spec; `kept` had ended before; seconds of this session."""

    folder: Path
    results: list[Result]
    kept: int
    seconds: float

    def count(self, status: str) -> int:
        """Return how many runs have that status."""
        return sum(result.status == status for result in self.results)

    @property
    def best(self) -> Result | None:
        """The run with the smallest training error, and among those the smallest loss."""
        return best(self.results)


def best(results: Sequence[Result]) -> Result | None:
    """Return the run that is done with the smallest training error, and among those the smallest loss."""
    done = [each for each in results if each.status == "done" and each.epochs]
    return min(done, key=lambda each: (each.train_error, each.epochs[-1].train_loss), default=None)


def run_sweep(
    spec: Spec,
    folder: str | Path,
    *,
    engine: str = "local",
    address: str | None = None,
    threads: int | None = None,
    save_every: float = SAVE_EVERY,
    report: Report | None = None,
) -> SweepSummary:
    """Train the runs of a spec that have not ended yet, write what happens to the folder's store, and say how it went.

    The same call goes on after any interruption: runs that are done or diverged are never trained again, begun ones go
    on from their checkpoints, failed ones are tried again. engine "local": this machine, on `threads` cores, all by
    default. "ray": the cluster at `address`, or one started on this machine. report: told the standing, a few times a
    second. KeyboardInterrupt is raised again once everything is saved.
    """
    started, interrupts = time.monotonic(), Interrupts()
    checks.one_of("sweep", "engine", engine, ENGINES)
    checks.positive("sweep", "save_every", save_every)
    if address is not None and engine != "ray":
        raise ValueError(f"sweep: address= is for engine='ray', got engine={engine!r} and address={address!r}")
    cores = checks.whole("sweep", "threads", psutil.cpu_count() or 1 if threads is None else threads)
    entries, data = enlisted(spec)
    checkpoints = Path(folder).absolute() / CHECKPOINTS
    with interrupts.caught(), Writer(folder, engine=engine, spec=spec.toml()) as writer:
        with interrupts.held():
            writer.enlist(entries)
            waiting, counts = _waiting(entries, writer, checkpoints)
        if waiting:
            with _engine(engine, address, cores, checkpoints, save_every) as trainer, _advice():
                jobs = trainer.jobs(waiting, data, _begun(waiting, checkpoints))
                trainer.train(jobs, Recorder(writer, jobs, counts, checkpoints, interrupts, report))
        found = {each.identity: each for each in writer.results([entry.identity for entry in entries])}
    _tidy(checkpoints)
    results = [found[entry.identity] for entry in entries]
    return SweepSummary(Path(folder), results, len(entries) - len(waiting), time.monotonic() - started)


def enlisted(spec: Spec) -> tuple[list[Entry], dict[Run, Dataset]]:
    """Return the runs of a spec with what is known of them from their data, and the data of each."""
    loaded: dict[tuple[str, int | None, str], Dataset] = {}
    entries: dict[str, Entry] = {}
    data = {}
    for run in spec.runs():
        key = (run.data, run.examples, run.scaling)
        if key not in loaded:
            loaded[key] = load(run.data, examples=run.examples, scaling=run.scaling)
        data[run] = loaded[key]
        entry = _entry(run, loaded[key])
        entries.setdefault(entry.identity, entry)
    return list(entries.values()), data


def _entry(run: Run, data: Dataset) -> Entry:
    try:
        parameters = parameter_count(run.architecture(data).widths)
    except ValueError as error:
        raise ValueError(f"sweep: a run of depth {run.depth} cannot be built: {error}") from None
    return Entry(run.identity(data), run, parameters, len(data.train), len(data.test))


def _waiting(entries: Sequence[Entry], writer: Writer, checkpoints: Path) -> tuple[list[Entry], dict[str, int]]:
    """Return the runs that have not ended, and how many ended how; what a kill left beside them is removed."""
    statuses = writer.statuses()
    counts = {"done": 0, "diverged": 0, "failed": 0}
    waiting = []
    for entry in entries:
        status = statuses[entry.identity]
        if status in ("done", "diverged"):
            counts[status] += 1
            checkpoint_path(checkpoints, entry.identity).unlink(missing_ok=True)
        else:
            waiting.append(entry)
    _tidy(checkpoints)
    return waiting, counts


def _tidy(checkpoints: Path) -> None:
    """Remove what killed processes left half written, and the folder where nothing is in it."""
    for half_written in checkpoints.glob(".*"):
        half_written.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # there is none, or there are checkpoints
        checkpoints.rmdir()


def _begun(entries: Sequence[Entry], checkpoints: Path) -> frozenset[str]:
    return frozenset(entry.identity for entry in entries if checkpoint_path(checkpoints, entry.identity).exists())


@contextlib.contextmanager
def _advice() -> Iterator[None]:
    """Say with what the file system refuses that nothing is lost."""
    try:
        yield
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise OSError(
            f"{said}; the sweep has stopped, and what had ended is saved: mend this and give the same command again"
        ) from None


@contextlib.contextmanager
def _engine(name: str, address: str | None, threads: int, checkpoints: Path, save_every: float) -> Iterator[Engine]:
    if name == "local":
        yield Local(threads, checkpoints, save_every)
        return
    if find_spec("ray") is None:
        raise ModuleNotFoundError("sweep: engine='ray' needs Ray: pip install 'gradwalk[ray]'", name="ray")
    from gradwalk.sweep.ray_engine import RayEngine

    with RayEngine(address, threads, checkpoints, save_every) as engine:
        yield engine
