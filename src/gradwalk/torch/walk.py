"""The measured walk of the gradient through one network: its numbers, a verdict, a table and a picture."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.gains import unsteady_message
from gradwalk.torch.tables import walk_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Status = Literal["healthy", "vanishing", "exploding", "broken"]
LIMIT = 10.0  # the factor by which a healthy gradient may shrink or grow, unless an unbiased walk does so more often


@dataclass(frozen=True, eq=False)
class GradientWalk:
    """The walk of the gradient through one network, one entry per weight layer, layer 1 first.

    reads: the activation that each layer reads. widths: fan-ins. log_norm: ln(|delta_d| / |delta_D|), the mean over the
    examples; spread: the standard deviation over them. forward: ln of the rms of the pre-activations. stuck: the share
    of units that are dead or saturated for all examples, |f'| below 5 % of its largest value; NaN for fewer than 8
    examples. predicted, low, high: mean and 95 % band; z: (log_norm - predicted) / sd. All NaN where unknown.
    bias: the final log-norm that weights of this scale give on average. lost: the index of the layer at and below which
    a plain backward pass leaves the range of its dtype, -1 if there is none. broken: what is not finite, if anything.
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
    bias: float
    examples: int
    lost: int
    broken: str
    notes: tuple[str, ...] = ()

    @property
    def factor(self) -> float:
        """The gradient's norm at the first layer over that at the last; 0 or inf beyond double precision."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_norm[0]))

    @property
    def allowed(self) -> float:
        """How far a healthy final log-norm may be from 0: ln 10, or half the 95 % band where that is wider."""
        half_band = (self.high[0] - self.low[0]) / 2
        return max(math.log(LIMIT), half_band if math.isfinite(half_band) else 0.0)

    @property
    def status(self) -> Status:
        """ "healthy", "vanishing", "exploding", or "broken" where something is not finite.

        A walk that ends within what is allowed by luck is not healthy either: one whose weights have a scale with which
        it ends more than a factor of 10 away on average.
        """
        final, expected = self.log_norm[0], self.bias
        if self.broken or math.isnan(final):
            return "broken"
        if abs(final) <= self.allowed:
            final = expected if abs(expected) > math.log(LIMIT) else 0.0
        return "healthy" if final == 0 else "vanishing" if final < 0 else "exploding"

    @property
    def from_layer(self) -> str | None:
        """The layer from which on, on the way back, the gradient is off by a factor above 10; None if it ends near."""
        off = np.sign(self.log_norm[0]) * self.log_norm > math.log(LIMIT)
        return self.layers[int(np.argmin(off)) - 1 if not off.all() else -1] if off[0] else None

    @cached_property
    def verdict(self) -> str:
        """The status with its reasons and a remedy, in a few sentences."""
        if self.status == "broken":
            problem = self.broken or "the gradient is not finite at some layer"
            return f"broken: {problem}; check the inputs and the scale of the weights (gradwalk.torch.init_)."
        first, last, final = self.layers[0], self.layers[-1], self.log_norm[0]
        matrices = f"{len(self.layers) - 1} weight matrices"
        if self.status == "healthy":
            bounds = f"{_times(-self.allowed)} to {_times(self.allowed)}"
            size = f"the gradient's norm at {first} is {_times(final)} times that at {last}"
            return " ".join([f"healthy: {size}, {matrices} away; {bounds} is fine.", *self._unsteady()])
        change = f"{'shrinks' if final < 0 else 'grows'} by a factor of {_times(abs(final))}"
        text = f"{self.status}: from {last} back to {first} the gradient's norm {change} over {matrices}"
        if self.from_layer:
            text += f", and by more than {LIMIT:g} from layer {self.from_layer} on"
        elif abs(self.bias) > math.log(LIMIT):
            text += f"; weights of this scale multiply it by {_times(self.bias)} on average"
        return " ".join([f"{text}.", *self._range(), *(self._unsteady() or self._advice())])

    def _range(self) -> list[str]:
        if self.lost < 0:
            return []
        return [f"From {self.layers[self.lost]} on, a plain backward pass leaves the range of its dtype."]

    def _unsteady(self) -> list[str]:
        """Return one sentence per unsteady activation with which no gain keeps a network of this depth together."""
        sentences = []
        for f in dict.fromkeys(f for f in self.reads if f is not None):
            widths = [width for width, reads in zip(self.widths, self.reads, strict=True) if reads == f]
            message = unsteady_message(f, round(float(np.median(widths))), len(widths))
            sentences += [f"{message}."] if message else []
        return sentences

    def _advice(self) -> list[str]:
        hidden = self.log_norm[0] - self.log_norm[-2] if len(self.layers) > 2 else 0.0
        inner = self.log_norm[min(1, len(self.layers) - 1)]
        if abs(hidden) <= self.allowed or abs(inner) <= self.allowed < abs(inner - self.log_norm[0]):
            place = "output" if abs(hidden) <= self.allowed else "first"
            return [f"Only the {place} layer is off: gradwalk.torch.calibrate_(model, inputs, loss_fn) corrects it."]
        if abs(self.z[0]) > 4:
            return ["Theory does not predict that for these weights: see the notes, or use gradwalk.torch.calibrate_."]
        return ["Initialise the model with gradwalk.torch.init_(model)."]

    def columns(self) -> dict[str, list[Any]]:
        """Return the numbers as named columns, ready for pandas.DataFrame."""
        numbers = {
            name: getattr(self, name).tolist()
            for name in ("log_norm", "spread", "predicted", "low", "high", "z", "forward", "stuck")
        }
        reads = [f.name if f else "?" for f in self.reads]
        return {"layer": list(self.layers), "reads": reads, "width": list(self.widths), **numbers}

    def __str__(self) -> str:
        return walk_table(self)

    def assert_healthy(self, limit: float | None = None) -> None:
        """Raise an AssertionError with the verdict unless healthy, or unless 1 / limit <= factor <= limit if given."""
        fine = self.status == "healthy" if limit is None else abs(self.log_norm[0]) <= math.log(limit)
        if self.status == "broken" or not fine:
            raise AssertionError(self.verdict)

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """Draw the norm of the gradient, from the output back, over the predicted band, and return the figure."""
        figure, panel = axes_of(ax)
        order = np.arange(len(self.layers), 0, -1)

        def norm(log_norm: Array) -> Array:
            return np.asarray(np.exp(np.clip(log_norm[::-1], -690, 690)))

        panel.fill_between(
            order, norm(self.low), norm(self.high), color="#0072B2", alpha=0.2, linewidth=0, label="predicted, 95 %"
        )
        panel.plot(order, norm(self.predicted), color="#0072B2", linewidth=1, linestyle="--")
        spread = np.nan_to_num(self.spread)
        for side, label in ((-1, "± sd over examples"), (1, None)):
            edge = norm(self.log_norm + side * spread)
            panel.plot(order, edge, color="#D55E00", linewidth=0.8, linestyle=":", label=label)
        panel.plot(order, norm(self.log_norm), color="#D55E00", linewidth=1.5, label="measured")
        panel.axhline(1.0, color="#000000", linewidth=0.6)
        panel.set(yscale="log", xlim=(len(self.layers), 1), xlabel="weight layer, from the output back")
        panel.set(
            ylabel=r"$|\delta_d|\,/\,|\delta_D|$",
            title=f"{self.status}: {_times(self.log_norm[0])} times the norm of the output at layer 1",
        )
        panel.legend(frameon=False)
        return figure


def axes_of(ax: "Axes | None") -> "tuple[Figure, Axes]":
    """Return the figure of the axes and the axes themselves, new ones for None."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        message = "plot: matplotlib is needed: pip install 'gradwalk[experiments]'"
        raise ModuleNotFoundError(message, name="matplotlib") from error
    if ax is None:
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        return figure, figure.subplots()
    whole = ax.get_figure(root=True)
    assert whole is not None
    return whole, ax


def _times(log_norm: float) -> str:
    """Return exp(log_norm) to two digits, also beyond the range of doubles."""
    if not math.isfinite(log_norm) or abs(log_norm) < 600:
        return f"{math.exp(log_norm):.2g}" if log_norm < 700 else str(log_norm)
    power, rest = divmod(log_norm / math.log(10), 1)
    return f"{10**rest:.1f}e{power:+.0f}"
