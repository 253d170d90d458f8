"""Interrupting a training as Ctrl-C does."""

from gradwalk.train import Watcher


class InterruptAt(Watcher):
    """Raises KeyboardInterrupt after that many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, networks: int) -> None:
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt
