"""A sweep from its spec to its store: finished runs are kept, begun ones resume, waiting ones are trained."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from gradwalk import checks
from gradwalk.data import Datasets
from gradwalk.display import axes_of
from gradwalk.interrupts import Interrupts
from gradwalk.sweep.engine import Engine, EngineOptions
from gradwalk.sweep.engines import ENGINES
from gradwalk.sweep.entry import Entry, resolve
from gradwalk.sweep.folder import LostFolderError, checked_folder
from gradwalk.sweep.record import Recorder, Report
from gradwalk.sweep.schema import Status
from gradwalk.sweep.spec import Spec
from gradwalk.sweep.status import best_result, count_statuses
from gradwalk.sweep.store import Result
from gradwalk.sweep.writer import Writer
from gradwalk.train.checkpoint import begun, remove_checkpoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

SAVE_EVERY = 60.0  # seconds between checkpoints


@dataclass(frozen=True)
class SweepSummary:
    """How a sweep ended: its runs in the order of the spec; `kept` of them had ended before. seconds: of this call."""

    folder: Path
    results: list[Result] = field(repr=False)
    kept: int
    seconds: float

    @property
    def counts(self) -> dict[Status, int]:
        """The number of runs of each status."""
        return count_statuses(self.results)

    @property
    def best(self) -> Result | None:
        """The finished run with the smallest training error, ties broken by the training loss; None without one."""
        return best_result(self.results)

    def to_pandas(self) -> DataFrame:
        """Return `runs_frame()`: one row per run."""
        return self.runs_frame()

    def _repr_html_(self) -> str:
        return str(self.runs_frame().to_html(max_rows=20, max_cols=12, border=0))

    def plot(
        self, ax: Axes | None = None, *, x: str | None = None, colour: str | None = None, split: str = "train"
    ) -> Axes:
        """Draw the error of all runs against a setting, see `gradwalk.sweep.plot`, and return the axes."""
        from gradwalk.sweep.plot import plot_on

        return plot_on(axes_of(ax), self.results, x, colour, split)

    def runs_frame(self) -> DataFrame:
        """Return a pandas data frame with one row per run, see `gradwalk.sweep.frame.runs_frame`."""
        from gradwalk.sweep.frame import runs_frame

        return runs_frame(self.results)

    def epochs_frame(self) -> DataFrame:
        """Return a pandas data frame with one row per run and epoch, see `gradwalk.sweep.frame.epochs_frame`."""
        from gradwalk.sweep.frame import epochs_frame

        return epochs_frame(self.results)


def run_sweep(
    spec: Spec,
    folder: str | Path,
    *,
    engine: str = "local",
    address: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    save_every: float = SAVE_EVERY,
    save_networks: bool = False,
    datasets: Datasets | None = None,
    report: Report | None = None,
) -> SweepSummary:
    """Train the runs of a spec that have not ended yet, record them in the folder's store, and return all results.

    Calling it again resumes after any interruption: runs that are done or diverged are never trained again, runs under
    way resume from their checkpoints, failed ones are tried again. On Ctrl-C, SIGTERM or SIGHUP, KeyboardInterrupt is
    raised once everything is saved.

    engine: "local", this machine; "ray", the cluster at `address` or one started on this machine; or the name of a
    registered engine, see `Engine`. device: a torch device; results on the same device do not depend on the engine.
    threads: cores to use on this machine (default: all). save_every: seconds between checkpoints. save_networks: also
    write each finished network to `networks/<identity>.safetensors`. datasets: a cache to load the data from. report:
    called with a `SweepProgress` a few times per second.
    """
    started = time.monotonic()
    kind = ENGINES.find(engine, "sweep")
    if address is not None and not kind.takes_address:
        raise ValueError(f"sweep: engine={engine!r} takes no address, got address={address!r}")
    options = EngineOptions(
        folder=checked_folder("sweep", folder).absolute(),
        threads=checks.whole("sweep", "threads", (psutil.cpu_count() or 1) if threads is None else threads),
        save_every=checks.positive("sweep", "save_every", save_every),
        device=device,
        address=address,
        save_networks=save_networks,
    )
    trainer, interrupts = kind(options), Interrupts()
    with interrupts.caught():
        results, kept = _results(spec, Path(folder), trainer, options, interrupts, datasets, report)
    return SweepSummary(Path(folder), results, kept, time.monotonic() - started)


def _results(
    spec: Spec,
    folder: Path,
    trainer: Engine,
    options: EngineOptions,
    interrupts: Interrupts,
    datasets: Datasets | None,
    report: Report | None,
) -> tuple[list[Result], int]:
    """Train what has not ended yet; return the results of the spec's runs, and how many had ended before."""
    checkpoints = options.checkpoints
    entries, data = resolve(spec, datasets)
    with Writer(folder, engine=trainer.name, device=options.device, spec=spec.toml()) as writer:
        with interrupts.held():
            writer.enlist(entries)
            waiting, counts = _waiting(entries, writer, checkpoints)
        if waiting:
            with _resumable(), trainer:
                interrupts.install()  # Ray has replaced the handlers by its own
                jobs = trainer.jobs(waiting, data, begun(checkpoints))
                trainer.train(jobs, Recorder(writer, jobs, counts, checkpoints, interrupts, report))
        by_identity = {result.identity: result for result in writer.results([entry.identity for entry in entries])}
    _tidy(checkpoints)
    return [by_identity[entry.identity] for entry in entries], len(entries) - len(waiting)


def _waiting(entries: Sequence[Entry], writer: Writer, checkpoints: Path) -> tuple[list[Entry], dict[str, int]]:
    """Return the runs that have not ended and the number of those that have; checkpoints of the latter are removed."""
    statuses = writer.statuses()
    counts = {"done": 0, "diverged": 0, "failed": 0}
    waiting, ended = [], []
    for entry in entries:
        status = statuses[entry.identity]
        if status in ("done", "diverged"):
            counts[status] += 1
            ended.append(entry.identity)
        else:
            waiting.append(entry)
    remove_checkpoints(checkpoints, ended)
    _tidy(checkpoints)
    return waiting, counts


def _tidy(checkpoints: Path) -> None:
    """Remove files that killed processes left half written, and the folder if it is empty."""
    for partial in checkpoints.glob(".*"):
        partial.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # missing, or not empty
        checkpoints.rmdir()


@contextlib.contextmanager
def _resumable() -> Iterator[None]:
    """Add to an error of the file system that nothing is lost."""
    try:
        yield
    except LostFolderError:
        raise
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise OSError(
            f"{reason}; the sweep has stopped and finished runs are saved: fix this and repeat the command to resume"
        ) from None
