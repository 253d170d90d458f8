"""Weights at whose scale the gradient does an unbiased walk: `random_walk_` for a tensor, `init_` for a model.

The numbers come from `gradwalk.gain`, the random draws from torch's own samplers with the generator that is passed.
"""

import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import nn

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import SERVICEABLE, GainEstimate, UnsteadyWarning, max_depth, solve_gain
from gradwalk.gains import gain as unbiased_gain
from gradwalk.torch.layers import LeftAlone, WeightLayer, find_layers
from gradwalk.torch.modules import TRANSPOSED, is_conv1d


class InitRow(NamedTuple):
    """What `init_` did to one layer.

    drift: the mean move of the log-norm over this layer, 0 by construction, None where the theory does not reach;
    exact: whether that holds exactly or as an average over the whole walk, to within the error of the gain.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    gain: float
    std: float
    drift: float | None
    exact: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InitReport:
    """What `init_` did, a row a layer, what it left alone, and its remarks; prints as a table."""

    rows: tuple[InitRow, ...]
    left: tuple[LeftAlone, ...]
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*_table(self.rows), *_left_lines(self.left), *_wrapped(self.remarks)])


def random_walk_(
    tensor: torch.Tensor,
    activation: str | Activation = "linear",
    *,
    gain: float | None = None,
    weights: Weights = "gaussian",
    depth: int | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Fill `tensor` in place with weights of standard deviation g / sqrt(fan_in), and return it.

    `activation` is the one whose output the layer reads ("linear" for the first layer), g its unbiased gain or the
    `gain` given. The tensor is (out, in) or (out, in, *kernel). tanh and others that are not neutral need `depth`, the
    number of layers the gradient walks over. Orthogonal weights have orthogonal rows, or columns where those are fewer,
    scaled so that their entries have the same variance.

    >>> w = random_walk_(torch.empty(300, 100), "relu", generator=torch.Generator().manual_seed(0))
    >>> round(w.std().item() * 100**0.5, 2)
    1.43
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"random_walk_: tensor must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.ndim < 2:
        raise ValueError(f"random_walk_: tensor must be (out, in) or (out, in, *kernel), got {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise TypeError(f"random_walk_: tensor must hold floating-point numbers, got {tensor.dtype}")
    checks.one_of("random_walk_", "weights", weights, checks.WEIGHTS)
    f = activations.activation(activation)
    if gain is not None:
        checks.positive("random_walk_", "gain", gain)
    if tensor.numel() == 0:
        return tensor
    fan_in = tensor[0].numel()
    scale = unbiased_gain(f, fan_in, depth, weights=weights) if gain is None else gain
    with torch.no_grad():
        _fill_(tensor, scale / math.sqrt(fan_in), weights, generator)
    return tensor


def init_(
    model: nn.Module,
    activation: str | Activation | None = None,
    *,
    example: Any = None,
    weights: Weights = "gaussian",
    generator: torch.Generator | None = None,
) -> InitReport:
    """Initialise every Linear and convolution of a model in place so that its gradient does an unbiased walk.

    Each layer's gain is that of the activation whose output it reads at its fan-in (see `find_layers`, which also says
    how `activation` and `example` help); biases become 0. Where the gain depends on depth, the walk has one step less
    than the longest path has weight layers. A layer behind a norm, a residual connection or attention, or that feeds
    one, gets the plain rule, a walk of one step, and the report says that the theory does not reach there.
    Warns with UnsteadyWarning where no gain keeps networks of that depth together.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> [round(row.gain, 4) for row in init_(net).rows]
    [1.0673, 2.0236]
    """
    checks.one_of("init_", "weights", weights, checks.WEIGHTS)
    layers = find_layers(model, activation, example)
    if not layers.found:
        reasons = "; ".join(dict.fromkeys(f"{each.kind}: {each.why}" for each in layers.left)) or "it has none"
        raise ValueError(f"init_: no layer of {type(model).__name__} can be initialised ({reasons})")
    gains = _Gains(max(layers.depth - 1, 1), weights)
    estimates = [gains.of(layer) for layer in layers.found]
    rows = tuple(_row(layer, each, weights) for layer, each in zip(layers.found, estimates, strict=True))
    with torch.no_grad():
        for layer, row in zip(layers.found, rows, strict=True):
            _draw_(layer, row.std, weights, generator)
    remark = gains.unsteady()
    if remark:
        warnings.warn(f"init_: {remark}", UnsteadyWarning, stacklevel=2)
    return InitReport(rows, tuple(layers.left), (remark,) if remark else ())


class _Gains:
    """The gains of one model, each looked up once for an activation, a fan-in and a number of steps."""

    def __init__(self, steps: int, weights: Weights) -> None:
        self.steps = steps
        self.weights = weights
        self.known: dict[tuple[Activation, int, int], GainEstimate] = {}

    def of(self, layer: WeightLayer) -> GainEstimate:
        key = layer.activation, layer.fan_in, 1 if _is_outside(layer) else self.steps
        if key not in self.known:
            self.known[key] = _solved(*key, self.weights)
        return self.known[key]

    def unsteady(self) -> str:
        """Return a sentence on the layers whose walk spreads the most, if past what is serviceable, or ""."""
        found = {key: each for key, each in self.known.items() if each.kind == "unsteady" and each.spread > SERVICEABLE}
        if not found:
            return ""
        worst = max(found, key=lambda key: found[key].spread)
        f, fan_in, steps = worst
        limit = max_depth(f, fan_in, weights=self.weights)
        return (
            f"{f} is unsteady: over {steps} steps the final log-norm has a spread of {found[worst].spread:.1f} "
            f"whatever the gain; at width {fan_in} the greatest serviceable depth (spread {SERVICEABLE:g}) is "
            f"{limit:.0f}; gradwalk.torch.Steady(activation, scale=100) is a remedy"
        )


@lru_cache(maxsize=256)
def _solved(activation: Activation, fan_in: int, steps: int, weights: Weights) -> GainEstimate:
    return solve_gain(activation, fan_in, steps, weights=weights)


def _is_outside(layer: WeightLayer) -> bool:
    return any(note.endswith("outside the theory") for note in layer.notes)


def _row(layer: WeightLayer, estimate: GainEstimate, weights: Weights) -> InitRow:
    shape = tuple(_weight(layer).shape)
    wider = weights == "orthogonal" and shape[0] > layer.fan_in  # the gain is that of a square matrix
    return InitRow(
        name=layer.name,
        shape=shape,
        activation=layer.activation.name,
        gain=estimate.value,
        std=estimate.value / math.sqrt(layer.fan_in),
        drift=None if _is_outside(layer) else 0.0,
        exact=estimate.kind == "neutral" and not layer.notes and not wider,
        notes=layer.notes,
    )


def _weight(layer: WeightLayer) -> torch.Tensor:
    weight = layer.module._parameters["weight"]
    assert weight is not None
    return weight


def _draw_(layer: WeightLayer, std: float, weights: Weights, generator: torch.Generator | None) -> None:
    """Draw the weights of a layer group by group, an output channel a row, and make its bias 0."""
    weight, bias = _weight(layer), layer.module.bias
    if weights == "gaussian":
        _fill_(weight, std, weights, generator)
    else:
        inputs_first = isinstance(layer.module, TRANSPOSED) or is_conv1d(layer.module)
        for group in weight.chunk(int(getattr(layer.module, "groups", 1))):  # groups are along the first axis in both
            rows = group.transpose(0, 1) if inputs_first else group
            _fill_(rows, std, weights, generator)
    if isinstance(bias, torch.Tensor):
        bias.zero_()


def _fill_(tensor: torch.Tensor, std: float, weights: Weights, generator: torch.Generator | None) -> None:
    if weights == "gaussian":
        tensor.normal_(0.0, std, generator=generator)
    else:
        rows, columns = len(tensor), tensor[0].numel()
        exact = torch.float64 if tensor.dtype == torch.float64 else torch.float32  # QR knows no half precision
        matrix = torch.empty(rows, columns, dtype=exact, device=tensor.device)
        nn.init.orthogonal_(matrix, std * math.sqrt(max(rows, columns)), generator=generator)
        tensor.copy_(matrix.view(tensor.shape))


# The report as text, at most 100 columns wide.


def _table(rows: Iterable[InitRow]) -> list[str]:
    marks: dict[str, str] = {}
    cells = [("layer", "shape", "reads", "gain", "std", "drift", "")]
    for row in rows:
        keys = [marks.setdefault(note, f"[{len(marks) + 1}]") for note in row.notes]
        drift = "-" if row.drift is None else f"{'' if row.exact else '~'}{row.drift:g}"
        shape = "x".join(map(str, row.shape))
        cells.append((row.name, shape, row.activation, f"{row.gain:.4f}", f"{row.std:.5f}", drift, "".join(keys)))
    limits = (36, 18, 16, 8, 9, 5, 99)
    widths = [min(limit, max(map(len, column))) for limit, column in zip(limits, zip(*cells, strict=True), strict=True)]
    lines = ["  ".join(_fit(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return [*lines, *(f"{mark} {note}" for note, mark in marks.items()), *_key(cells)]


def _key(cells: Sequence[tuple[str, ...]]) -> list[str]:
    signs = {line[5][0] for line in cells[1:]}
    said = {"~": "~0: an estimate", "-": "-: none predicted"}
    told = [said[sign] for sign in said if sign in signs]
    return ["drift: " + "; ".join(["0: exact", *told])] if told else []


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else "…" + text[1 - width :]


def _left_lines(left: Iterable[LeftAlone]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for each in left:
        groups.setdefault((each.kind, each.why), []).append(each.name)
    lines = []
    for (kind, why), names in groups.items():
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        lines.append(f"left alone: {', '.join(names[:2])}{more} ({kind}): {why}")
    return _wrapped(lines)


def _wrapped(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, 100, subsequent_indent="  ")]
