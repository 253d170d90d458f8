"""A progress bar for long jobs: on a terminal, once a job has taken a second; never in a pipe."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_PATIENCE = 1.0  # seconds
_watched = False  # one bar at a time: the outermost job's


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function that takes how much more of `total` is done, and draws it if somebody watches.

    The bar is Rich's; where Rich is not installed there is none.
    """
    global _watched
    if _watched or not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, start, _watched = bar.add_task(label, total=total), time.monotonic(), True

    def advance(done: int) -> None:
        if not bar.live.is_started and time.monotonic() - start > _PATIENCE:
            bar.start()
        bar.advance(task, done)

    try:
        yield advance
    finally:
        _watched = False
        bar.stop()
