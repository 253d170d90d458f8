"""The verdict on a measured walk: whether the gradient vanishes or explodes, where, and whether enough was seen."""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gradwalk.gains import unsteady_message

if TYPE_CHECKING:
    from gradwalk.torch.walk import GradientWalk, Parameter

Status = Literal["healthy", "vanishing", "exploding", "broken", "not measured"]
LIMIT = 10.0  # the factor by which a gradient may change over a deep chain, unless an unbiased walk does so more often
_LENIENT = (1e-6, 1e3)  # the same in networks with sums or norms, and in chains of up to 20 weight matrices
_DEEP = 20
_LARGE, _LEAST_LARGE = 40.0, 8.0  # times the median gain, and at least: a layer that makes the gradient explode
_SMALL = 1e-3  # times the median gain: a layer that makes it vanish
_SUSPECT, _STEEP = 5e-3, math.log(300.0)  # a smaller lack of scale counts if its own gradient is this much too large
_FEW = 4  # layers below which there is no typical gain among them, and 1 is taken
_FEW_DIRECTIONS = 2.0  # of the gradients in a deep chain, below which it hardly learns,
_ONE_DIRECTION = 1.1  # and of the signals at its output
_ENOUGH = 0.5  # the share of the weights that must have been seen


class Finding(NamedTuple):
    """A status and its reason; layer: the one that alone is at fault, "" if none is."""

    status: Status
    text: str
    layer: str = ""


class _Scale(NamedTuple):
    """The gain of a weight, that of its peers, and ln(|dE/dW| / |W|).

    sure: whether the peers are alike enough for a finer comparison.
    """

    name: str
    gain: float
    peers: float
    sure: bool
    relative: float

    @property
    def role(self) -> str:
        """The name without numbers, which the weights of the same place in other blocks share."""
        return re.sub(r"\d+", "#", self.name)


