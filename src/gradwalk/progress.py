"""The progress of a long job on stderr: a bar on a terminal, at most one line per minute elsewhere.

    with progress("reading files", total=len(files)) as job:
        for file in files:
            read(file)
            job.advance()

Only the outermost job of a program is shown, so that a function may report progress whoever calls it.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from gradwalk.words import duration

_PATIENCE = 1.0  # seconds before the bar appears: short jobs show none
_REFRESH = 0.1  # seconds between two updates of the bar
_LINE_EVERY = 60.0  # seconds between two lines where stderr is not a terminal
_shown = False  # whether a job is being shown


class Progress:
    """What is known of a running job: how much of the total is completed, and a remark.

    All methods may be called from several threads.
    """

    def __init__(self, label: str, total: float | None = None) -> None:
        self.label, self.total = label, total
        self.completed: float = 0
        self._text = ""
        self._show: Callable[[Progress], None] | None = None
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        """Add `amount` to what is completed."""
        with self._lock:
            self.completed += amount
            self._refresh()

    def update(self, completed: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Set what is completed, the total, or the text that is shown in place of the default one."""
        with self._lock:
            self.completed = self.completed if completed is None else completed
            self.total = self.total if total is None else total
            self._text = self._text if text is None else text
            self._refresh()

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """The text given to `update`, or the share that is completed and an estimate of the time left."""
        if self._text or not self.total:
            return self._text
        share = self.completed / self.total
        left = f", {duration(self.elapsed * (1 - share) / share)} left" if 0 < share < 1 else ""
        return f"{100 * min(share, 1.0):.0f} %{left}"

    def _refresh(self) -> None:
        if self._show is not None:
            self._show(self)


@contextmanager
def progress(label: str, total: float | None = None, *, lines: bool = False) -> Iterator[Progress]:
    """Show the progress of a job while the context is open, and yield the object that reports it.

    On a terminal a bar appears after a second. Elsewhere nothing is printed, unless `lines` asks for a line at the
    first report and then at most one per minute. Without Rich there is no bar, and `lines` applies to a terminal too.
    """
    global _shown
    job, terminal = Progress(label, total), is_terminal() and find_spec("rich") is not None
    if _shown or not (terminal or lines):
        yield job
        return
    _shown = True
    try:
        if terminal:
            with _bar(job):
                yield job
        else:
            job._show = _Lines()
            yield job
    finally:
        _shown = False


class _Lines:
    """Prints a line at the first report, and then at most one per `_LINE_EVERY` seconds."""

    def __init__(self) -> None:
        self._next = -math.inf

    def __call__(self, job: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY
            print_on_stderr(f"{job.label}: {job.text}")


@contextmanager
def _bar(job: Progress) -> Iterator[None]:
    """Draw the job as a bar of Rich's, and remove it at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(job.label, total=job.total, text="")
    due = _PATIENCE

    def show(job: Progress) -> None:
        nonlocal due
        if job.elapsed >= due:
            due = job.elapsed + _REFRESH
            with suppress(OSError):  # of a terminal that was closed
                bar.start()
                bar.update(task, completed=job.completed, total=job.total, text=job.text)

    job._show = show
    try:
        yield
    finally:
        with suppress(OSError):
            bar.stop()


def is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def print_on_stderr(line: str) -> None:
    """Print a line on stderr; if that is closed or full, print nothing from then on and let the computation go on."""
    if sys.stderr is None:
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
