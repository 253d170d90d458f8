"""Ctrl-C, SIGTERM and SIGHUP, the signal of a terminal that closes: each raises KeyboardInterrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """Raises KeyboardInterrupt on a signal, at once or at the end of a held block."""

    def __init__(self) -> None:
        self._block = _Held()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle the signals; in threads other than the main one, where Python does not allow it, do nothing."""
        previous = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        try:
            yield
        finally:
            if _in_main_thread():
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def install(self) -> None:
        """Handle the signals from now on, also after others replaced the handlers; what nohup ignores stays ignored."""
        for number in SIGNALS if _in_main_thread() else ():
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    def held(self) -> _Held:
        """Return a context manager that defers signals to the end of the block."""
        return self._block

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._block.entered:
            raise KeyboardInterrupt
        self._block.pending = True


class _Held:
    """A block in which signals wait; it is entered for every epoch of a sweep, so it is no generator."""

    __slots__ = ("entered", "pending")

    def __init__(self) -> None:
        self.entered = self.pending = False

    def __enter__(self) -> None:
        self.entered = True

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.entered = False
        if self.pending and kind is None:
            self.pending = False
            raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore the signals from now on, while the program ends: another one would end in a traceback."""
    for number in SIGNALS if _in_main_thread() else ():
        signal.signal(number, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
