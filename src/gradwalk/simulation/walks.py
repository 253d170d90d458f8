"""Many walks at once: networks are drawn in blocks, forward then back, and only their log-norms are kept."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array, Indices
from gradwalk.progress import progress
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.dense import DenseSampler
from gradwalk.simulation.exact import ExactSampler
from gradwalk.simulation.signal import Signal

Job = tuple[int, np.random.SeedSequence]

_SAMPLERS: dict[str, Any] = {"exact": ExactSampler, "dense": DenseSampler}
_THREADS = 4
_KEPT_BYTES = 128e6  # layers of a block that wait for the way back, in each thread
_MARK_BYTES = 256e6  # signals at which segments of layers begin
_HEAVY_BYTES = 4e6  # a layer of a block past this leaves memory for one thread only
_BLOCK_BYTES = 1e6  # otherwise a layer of a block is small enough to stay in the cache,
_LEAST_BYTES = 2e5  # and large enough that NumPy is not kept busy with calls alone
_RESULT_CELLS = 24_000_000  # log_norm and log_variance, 8 bytes each


@dataclass(frozen=True)
class Walks:
    """The walks of many networks, one a row; the columns go the gradient's way, from layer D down to layer 0.

    log_norm: ln(|delta_d| / |delta_D|). log_variance: ln of the variance of the pre-activations of layer d.
    layers: the d of each column. dead: how many layers were drawn anew because nothing passed them.
    luck: two control variates of mean 0, from the lengths of the random vectors; 0 where the sampler has none.
    """

    log_norm: Array = field(repr=False)
    log_variance: Array = field(repr=False)
    layers: Indices = field(repr=False)
    luck: Array = field(repr=False)
    dead: int

    @property
    def final(self) -> Array:
        """The log-norm at layer 0, one value a walk."""
        return np.asarray(self.log_norm[:, -1])

    @property
    def mean(self) -> float:
        """The mean of the final log-norm: 0 for an unbiased walk."""
        return float(self.final.mean())

    @property
    def spread(self) -> float:
        """The standard deviation of the final log-norm over the walks."""
        return float(self.final.std(ddof=1)) if len(self.final) > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """The standard error of `mean`."""
        return self.spread / math.sqrt(len(self.final))


def simulate(
    activation: str | Activation,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    gain: float | Sequence[float],
    walks: int = 400,
    rng: np.random.Generator | int | None = None,
    weights: str = "gaussian",
    method: str = "exact",
    every: int = 1,
) -> Walks:
    """Return the walks of the gradient's log-norm through that many random networks.

    All steps are alike: a_0 is random of unit variance, h_0 = f(a_0), the last step includes f'(a_0), and delta_D is
    a random vector. `width` is one number, or depth + 1 of them, input first; `gain` one, or one a layer, layer 1
    first. Layers in which nothing is active are drawn anew, as in the paper, and counted. `method="dense"` draws the
    matrices. `every=k` keeps every k-th layer of the result, and the last, where all of them would not fit.

    >>> walks = simulate("relu", 100, 50, gain=1.4323, walks=200, rng=1)
    >>> walks.log_norm.shape, abs(walks.mean) < 4 * walks.standard_error
    ((200, 51), True)
    """
    f = activations.activation(activation)
    layers = checks.widths("simulate", width, depth)
    gains = _gains(gain, len(layers) - 1)
    count = checks.whole("simulate", "walks", walks)
    checks.one_of("simulate", "weights", weights, checks.WEIGHTS)
    sampler = _SAMPLERS[checks.one_of("simulate", "method", method, tuple(_SAMPLERS))]
    columns = _columns(len(layers) - 1, checks.whole("simulate", "every", every, most=checks.DEEPEST), count)
    block = _block(sampler, layers, count)
    starts = range(0, count, block)
    jobs = list(zip(starts, _seed(rng).spawn(len(starts)), strict=True))
    log_norm, log_variance = (np.empty((count, len(columns))) for _ in range(2))
    luck = np.empty((count, 2))

    def run(jobs: list[Job], advance: Callable[[int], None]) -> int:
        arena, dead = Arena(min(int(_KEPT_BYTES), block * sum(_layer_bytes(sampler, layers)))), 0
        for start, seed in jobs:
            rows = slice(start, start + block)
            networks = _Networks(sampler(f, weights, arena, seed), layers, gains, advance)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # looked for, and told, elsewhere
                dead += networks.walk(log_norm[rows], log_variance[rows], columns)
            luck[rows] = networks.sampler.luck
        return dead

    heavy = block * max(_layer_bytes(sampler, layers)) > _HEAVY_BYTES
    threads = 1 if heavy else min(len(jobs), _THREADS, os.cpu_count() or 1)
    dead = _in_threads(run, jobs, threads, f"{f} walks", len(jobs) * len(gains))
    if not (np.isfinite(log_norm).all() and np.isfinite(log_variance).all()):
        raise ValueError(f"simulate: the signal or the gradient of {f} leaves what floating point can hold")
    return Walks(log_norm, log_variance, columns, luck, dead)


def _in_threads(run: Callable[..., int], jobs: list[Job], threads: int, label: str, steps: int) -> int:
    """Run the jobs on a few threads, NumPy's work being outside the interpreter's lock; sum what they return.

    Which thread does a job has no influence on its random numbers.
    """
    stop = threading.Event()
    with progress(label, steps) as advance, ThreadPoolExecutor(threads) as pool:

        def step(done: int) -> None:
            if stop.is_set():
                raise InterruptedError
            advance(done)

        try:
            return sum(pool.map(lambda first: run(jobs[first::threads], step), range(threads)))
        except BaseException:
            stop.set()  # an interrupt, or an error in one thread: the others need not finish
            raise


class _Networks:
    """A block of networks, forward and back; layers that do not all fit in memory come in segments.

    A segment is drawn once more when the way back gets to it, from the same random numbers; the last segment,
    and so the only one of a network that fits, is not.
    """

    def __init__(self, sampler: Any, widths: tuple[int, ...], gains: Array, advance: Callable[[int], None]) -> None:
        self.sampler, self.widths, self.gains, self.advance = sampler, widths, gains, advance

    def walk(self, log_norm: Array, log_variance: Array, columns: Indices) -> int:
        """Fill in the rows of the block, and return how many of its layers were dead."""
        walks, dead = len(log_norm), 0
        segments: list[range] = _segments(self.sampler, self.widths, walks)
        marks: list[tuple[Any, Signal | None]] = []
        below: Signal | None = None
        layers: list[Any] = []
        for segment in segments:
            marks.append((self.sampler.mark(), below))
            layers = self._draw(segment, below, walks)
            dead += sum(layer.dead for layer in layers)
            below = Signal(layers[-1].response.signal.h.copy(), layers[-1].response.signal.log_norm)
        log_scale, gradient = self.sampler.top(below, self.widths[-1], self.gains[-1])
        log_norm[:, 0], log_variance[:, 0] = 0.0, 2 * log_scale
        column = {int(layer): index for index, layer in enumerate(columns)}
        total = np.zeros(walks)
        for segment, (mark, below) in zip(reversed(segments), reversed(marks), strict=True):
            if segment is not segments[-1]:
                self.sampler.rewind(mark)
                layers = self._draw(segment, below, walks)
            for d in reversed(segment):
                layer = layers[d - segment.start]
                gradient, growth = self.sampler.backward(gradient, layer)
                total += growth + math.log(self.gains[d])
                if d in column:
                    log_norm[:, column[d]], log_variance[:, column[d]] = total, 2 * layer.log_scale
                self.advance(1)
        return dead

    def _draw(self, segment: range, below: Any, walks: int) -> list[Any]:
        layers: list[Any] = []
        self.sampler.arena.clear()
        for d in segment:
            if d == 0:
                layers.append(self.sampler.first(walks, self.widths[0]))
            else:
                signal = layers[-1].response.signal if layers else below
                layers.append(self.sampler.forward(signal, self.widths[d], self.gains[d - 1]))
        return layers


def _layer_bytes(sampler: Any, widths: tuple[int, ...]) -> list[int]:
    """Return what layers 0 to D - 1 of one walk need until the way back."""
    return [sampler.bytes_a_layer(*pair) for pair in pairwise((0, *widths[:-1]))]


def _segments(sampler: Any, widths: tuple[int, ...], walks: int) -> list[range]:
    """Return layers 0 to D - 1 in runs that stay within the memory allowed for what is kept."""
    edges, kept = [0], 0
    for d, size in enumerate(_layer_bytes(sampler, widths)):
        kept += walks * size
        if kept > _KEPT_BYTES and d > edges[-1]:
            edges.append(d)
            kept = walks * size
    return [range(*pair) for pair in pairwise([*edges, len(widths) - 1])]


def _gains(gain: float | Sequence[float], depth: int) -> Array:
    if isinstance(gain, Sequence | np.ndarray):
        each = [checks.positive("simulate", "gain", g, *checks.GAIN_RANGE) for g in gain]
        if len(each) != depth:
            raise ValueError(f"simulate: gain must be one number or depth={depth} of them, got {len(each)}")
        return np.array(each)
    return np.full(depth, checks.positive("simulate", "gain", gain, *checks.GAIN_RANGE))


def _columns(depth: int, every: int, walks: int) -> Indices:
    """Return the layers to keep, from D down to 0, both included."""
    columns = np.append(np.arange(depth, 0, -every), 0)
    if walks * len(columns) > _RESULT_CELLS:
        room = _RESULT_CELLS // walks - 2
        advice = f"keep fewer layers with every={-(-depth // room)} or " if room > 0 else ""
        raise ValueError(
            f"simulate: {walks} walks of {len(columns)} layers do not fit in memory; {advice}ask for fewer walks"
        )
    return columns


def _block(sampler: Any, widths: tuple[int, ...], walks: int) -> int:
    """Return how many walks go together: few enough for every thread to have some, and for the cache."""
    largest = max(sampler.bytes_a_layer(*pair) for pair in pairwise(widths))
    if largest > _KEPT_BYTES:
        raise ValueError("simulate: matrices of these widths do not fit in memory; use method='exact'")
    least = int(_LEAST_BYTES // largest)
    fitting = max(least, int(_KEPT_BYTES // sum(_layer_bytes(sampler, widths))))
    shared = max(least, -(-walks // _THREADS))
    block = max(1, min(walks, shared, fitting, int(_BLOCK_BYTES // largest)))
    if len(_segments(sampler, widths, block)) * block * max(widths) * 8 > _MARK_BYTES:
        raise ValueError("simulate: networks so wide and so deep at once do not fit in memory")
    return block


def _seed(rng: np.random.Generator | int | None) -> np.random.SeedSequence:
    if rng is not None and not isinstance(rng, np.random.Generator):
        rng = checks.whole("simulate", "rng", rng, least=0, most=2**128)
    words = np.random.default_rng(rng).integers(0, 2**32, 4, dtype=np.uint64)
    return np.random.SeedSequence([int(word) for word in words])
