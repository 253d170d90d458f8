"""Whether a step takes less time with helpers than without: both are timed, and the faster way is kept.

A helper whose core another process uses holds up what it has begun until it runs again, and help is then worse than
none. The results are the same either way.
"""

import math
from collections import deque
from statistics import fmean

_LATEST = 5  # steps that tell how long they take now
_SLOWER = 1.15  # times as long as they took counts as slower
_LONG = 0.2  # seconds: a longer step tells as much as several shorter ones
# Steps between two trials of the other way: the fewest before the first one and if steps are slower now, fewer of them
# if they are long; else twice as many as before the last trial if that changed nothing.
_FEWEST, _MOST = 25, 200
# Steps of a trial in the other way, of short and of long ones, each followed by one in the kept way, because a machine
# has fast and slow seconds. The first pair does not count: operations are planned in it.
_PAIRS, _LONG_PAIRS = 5, 3


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
        self._steps, self._seconds, self._patience, self._pairs = 0, 0.0, _FEWEST, _PAIRS

    def note(self, seconds: float) -> None:
        """Take note of how long a step took, and choose for the next one."""
        if self._trial is not None:
            self._trial.append(seconds)
            self.helped = not self.helped
            if len(self._trial) == 2 * self._pairs:
                self._decide(fmean(self._trial[2::2]), fmean(self._trial[3::2]))
            return
        self._latest.append(seconds)
        self._steps, self._seconds = self._steps + 1, self._seconds + seconds
        now = fmean(self._latest)
        eager = (now > _SLOWER * self._usual or self._usual == math.inf) and self._steps >= _LATEST
        if self._steps >= self._patience or (eager and max(self._steps, self._seconds / _LONG) >= _FEWEST):
            self._trial, self.helped = [], not self.helped
            self._pairs = _PAIRS if now < _LONG else _LONG_PAIRS

    def _decide(self, tried: float, kept: float) -> None:
        """End a trial, whose next step would be in the other way."""
        if kept <= tried:
            self.helped = not self.helped
            self._patience = min(2 * self._patience, _MOST)
        else:
            self._patience = _FEWEST
        self._usual, self._trial, self._steps, self._seconds = min(kept, tried), None, 0, 0.0
        self._latest.clear()
