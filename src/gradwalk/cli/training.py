"""What `gradwalk train` shows: progress, the table at the end, and the curves."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gradwalk.data import Dataset
from gradwalk.figures import save
from gradwalk.figures.curves import draw_curves
from gradwalk.nets.initial import PEERS
from gradwalk.nets.memory import stack_bytes
from gradwalk.nets.widths import parameter_count
from gradwalk.train import Epoch, Outcome, Run, Watcher
from gradwalk.train.folder import TrainingFolder

_SELDOM = 10.0  # seconds between two lines where no terminal shows a bar


class Reporter(Watcher):
    """Shows a bar on a terminal, or a line now and then; records each epoch and the end of each run in the folder."""

    def __init__(self, runs: Sequence[Run], data: Dataset, folder: TrainingFolder) -> None:
        self.runs, self.data, self.folder = list(runs), data, folder
        self.steps = -(-len(data.train) // runs[0].batch)
        self.latest: dict[Run, Epoch] = {}
        self.told = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self.task = self.bar.add_task("first epoch", total=self.steps * sum(run.epochs for run in runs))

    def __enter__(self) -> "Reporter":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.bar.stop()
        if kind is KeyboardInterrupt:
            where = self.folder.path
            print(f"stopped; all is saved in {where}, and the same command goes on from there", file=sys.stderr)

    def stepped(self, networks: int) -> None:
        """Move the bar."""
        self.bar.advance(self.task, networks)

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """Record the epoch and tell of it."""
        self.folder.record(run, epoch)
        if not self.latest:  # what a checkpoint spared us
            self.bar.update(self.task, completed=self.steps * epoch.epoch * len(self.runs))
        self.latest[run] = epoch
        line = self._line(run)
        self.bar.update(self.task, description=line)
        if not sys.stderr.isatty() and time.monotonic() - self.told > _SELDOM:
            self.told = time.monotonic()
            print(line, file=sys.stderr)

    def ended(self, outcome: Outcome) -> None:
        """Save the run's end, and leave out of the bar what it will not need."""
        self.folder.save_end(outcome, self.data)
        self.bar.advance(self.task, self.steps * (outcome.run.epochs - len(outcome.epochs)))

    def _line(self, run: Run) -> str:
        best = min(self.latest.values(), key=lambda each: each.train_loss)
        text = f"epoch {self.latest[run].epoch}/{run.epochs}, {'best ' if len(self.runs) > 1 else ''}loss "
        text += f"{best.train_loss:.4g}"
        return text + (f", mistakes {best.train_mistakes}" if run.task == "classify" else "")


def announcement(runs: Sequence[Run], data: Dataset) -> str:
    """Return a sentence on what will be trained."""
    run = runs[0]
    widths, activations = run.architecture(data)
    memory = stack_bytes(widths, activations, len(runs), run.batch)
    many = f"{len(runs)} networks" if len(runs) > 1 else "a network"
    return (
        f"{many} of {run.depth} layers, {parameter_count(widths):,} parameters{' each' * (len(runs) > 1)}, widths "
        f"{_widths(widths)}, on {len(data.train):,} examples of {data.name}; memory {memory / 1e6:,.0f} MB"
    )


def summary(outcomes: Sequence[Outcome], data: Dataset) -> list[list[str]]:
    """Return the rows of a table: a run each, with what was measured at its end."""
    classify = outcomes[0].run.task == "classify"
    measured = ["loss", "mistakes", "held-out"] if classify else ["error", "held-out"]
    rows = [["run", "gain", "rates", "seed", "epochs", *measured, "time"]]
    for number, outcome in enumerate(outcomes, 1):
        rows.append([str(number), *_cells(outcome, data, classify)])
    return rows


def draw(outcomes: Sequence[Outcome], data: Dataset, path: Path) -> None:
    """Draw error against epoch for each run."""
    curves = {_label(each): each.epochs for each in outcomes}
    diverged = {_label(each): each.diverged for each in outcomes if each.diverged is not None}
    examples = (len(data.train), len(data.test)) if outcomes[0].run.task == "classify" else None
    save(draw_curves(curves, examples=examples, diverged=diverged), [path])


def _cells(outcome: Outcome, data: Dataset, classify: bool) -> list[str]:
    run, last = outcome.run, outcome.last
    gain = run.weights if run.weights in PEERS else f"{run.gains(run.architecture(data).widths).gain:.4g}"
    told = [gain, _rates(run), str(run.seed)]
    told.append(str(len(outcome.epochs)) if outcome.diverged is None else f"diverged in {outcome.diverged}")
    if last is None:
        return told
    told.append(f"{last.train_loss:.4g}")
    if classify:
        told += [_share(last.train_mistakes, len(data.train)), _share(last.test_mistakes, len(data.test))]
    else:
        told.append(f"{last.test_loss:.4g}")
    return [*told, f"{outcome.state.seconds:.0f} s"]


def _share(mistakes: int, examples: int) -> str:
    return f"{mistakes} ({100 * mistakes / max(examples, 1):.1f}%)"


def _rates(run: Run) -> str:
    return f"{run.rate_in:g}" if run.rate_in == run.rate_out else f"{run.rate_in:g}..{run.rate_out:g}"


def _label(outcome: Outcome) -> str:
    run = outcome.run
    gain = "unbiased g" if run.gain is None else f"g {run.gain:g}"
    if run.weights in PEERS:
        gain = run.weights
    return f"{gain}, rate {_rates(run)}, seed {run.seed}"


def _widths(widths: Sequence[int]) -> str:
    shown = [str(width) for width in widths]
    return "-".join(shown if len(shown) <= 7 else [*shown[:3], "...", *shown[-3:]])
