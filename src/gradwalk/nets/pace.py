"""Whether a step takes less time with helpers than without: both are timed, and the faster way is kept.

A helper whose core another process uses holds up what it has begun until it runs again, and help is then worse than
none. The results are the same either way.
"""

import math
from collections import deque
from statistics import fmean

_LATEST = 5  # steps that tell how long they take now
_SLOWER = 1.15  # times as long as they took counts as slower
# Steps between two trials of the other way: the fewest if steps are slower now, else twice as many as before the last
# trial if that changed nothing.
_FEWEST, _MOST = 25, 200
# Steps of a trial in the other way, each followed by one in the kept way, because a machine has fast and slow seconds.
# The first pair does not count: operations are planned in it.
_PAIRS = 5


class Pace:
    """Chooses whether the next step is taken with help, by how long the steps before it took.

    >>> pace = Pace()
    >>> for _ in range(100):
    ...     pace.note(3.0 if pace.helped else 2.0)
    >>> pace.helped
    False
    """

    def __init__(self) -> None:
        self.helped = True
        self._latest: deque[float] = deque(maxlen=_LATEST)
        self._trial: list[float] | None = None
        self._usual = math.inf
        self._steps, self._patience = 0, _FEWEST

    def note(self, seconds: float) -> None:
        """Take note of how long a step took, and choose for the next one."""
        if self._trial is not None:
            self._trial.append(seconds)
            self.helped = not self.helped
            if len(self._trial) == 2 * _PAIRS:
                self._decide(fmean(self._trial[2::2]), fmean(self._trial[3::2]))
            return
        self._latest.append(seconds)
        self._steps += 1
        slower = fmean(self._latest) > _SLOWER * self._usual
        if self._steps >= (_FEWEST if slower else self._patience):
            self._trial, self.helped = [], not self.helped

    def _decide(self, tried: float, kept: float) -> None:
        """End a trial, whose next step would be in the other way."""
        if kept <= tried:
            self.helped = not self.helped
            self._patience = min(2 * self._patience, _MOST)
        else:
            self._patience = _FEWEST
        self._usual, self._trial, self._steps = min(kept, tried), None, 0
        self._latest.clear()
