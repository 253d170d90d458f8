"""The measured walk of the gradient through one network: its numbers, a verdict, a table and a picture."""

import html
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.display import BLUE, INK, RED, Shown, axes_of
from gradwalk.gains import Passage
from gradwalk.torch.along import Block, StreamPoint
from gradwalk.torch.tables import walk_table
from gradwalk.torch.verdict import LIMIT, Judge, Status, bounds, is_deep, times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERS = (
    *("log_norm", "spread", "predicted", "low", "high", "z", "forward", "stuck", "gains", "relative"),
    *("directions", "signal_directions"),
)


class Parameter(NamedTuple):
    """A weight outside the layers of the walk: the class of its module, its gain and ln(|dE/dW| / |W|).

    layer: whether its module multiplies a signal with it, as recurrent and attention modules do.
    """

    name: str
    kind: str
    layer: bool
    gain: float
    relative: float


@dataclass(frozen=True, eq=False, repr=False)
class GradientWalk(Shown):
    """The walk of the gradient through one network, one entry per weight layer, layer 1 first.

    What is unknown is NaN.

    Attributes:
        layers: the names of the weight layers.
        reads: the activation that each layer reads.
        widths: fan-ins.
        log_norm: ln(|delta_d| / |delta_D|), the mean over the examples.
        spread: the standard deviation over the examples.
        forward: ln of the rms of the pre-activations.
        stuck: the share of units that are dead or saturated for all examples, |f'| below 5 % of its largest value; NaN
            for fewer than 8 examples.
        predicted: the mean of the prediction.
        low: the lower end of its 95 % band.
        high: the upper end of its 95 % band.
        z: (log_norm - predicted) / sd.
        gains: rms(W) sqrt(fan-in), by which a layer multiplies the norm of a gradient on average.
        relative: ln(|dE/dW| / |W|).
        directions: how many directions the gradients of the examples span, 1 / <cos^2> over pairs of examples; NaN for
            fewer than 8 examples and for outputs that are no vectors.
        signal_directions: the same for the pre-activations of the examples.
        bias: the mean of the final log-norm over networks with weights of this scale; NaN unless the layers are a
            chain.
        luck: its standard deviation over such networks.
        examples: the number of examples.
        lost: the index of the layer at and below which a plain backward pass leaves the range of its dtype, -1 if there
            is none.
        broken: what is not finite, if anything.
        chain: whether the layers are one path.
        share: that of the weights whose layers were seen.
        zeros: the layers and factors that start at zero or near.
        stream: the places that all paths lead through, empty for a chain; the last takes the part of layer D.
        blocks: the residual branches, empty for a chain.
        parameters: the weights outside these layers.
        notes: what the numbers depend on.
        remedy: what to do, "" where nothing is wrong.
        passage: the way of gradients through the layers, None unless they are a chain of dense layers.
    """

    layers: tuple[str, ...]
    reads: tuple[Activation | None, ...]
    widths: tuple[int, ...]
    log_norm: Array
    spread: Array
    forward: Array
    stuck: Array
    predicted: Array
    low: Array
    high: Array
    z: Array
    gains: Array
    relative: Array
    directions: Array
    signal_directions: Array
    bias: float
    luck: float
    examples: int
    lost: int
    broken: str
    chain: bool = True
    share: float = 1.0
    zeros: tuple[str, ...] = ()
    stream: tuple[StreamPoint, ...] = ()
    blocks: tuple[Block, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: str = ""
    passage: Passage | None = None

    @cached_property
    def predicted_directions(self) -> float:
        """How many directions of independent gradients pass from the output to the first layer of such a network.

        For random weights of these scales, as `gradwalk.directions` samples them; NaN where that is not known. Measured
        are `directions`, of the gradients of a batch, which begin with as many as the loss gives them.
        """
        return math.nan if self.passage is None else self.passage.directions

    @property
    def final(self) -> float:
        """The log-norm at the first layer of a chain, or at the first place of the stream."""
        if self.stream:
            return self.stream[0].log_norm
        return float(self.log_norm[0]) if len(self.layers) else 0.0

    @property
    def factor(self) -> float:
        """The gradient's norm at the first layer over that at the last; 0 or inf beyond double precision."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.final))

    @property
    def is_deep(self) -> bool:
        """Whether the layers are a chain of more than 20 weight matrices, for which the bounds are strict."""
        return is_deep(len(self.layers) - 1, self.chain)

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which log-norms a gradient is fine: a factor of 10 over deep chains, or what luck makes of it.

        In shallower networks, and where sums and norms hold the signal, a gradient may grow by 1000 and shrink by a
        million: models are trained from there every day.
        """
        return bounds(self.is_deep, 1.96 * self.luck)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self)

    @property
    def status(self) -> Status:
        """ "healthy", "vanishing", "exploding", "broken" where something is not finite, or "not measured".

        The gradient of a chain vanishes or explodes between its ends, or by the scale of its weights if it ends near by
        luck; that of other networks along the stream. A single layer whose scale is far from that of the others also
        does it. Where less than half of the weights belong to layers that were seen, the walk is not measured.
        """
        return self._judge.finding.status

    @property
    def from_layer(self) -> str | None:
        """The layer from which on, on the way back, the gradient is off by a factor above 10; None if it ends near."""
        off = np.sign(self.log_norm[:1]) * self.log_norm > math.log(LIMIT)
        return self.layers[int(np.argmin(off)) - 1 if not off.all() else -1] if off[:1].any() else None

    @property
    def matrices(self) -> str:
        """The number of weight matrices between the first layer and the last, in words."""
        return f"{len(self.layers) - 1} weight matrices"

    @property
    def verdict(self) -> str:
        """The status with its reasons and a remedy, in a few sentences."""
        return self._judge.verdict

    def columns(self) -> dict[str, list[Any]]:
        """Return the numbers as named columns, ready for pandas.DataFrame."""
        numbers = {name: getattr(self, name).tolist() for name in _NUMBERS}
        reads = [f.name if f else "?" for f in self.reads]
        return {"layer": list(self.layers), "reads": reads, "width": list(self.widths), **numbers}

    def __repr__(self) -> str:
        ends = f"{times(self.final)} times the norm of the output at layer 1"
        return f"GradientWalk({len(self.layers)} weight layers, {self.status}: {ends})"

    def __str__(self) -> str:
        return walk_table(self)

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}<p>{html.escape(self.verdict)}</p>"

    def assert_healthy(self, limit: float | None = None) -> None:
        """Raise an AssertionError with the verdict unless healthy, or unless 1 / limit <= factor <= limit if given."""
        fine = self.status == "healthy" if limit is None else abs(self.final) <= math.log(limit)
        if self.status in ("broken", "not measured") or not fine:
            raise AssertionError(self.verdict)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the norm of the gradient, from the output back, over the predicted band, and return the axes."""
        panel = axes_of(ax)
        order = np.arange(len(self.layers), 0, -1)

        def norm(log_norm: Array) -> Array:
            return np.asarray(np.exp(np.clip(log_norm[::-1], -690, 690)))

        panel.fill_between(
            order, norm(self.low), norm(self.high), color=BLUE, alpha=0.2, linewidth=0, label="predicted, 95 %"
        )
        panel.plot(order, norm(self.predicted), color=BLUE, linewidth=1, linestyle="--")
        spread = np.nan_to_num(self.spread)
        for side, label in ((-1, "± sd over examples"), (1, None)):
            edge = norm(self.log_norm + side * spread)
            panel.plot(order, edge, color=RED, linewidth=0.8, linestyle=":", label=label)
        panel.plot(order, norm(self.log_norm), color=RED, linewidth=1.5, label="measured")
        panel.axhline(1.0, color=INK, linewidth=0.6)
        panel.set(yscale="log", xlim=(len(self.layers), 1), xlabel="weight layer, from the output back")
        panel.set(
            ylabel=r"$|\delta_d|\,/\,|\delta_D|$",
            title=f"{self.status}: {times(self.final)} times the norm of the output at layer 1",
        )
        panel.legend(frameon=False)
        return panel