@dataclass(frozen=True)
class Judge:
    """Comes to a verdict on a walk."""

    walk: "GradientWalk"

    @cached_property
    def finding(self) -> Finding:
        """The first that applies: something not finite, the walk, a single layer, too little seen; else healthy."""
        walk = self.walk
        if walk.broken or math.isnan(walk.final):
            return Finding("broken", walk.broken or "the gradient is not finite at some layer")
        return self._walked() or self._faulty() or self._unmeasured() or self._healthy()

    def _walked(self) -> Finding | None:
        walk = self.walk
        final = self.offence
        if final == 0 and walk.is_deep and abs(walk.bias) > math.log(LIMIT):
            final = walk.bias
        if final == 0 or (final < 0 and walk.zeros) or (final == -math.inf and not walk.chain):
            return None
        status: Status = "vanishing" if final < 0 else "exploding"
        return Finding(status, self._way(status))

    @cached_property
    def offence(self) -> float:
        """The log-norm that is too far from 0, 0 if none is: the final one of a chain, any one along a stream."""
        walk = self.walk
        logs = [point.log_norm for point in walk.stream] or [walk.final if walk.chain else 0.0]
        low, high = walk.bounds
        beyond = [log for log in logs if not low <= log <= high and not math.isnan(log)]
        return max(beyond, key=abs, default=0.0)

    def _way(self, status: Status) -> str:
        walk = self.walk
        final = self.offence or walk.final
        change = f"{'shrinks' if final < 0 else 'grows'} by a factor of {times(abs(final))}"
        if walk.stream:
            place = next(point.name for point in walk.stream if point.log_norm == final)
            return f"along the stream, from {walk.stream[-1].name} back to {place}, the gradient's norm {change}"
        text = f"from {walk.layers[-1]} back to {walk.layers[0]} the gradient's norm {change} over {walk.matrices}"
        if walk.from_layer:
            return f"{text}, and by more than {LIMIT:g} from layer {walk.from_layer} on"
        if abs(walk.bias) > math.log(LIMIT):
            return f"{text}; weights of this scale multiply it by {times(walk.bias)} on average"
        return text

    def _faulty(self) -> Finding | None:
        """Return what is wrong with a single layer, compared with those like it, if anything is."""
        off = [each for each in self.scales if self._is_off(each)]
        if not off:
            return None
        worst = max(off, key=lambda each: abs(math.log(each.gain / each.peers)))
        status: Status = "exploding" if worst.gain > worst.peers else "vanishing"
        share = f"it multiplies the norm of the gradient by {times(math.log(worst.gain))} on average"
        return Finding(status, f"at {worst.name}: {share}, others by about {worst.peers:.2g}", worst.name)

    @cached_property
    def scales(self) -> list[_Scale]:
        """The scales of all weights, those of layers first."""
        walk = self.walk
        gains, relative = walk.gains.tolist(), walk.relative.tolist()
        own = [_Scale(walk.layers[run], gains[run], self.typical, True, relative[run]) for run in self._first_runs]
        return own + [_Scale(each.name, each.gain, *self._peers(each), each.relative) for each in walk.parameters]

    def _peers(self, each: "Parameter") -> tuple[float, bool]:
        """Return the gain of the weights that one is to be compared with, and whether they are enough to tell."""
        if each.layer:
            return self.typical, True
        gains = [other.gain for other in self.walk.parameters if other.kind == each.kind and 0 < other.gain < math.inf]
        return (median(gains), True) if len(gains) >= _FEW else (self.typical, False)

    @cached_property
    def typical(self) -> float:
        """The median gain of the layers, 1 if there are too few."""
        return min(max(median(self.positive), 1e-3), 3.0) if len(self.positive) >= _FEW else 1.0

    @cached_property
    def positive(self) -> list[float]:
        """The gains of the layers that are not zero, each counted once, however often it runs."""
        return [gain for gain in self.walk.gains[self._first_runs] if 0 < gain < math.inf] or [1.0]

    @cached_property
    def _first_runs(self) -> list[int]:
        """The places of the first run of each layer; further ones have a number after their name."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.walk.layers):
            places.setdefault(name.partition("#")[0], place)
        return list(places.values())

    def _is_off(self, each: _Scale) -> bool:
        if not 0 < each.gain < math.inf:
            return False
        if each.gain > 10 * max(_LARGE * self.typical, _LEAST_LARGE):
            return True
        if each.sure and each.gain > max(_LARGE * each.peers, _LEAST_LARGE):
            return True
        return self._is_small(each) and not self._is_small_by_design(each)

    def _is_small(self, each: _Scale) -> bool:
        """Return whether a weight is far too small for its peers; without like ones, its own gradient must agree.

        The gradient of a weight does not depend on its scale, or grows as that falls, so that relative to the weight it
        is too large at least by the factor that the weight is too small.
        """
        least = _SMALL * each.peers
        if each.sure:
            return each.gain < least or (each.gain < _SUSPECT * each.peers and self._is_steep(each))
        return each.gain < least and self._is_steep(each)

    def _is_steep(self, each: _Scale) -> bool:
        others = [other.relative for other in self.scales if other is not each and math.isfinite(other.relative)]
        return bool(others) and each.relative - median(others) > _STEEP

    def _is_small_by_design(self, each: _Scale) -> bool:
        """Return whether the weights of the same role in other blocks are as small, as those of gates may be."""
        alike = [other.gain for other in self.scales if other.role == each.role and other is not each]
        return bool(alike) and median(alike) < _SUSPECT * each.peers

    def _unmeasured(self) -> Finding | None:
        walk = self.walk
        if walk.share < _ENOUGH:
            share = f"{walk.share:.0%} of the weights" if walk.share >= 0.01 else "next to none of the weights"
            unseen = ", ".join(dict.fromkeys(each.kind for each in walk.parameters)) or "layers that ran out of sight"
            return Finding(
                "not measured", f"{share} belong to layers whose gradient was seen; the others are in {unseen}"
            )
        if self.offence < 0 and walk.zeros:
            return Finding(
                "not measured", f"{walk.zeros[0]} starts at zero or near, so that hardly any gradient passes it"
            )
        if self.offence < 0:
            dead = next(point.name for point in walk.stream if point.log_norm == -math.inf)
            return Finding("not measured", f"the gradient is exactly zero at {dead}, so that nothing reaches it")
        return None

    def _healthy(self) -> Finding:
        walk = self.walk
        if not walk.stream and not walk.chain:
            gains = f"{min(self.positive):.2g} to {max(self.positive):.2g}"
            return Finding("healthy", f"the gains of the layers are {gains}; no place has all paths through it")
        first, last = (walk.stream[0].name, walk.stream[-1].name) if walk.stream else (walk.layers[0], walk.layers[-1])
        size = f"the gradient's norm at {first} is {times(walk.final)} times that at {last}"
        way = ", along the stream" if walk.stream else f", {walk.matrices} away"
        low, high = walk.bounds
        return Finding("healthy", f"{size}{way}; {times(low)} to {times(high)} is fine")

    @cached_property
    def verdict(self) -> str:
        """The status with its reasons and a remedy, in a few sentences."""
        status, text, _ = self.finding
        sentence = f"{status}: {text}." if not text.startswith("at ") else f"{status} {text}."
        if status == "healthy":
            return " ".join([sentence, *self._narrow(), *self._unsteady()])
        if status in ("broken", "not measured"):
            return " ".join([sentence, *[self.walk.remedy] * bool(self.walk.remedy)])
        return " ".join([sentence, *self._range(), *(self._unsteady() or [self.walk.remedy] * bool(self.walk.remedy))])

    def _range(self) -> list[str]:
        walk = self.walk
        if walk.lost < 0 or not walk.chain:
            return []
        return [f"From {walk.layers[walk.lost]} on, a plain backward pass leaves the range of its dtype."]

    def _narrow(self) -> list[str]:
        """Return a sentence if the examples become alike on their way through a deep chain, back or forward."""
        walk = self.walk
        if not walk.is_deep:
            return []
        back, ahead = np.nan_to_num(walk.directions, nan=np.inf), np.nan_to_num(walk.signal_directions, nan=np.inf)
        place, units = int(np.argmin(back)), min(walk.widths[1:])
        if back[place] < min(_FEW_DIRECTIONS, back[-1] / 2):
            predicted = walk.predicted_directions
            beside = f" ({predicted:.1f} predicted)" if predicted == predicted else ""
            found = f"only {back[place]:.1f} directions of {units} pass{beside}, at {walk.layers[place]}: "
            found += "all examples pull alike"
        elif ahead[-1] < min(_ONE_DIRECTION, ahead[0] / 2):
            found = f"only {ahead[-1]:.1f} directions of {units} reach the output: all inputs look alike there"
        else:
            return []
        f = next((each.name for each in reversed(walk.reads) if each is not None), "?")
        call = f"gradwalk.advise({f!r}, width={round(median(walk.widths[1:]))}, depth={len(walk.layers)})"
        return [f"The norm is healthy, but {found}, so that learning is slow or fails; {call} ranks what helps."]

    def _unsteady(self) -> list[str]:
        """Return one sentence per unsteady activation with which no gain keeps a chain of this depth together."""
        walk, sentences = self.walk, []
        if not walk.chain:
            return []
        for f in dict.fromkeys(f for f in walk.reads if f is not None):
            widths = [width for width, reads in zip(walk.widths, walk.reads, strict=True) if reads == f]
            message = unsteady_message(f, round(float(np.median(widths))), len(widths))
            sentences += [f"{message}."] if message else []
        return sentences


def is_deep(matrices: int, chain: bool) -> bool:
    """Return whether a network is a chain of many weight matrices, for which the limits are strict."""
    return chain and matrices > _DEEP


def bounds(deep: bool, half_band: float) -> tuple[float, float]:
    """Return between which log-norms a gradient is fine; half_band: what luck may do, NaN where it is not known."""
    low, high = (1 / LIMIT, LIMIT) if deep else _LENIENT
    half_band = half_band if math.isfinite(half_band) else 0.0
    return min(math.log(low), -half_band), max(math.log(high), half_band)


def times(log_norm: float) -> str:
    """Return exp(log_norm) to two digits, also beyond the range of doubles."""
    if not math.isfinite(log_norm) or abs(log_norm) < 600:
        return f"{math.exp(log_norm):.2g}" if log_norm < 700 else str(log_norm)
    power, rest = divmod(log_norm / math.log(10), 1)
    return f"{10**rest:.1f}e{power:+.0f}"
