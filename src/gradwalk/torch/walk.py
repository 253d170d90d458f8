"""The walk of the gradient through one network, as it was measured: a table, a picture, a verdict."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.gains import max_depth
from gradwalk.theory import kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIMIT = 10.0  # by what factor a healthy gradient may shrink or grow where an unbiased walk would not do more
_ROWS = 40  # of the printed table


@dataclass(frozen=True, eq=False)
class GradientWalk:
    """The walk of the gradient through one network, one entry a weight layer, layer 1 first.

    log_norm: ln(|delta_d| / |delta_D|), mean over the examples; spread: its standard deviation over them.
    forward: ln of the rms of the pre-activations. stuck: share of units that are dead or saturated for all examples,
    |f'| below 5 % of its greatest value; NaN for fewer than 8 examples. predicted, low, high: mean and 95 % band;
    z: (log_norm - predicted) / sd. NaN where nothing is known.
    bias: the final log-norm that weights of this scale give on average. reads: the activation each layer reads.
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
        """By what the gradient is multiplied on its way from the last layer to the first; 0 or inf past doubles."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_norm[0]))

    @property
    def allowed(self) -> float:
        """How far the final log-norm may be from 0: ln 10, or where an unbiased walk does more, its 95 % band."""
        half_band = (self.high[0] - self.low[0]) / 2
        return max(math.log(LIMIT), half_band if math.isfinite(half_band) else 0.0)

    @property
    def status(self) -> str:
        """ "healthy", "vanishing", "exploding", or "broken" where something is not finite.

        Not healthy is also a walk that was lucky: measured within what is allowed, but ending more than a factor of 10
        away on average over weights of this scale.
        """
        final, expected = self.log_norm[0], self.bias
        if self.broken or math.isnan(final):
            return "broken"
        if abs(final) <= self.allowed:
            final = expected if abs(expected) > math.log(LIMIT) else 0.0
        return "healthy" if final == 0 else "vanishing" if final < 0 else "exploding"

    @property
    def from_layer(self) -> str | None:
        """The layer from which on, on the way back, the gradient stays more than 10-fold off; None if it ends near."""
        off = np.sign(self.log_norm[0]) * self.log_norm > math.log(LIMIT)
        return self.layers[int(np.argmin(off)) - 1 if not off.all() else -1] if off[0] else None

    @cached_property
    def verdict(self) -> str:
        """What is to be said of this walk, and what to do about it, in a few sentences."""
        if self.status == "broken":
            what = self.broken or "the gradient is not finite at some layer"
            return f"broken: {what}; look at the inputs and the scale of the weights (gradwalk.torch.init_)."
        first, last, size = self.layers[0], self.layers[-1], _times(self.log_norm[0])
        matrices = f"{len(self.layers) - 1} weight matrices"
        if self.status == "healthy":
            bound = _times(-self.allowed), _times(self.allowed)
            said = f"healthy: the gradient's norm at {first} is {size} times that at {last}, {matrices} away"
            return " ".join([f"{said}; {bound[0]} to {bound[1]} is fine.", *self._unsteady()])
        verb = "shrinks" if self.log_norm[0] < 0 else "grows"
        said = f"{self.status}: from {last} back to {first} the gradient's norm {verb} {size}-fold over {matrices}"
        if self.from_layer:
            said += f", and is more than {LIMIT:g}-fold off from layer {self.from_layer} on"
        elif abs(self.bias) > math.log(LIMIT):
            said += f"; weights of this scale make it {_times(self.bias)}-fold on average"
        return " ".join([f"{said}.", *self._range(), *(self._unsteady() or self._advice())])

    def _range(self) -> list[str]:
        if self.lost < 0:
            return []
        return [f"From {self.layers[self.lost]} on, a plain backward pass leaves the range of its dtype."]

    def _unsteady(self) -> list[str]:
        """Say of every unsteady activation that it carries the network too deep, and the depth it can serve."""
        said = []
        for f in {f.name: f for f in self.reads if f is not None}.values():
            width = [n for n, g in zip(self.widths, self.reads, strict=True) if g is not None and g.name == f.name]
            if kind(f) == "unsteady" and len(width) > (greatest := max_depth(f, round(float(np.median(width))))):
                said.append(
                    f"{f} is unsteady: no gain holds {len(width)} layers of width {np.median(width):.0f} together, its "
                    f"greatest serviceable depth is {greatest:.0f}; use gradwalk.torch.Steady, or fewer layers."
                )
        return said

    def _advice(self) -> list[str]:
        hidden = self.log_norm[0] - self.log_norm[-2] if len(self.layers) > 2 else 0.0
        inner = self.log_norm[min(1, len(self.layers) - 1)]
        if abs(hidden) <= self.allowed or abs(inner) <= self.allowed < abs(inner - self.log_norm[0]):
            place = "output" if abs(hidden) <= self.allowed else "first"
            return [f"Only the {place} layer is off: gradwalk.torch.calibrate_(model, inputs, loss_fn) mends it."]
        if abs(self.z[0]) > 4:
            return ["Theory does not expect that of these weights: calibrate_ the model on the data, or see its notes."]
        return ["Initialise it with gradwalk.torch.init_(model)."]

    def columns(self) -> dict[str, list[Any]]:
        """Return the numbers as named columns, ready for pandas.DataFrame."""
        numbers = {
            name: getattr(self, name).tolist()
            for name in ("log_norm", "spread", "predicted", "low", "high", "z", "forward", "stuck")
        }
        reads = [f.name if f else "?" for f in self.reads]
        return {"layer": list(self.layers), "reads": reads, "width": list(self.widths), **numbers}

    def __str__(self) -> str:
        head = f"{'layer':<24} {'reads':<14} {'log-norm':>9} {'±':>6} {'predicted':>20}"
        rows = [f"{head} {'z':>6} {'forward':>8} {'stuck':>6}"]
        shown = _shown(len(self.layers))
        for before, place in zip([-1, *shown], shown, strict=False):
            rows += ["..."] if place != before + 1 else []
            band = f"{self.predicted[place]:.2f} ± {(self.high - self.low)[place] / 2:.2f}"
            reads = self.reads[place]
            cells = [
                f"{self.layers[place][-24:]:<24} {(reads.name if reads else '?')[:14]:<14}",
                f"{self.log_norm[place]:>9.2f} {self.spread[place]:>6.2f} {band:>20} {self.z[place]:>6.1f}",
                f"{self.forward[place]:>8.2f} {self.stuck[place]:>6.0%}",
            ]
            rows.append(" ".join(cells).replace("nan%", "   -").replace("nan", "  -"))
        return "\n".join([*rows, *self.notes[:5], self.verdict])

    def assert_healthy(self, limit: float | None = None) -> None:
        """Raise AssertionError with the verdict unless healthy, or unless the factor lies within 1 / limit to limit."""
        fine = self.status == "healthy" if limit is None else abs(self.log_norm[0]) <= math.log(limit)
        if self.status == "broken" or not fine:
            raise AssertionError(self.verdict)

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """Draw the norm of the gradient, from the output back, over the predicted band, and return the figure."""
        figure, panel = axes_of(ax)
        order = np.arange(len(self.layers), 0, -1)
        draw = {name: np.exp(np.clip(getattr(self, name)[::-1], -690, 690)) for name in ("log_norm", "predicted")}
        low, high = (np.exp(np.clip(edge[::-1], -690, 690)) for edge in (self.low, self.high))
        panel.fill_between(order, low, high, color="#0072B2", alpha=0.2, linewidth=0, label="predicted, 95 %")
        panel.plot(order, draw["predicted"], color="#0072B2", linewidth=1, linestyle="--")
        spread = np.nan_to_num(self.spread[::-1])
        least, most = (np.exp(np.clip(self.log_norm[::-1] + side * spread, -690, 690)) for side in (-1, 1))
        for edge, label in ((least, "± sd over examples"), (most, None)):
            panel.plot(order, edge, color="#D55E00", linewidth=0.8, linestyle=":", label=label)
        panel.plot(order, draw["log_norm"], color="#D55E00", linewidth=1.5, label="measured")
        panel.axhline(1.0, color="#000000", linewidth=0.6)
        panel.set(yscale="log", xlim=(len(self.layers), 1), xlabel="weight layer, from the output back")
        panel.set(
            ylabel=r"$|\delta_d|\,/\,|\delta_D|$",
            title=f"{self.status}: from the output to layer 1 times {_times(self.log_norm[0])}",
        )
        panel.legend(frameon=False)
        return figure


def axes_of(ax: "Axes | None") -> "tuple[Figure, Axes]":
    """Return the axes and their figure, new ones if there are none."""
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
    """Return exp(log_norm) to two digits, also where no double can hold it."""
    if not math.isfinite(log_norm) or abs(log_norm) < 600:
        return f"{math.exp(log_norm):.2g}" if log_norm < 700 else str(log_norm)
    power, rest = divmod(log_norm / math.log(10), 1)
    return f"{10**rest:.1f}e{power:+.0f}"


def _shown(count: int) -> list[int]:
    """Return the places that the table shows: all, or the first, the last and some between."""
    if count <= _ROWS:
        return list(range(count))
    between = np.linspace(10, count - 11, 20).round().astype(int).tolist()
    return sorted({*range(10), *between, *range(count - 10, count)})
