"""Reports of progress that are counted, and at one of which Ctrl-C is pressed."""

import signal
import threading
from contextlib import contextmanager

from gradwalk import progress


class Reports:
    """Counts the reports of progress; at the one numbered `at`, sends SIGINT to the main thread as Ctrl-C does."""

    def __init__(self, at=None):
        self.at, self.count, self.after = at, 0, 0
        self.handled, self._lock = threading.Event(), threading.Lock()

    def report(self):
        with self._lock:
            self.count += 1
            self.after += self.handled.is_set()
            here = self.count == self.at
        if here:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if threading.current_thread() is not threading.main_thread():
                self.handled.wait(60)

    def interrupt(self, number, frame):
        self.handled.set()
        raise KeyboardInterrupt


@contextmanager
def reporting(monkeypatch, at=None):
    """Yield the reports while every job of `gradwalk.progress` is watched."""
    reports = Reports(at)
    previous = signal.signal(signal.SIGINT, reports.interrupt)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(progress.Progress, "_refresh", lambda job: reports.report())
            yield reports
    finally:
        signal.signal(signal.SIGINT, previous)
