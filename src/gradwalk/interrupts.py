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
        self._held = self._pending = False

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

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer signals to the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._pending = True


def ignore_signals() -> None:
    """Ignore the signals from now on, while the program ends: another one would end in a traceback."""
    for number in SIGNALS if _in_main_thread() else ():
        signal.signal(number, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
