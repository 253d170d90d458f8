"""Ctrl-C, and SIGTERM like it: at any moment but while something is being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Raises KeyboardInterrupt at a signal, or once what is held is done."""

    def __init__(self) -> None:
        self._held = self._came = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Answer to the signals; only the main thread can, in others they go where they went before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self._arrived) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what stands inside come to its end first."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._came = True
