"""A block of random networks: one forward pass, one backward pass, of which only the log-norms remain."""

import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation.memory import segments
from gradwalk.simulation.sampler import GradientT, LayerT, Sampler
from gradwalk.simulation.signal import Signal


class Start(NamedTuple):
    """Where a segment starts: how to draw it again, the signal below it (None for layer 0), and the number of walks."""

    rewind: Callable[[], None]
    below: Signal | None
    walks: int


class Networks(Generic[LayerT, GradientT]):
    """Networks that are drawn together, forward and back.

    Where not all layers fit in memory they are drawn in segments. The forward pass keeps the signal at the start of
    each segment; the backward pass draws a segment again, from the same random numbers, when it reaches it. The last
    segment is still in memory then, and is not drawn twice.
    """

    def __init__(
        self,
        sampler: Sampler[LayerT, GradientT],
        widths: tuple[int, ...],
        gains: Array,
        advance: Callable[[int], None],
    ) -> None:
        self.sampler, self.widths, self.gains, self.advance = sampler, widths, gains, advance

    @property
    def luck(self) -> Array | float:
        """Two control variates per walk with expectation 0."""
        return self.sampler.luck

    def walk(self, log_norm: Array, log_variance: Array, kept: Indices) -> int:
        """Fill the rows of this block, one column per kept layer, and return how many layers were resampled."""
        total = np.zeros(len(log_norm))
        column = {int(layer): index for index, layer in enumerate(kept)}
        parts = segments(type(self.sampler), self.widths, len(log_norm))
        starts, layers, resampled = self._forward(parts, len(log_norm))
        last = layers[-1].output
        log_scale, gradient = self.sampler.top(last, self.widths[-1], self.gains[-1])
        log_norm[:, 0], log_variance[:, 0] = 0.0, 2 * log_scale
        for d, layer in self._downward(parts, starts, layers):
            gradient, growth = self.sampler.backward(gradient, layer)
            total += growth + math.log(self.gains[d])
            if d in column:
                log_norm[:, column[d]], log_variance[:, column[d]] = total, 2 * layer.log_scale
            self.advance(1)
        return resampled

    def _forward(self, parts: list[range], walks: int) -> tuple[list[Start], list[LayerT], int]:
        """Return where each segment starts, the layers of the last segment, and how many layers were resampled."""
        starts: list[Start] = []
        layers: list[LayerT] = []
        below, resampled = None, 0
        for part in parts:
            starts.append(Start(self.sampler.mark(), below, walks))
            layers = self._draw(part, starts[-1])
            resampled += sum(layer.resampled for layer in layers)
            below = _copied(layers[-1].output)
        return starts, layers, resampled

    def _downward(self, parts: list[range], starts: list[Start], layers: list[LayerT]) -> Iterator[tuple[int, LayerT]]:
        """Yield layers D - 1 to 0 with their number; `layers` are those of the last segment."""
        for part, start in zip(reversed(parts), reversed(starts), strict=True):
            if part is not parts[-1]:
                start.rewind()
                layers = self._draw(part, start)
            yield from zip(reversed(part), reversed(layers), strict=True)

    def _draw(self, part: range, start: Start) -> list[LayerT]:
        """Return the layers of a segment."""
        layers: list[LayerT] = []
        below = start.below
        self.sampler.arena.clear()
        for d in part:
            if below is None:
                layers.append(self.sampler.first(start.walks, self.widths[0]))
            else:
                layers.append(self.sampler.forward(below, self.widths[d], self.gains[d - 1]))
            below = layers[-1].output
        return layers


def _copied(signal: Signal) -> Signal:
    """Return the signal with its array outside the arena, which the next segment overwrites."""
    return Signal(signal.h.copy(), signal.log_norm)
