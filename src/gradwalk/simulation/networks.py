"""A block of random networks: one forward pass, one backward pass, of which only the walks remain."""

import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.memory import segments
from gradwalk.simulation.sampler import GradientT, LayerSampler, LayerT, OutputT, Sampler
from gradwalk.simulation.tracks import Tracks


class Start(NamedTuple, Generic[OutputT]):
    """Where a segment starts: how to draw it again, what it reads (None for layer 0), and the number of walks."""

    rewind: Callable[[], None]
    below: OutputT | None
    walks: int


class Passes(Generic[LayerT, OutputT]):
    """Networks that are drawn together, forward and back.

    Where not all layers fit in memory they are drawn in segments. The forward pass keeps what each segment reads; the
    backward pass draws a segment again, from the same random numbers, when it reaches it. The last segment is still in
    memory then, and is not drawn twice.
    """

    def __init__(
        self,
        sampler: LayerSampler[LayerT, OutputT],
        widths: tuple[int, ...],
        gains: Array,
        advance: Callable[[int], None],
    ) -> None:
        self._layers, self.widths, self.gains, self.advance = sampler, widths, gains, advance
        self._parts: list[range] = []
        self._starts: list[Start[OutputT]] = []
        self._last: list[LayerT] = []

    def forward(self, walks: int) -> tuple[OutputT, int]:
        """Draw layers 0 to D - 1; return what leaves them, and how many layers were resampled."""
        self._parts, self._starts = segments(type(self._layers), self.widths, walks), []
        below: OutputT | None = None
        resampled = 0
        for part in self._parts:
            self._starts.append(Start(self._layers.mark(), below, walks))
            self._last = self._draw(part, self._starts[-1])
            resampled += sum(layer.resampled for layer in self._last)
            below = self._last[-1].output.detached()
        assert below is not None  # there is at least one layer
        return below, resampled

    def downward(self) -> Iterator[tuple[int, LayerT]]:
        """Yield layers D - 1 to 0 with their number."""
        layers = self._last
        for part, start in zip(reversed(self._parts), reversed(self._starts), strict=True):
            if part is not self._parts[-1]:
                start.rewind()
                layers = self._draw(part, start)
            yield from zip(reversed(part), reversed(layers), strict=True)

    def _draw(self, part: range, start: Start[OutputT]) -> list[LayerT]:
        """Return the layers of a segment."""
        layers: list[LayerT] = []
        below = start.below
        self._layers.arena.clear()
        for d in part:
            if below is None:
                layers.append(self._layers.first(start.walks, self.widths[0]))
            else:
                layers.append(self._layers.forward(below, self.widths[d], self.gains[d - 1]))
            below = layers[-1].output
        return layers


class Networks(Passes[LayerT, OutputT], Generic[LayerT, OutputT, GradientT]):
    """Networks with one gradient each."""

    def __init__(
        self,
        sampler: Sampler[LayerT, OutputT, GradientT],
        widths: tuple[int, ...],
        gains: Array,
        advance: Callable[[int], None],
    ) -> None:
        super().__init__(sampler, widths, gains, advance)
        self.sampler = sampler

    @property
    def luck(self) -> Array | float:
        """Two control variates per walk with expectation 0."""
        return self.sampler.luck

    def walk(self, tracks: Tracks) -> int:
        """Fill the rows of this block, and return how many layers were resampled."""
        log_norm, log_variance, column = tracks.log_norm, tracks.log_variance, tracks.column
        total = np.zeros(len(log_norm))
        below, resampled = self.forward(len(log_norm))
        log_scale, gradient = self.sampler.top(below, self.widths[-1], self.gains[-1])
        log_norm[:, 0], log_variance[:, 0] = 0.0, 2 * log_scale
        for d, layer in self.downward():
            gradient, growth = self.sampler.backward(gradient, layer)
            total += growth + math.log(self.gains[d])
            if d in column:
                log_norm[:, column[d]], log_variance[:, column[d]] = total, 2 * layer.log_scale
            self.advance(1)
        return resampled
