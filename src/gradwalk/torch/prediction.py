"""What theory predicts for the walk of one network: its own weights' scale and its own forward pass are given.

delta of layer d comes from that of layer d + 1 as f'(a_d) * (W^T delta), so the log-norm moves by ln g + (ln z) / 2, z
the step of the activation that layer d + 1 reads, at the fan-in of layer d + 1 and the measured variance q of a_d.
What the forward pass has already shown of W, its product with h, counts too: `shown_by_the_forward_pass`.
Mean and variance of a single step are right to O(1 / fan_in^2); steps are taken as independent.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory import chi, kind, q_map, step

_ORTHOGONAL = 1e-3  # how far the Gram matrix of orthogonal weights may be from a multiple of the identity
_ROWS = 16  # of the weight matrix that are looked at for it
_LEAST_Q, _LARGEST_Q = 1e-6, 1e4  # past these f is homogeneous, and the step depends on q no more
BAND = 1.96  # standard deviations on either side: 95 %


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of the log-norm at every layer, layer 1 first; NaN where it is not known.

    bias: the final mean that all networks with weights of this scale share, less what is the luck of this one.
    """

    mean: Array
    sd: Array
    bias: float


class Move(NamedTuple):
    """Mean and variance of one step of the log-norm; `luck` is the part of the mean that is this network's own."""

    mean: float
    variance: float
    luck: float = 0.0


UNKNOWN = Move(math.nan, math.nan)


def predict(moves: list[Move]) -> Prediction:
    """Return the walk with these steps; the first leads from layer 2 back to layer 1.

    >>> predict([Move(-0.5, 0.01), Move(0.5, 0.03)]).mean
    array([0. , 0.5, 0. ])
    """
    back = np.array(moves, dtype=np.float64).reshape(-1, 3)[::-1]
    total = np.vstack([np.zeros((1, 3)), np.cumsum(back, axis=0)])[::-1]
    return Prediction(total[:, 0], np.sqrt(total[:, 1]), float(total[0, 0] - total[0, 2]))


def log_norm_step(
    activation: Activation, module: nn.Module, q: float, shape: torch.Size, output: Tensor, delta: Tensor
) -> Move:
    """Return mean and variance of ln(|delta_d| / |delta_(d+1)|) for the layer d + 1 that is `module`.

    q: variance of a_d; shape: of what the layer read; output, delta: its own. The actual gain is rms(weight) times the
    root of the inputs read. UNKNOWN where the signal has died or is not finite.
    """
    weight, reads = weight_of(module), inputs_read(module, shape, delta)
    gain = math.sqrt(mean_square(weight) * reads)
    if not (0 < gain < math.inf and 0 < q < math.inf):
        return UNKNOWN
    width, weights = max(1, round(reads)), weights_kind(weight)
    log_q = round(50 * math.log(min(max(q, _LEAST_Q), _LARGEST_Q))) / 50  # so near that many layers share one step
    drift, variance = _step(activation, width, weights, log_q)
    shown = shown_by_the_forward_pass(module, weights, _signal_share(activation, log_q), output, delta)
    luck = shown if kind(activation) == "neutral" else 0.0  # where f bends, the mean of it is not 0
    return Move(math.log(gain) + drift / 2 + shown, variance / 4, luck)


@lru_cache(maxsize=8192)
def _step(activation: Activation, width: int, weights: Weights, log_q: float) -> tuple[float, float]:
    drift, variance = step(activation, width, weights=weights, q=math.exp(log_q))
    return drift, variance


@lru_cache(maxsize=8192)
def _signal_share(activation: Activation, log_q: float) -> float:
    """Return s = E[f'^2 f^2] / (E[f'^2] E[f^2]): how well the direction of the signal itself passes f'; 2 for ReLU."""
    q, f, slope = math.exp(log_q), activation.f, activation.derivative
    both = chi(Activation("", f, lambda a: np.asarray(slope(a)) * f(a), activation.kinks), q)
    return both / (chi(activation, q) * q_map(activation, q))


def shown_by_the_forward_pass(
    module: nn.Module, weights: Weights, share: float, output: Tensor, delta: Tensor
) -> float:
    """Return by how much the log-norm moves because a = W h is known, on average over the examples.

    On the direction of h, W^T delta is (a . delta) / |h|, no longer random: of the N_in parts of |W^T delta|^2 one is
    N_out cos^2(a, delta) instead of 1 on average, and `share` s says how it passes f' compared with the others, so
    that |delta|^2 is multiplied by 1 + s (N_out cos^2 - 1) / N_in, or 1 + (s - 1) (cos^2 - 1 / N_in) for orthogonal W.
    The effect is of order 1 / N_in a layer, and one-sided where f bends: 200 layers of 100 tanh units add up to -0.7.
    Where delta is the output itself, as with a squared error, it is large. For Linear layers; 0 for others.
    """
    if not isinstance(module, nn.Linear):
        return 0.0
    a = output.detach().double() if module.bias is None else output.detach().double() - module.bias.detach().double()
    cosine = nn.functional.cosine_similarity(a, scaled_up(delta), dim=-1, eps=1e-300)
    n_out, n_in = module.out_features, module.in_features
    gaussian, orthogonal = share * (n_out * cosine.square() - 1) / n_in, (share - 1) * (cosine.square() - 1 / n_in)
    moves = torch.log1p(gaussian if weights == "gaussian" else orthogonal) / 2
    return float(moves[torch.isfinite(moves)].mean().nan_to_num())


def scaled_up(delta: Tensor) -> Tensor:
    """Return delta in double precision, its largest entry 1, so that squares of it do not vanish."""
    double = delta.detach().double()
    largest = double.abs().max()
    return double / largest if 0 < float(largest) < math.inf else double


def weight_of(module: nn.Module) -> Tensor:
    """Return the weight of a Linear or Conv layer, whatever parametrisation makes it."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.detach()


def mean_square(weight: Tensor) -> float:
    """Return the mean square of the entries."""
    return float(weight.double().square().mean())


def weights_kind(weight: Tensor) -> Weights:
    """Return "orthogonal" if the rows are so, to 1e-3 and as far as 16 of them show, else "gaussian".

    With more rows than columns, W^T delta fluctuates even if the columns are orthogonal: that counts as Gaussian.
    """
    rows = weight.flatten(1)
    if not 1 < rows.shape[0] <= rows.shape[1]:
        return "gaussian"
    rows = rows[:_ROWS].double()
    gram = rows @ rows.T
    scale = gram.diagonal().mean()
    off = (gram / scale - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).abs().max()
    return "orthogonal" if float(off) < _ORTHOGONAL else "gaussian"


def inputs_read(module: nn.Module, shape: torch.Size, delta: Tensor) -> float:
    """Return the mean number of inputs that an output reads, outputs counted with the weight delta^2.

    At the border a convolution with padding reads fewer than its fan-in, and so hands less gradient back;
    `shape` is that of the layer's input.
    """
    if isinstance(module, nn.Linear):
        return float(module.in_features)
    axes = len(module.kernel_size)  # type: ignore[arg-type]
    counts = _tap_counts(module, shape[-axes:], delta)
    power = scaled_up(delta).square().flatten(0, -axes - 1).sum(dim=0)
    channels = int(module.in_channels) // int(module.groups)  # type: ignore[arg-type]
    total = float(power.sum())
    return channels * (float((power * counts).sum()) / total if total > 0 else float(counts.mean()))


def _tap_counts(module: nn.Module, spatial: tuple[int, ...], delta: Tensor) -> Tensor:
    """Return, at every place of the output, how many of the kernel's taps fall on the input."""
    ones = torch.ones(1, 1, *spatial, dtype=torch.float64)
    kernel = torch.ones(1, 1, *module.kernel_size, dtype=torch.float64)  # type: ignore[misc]
    axes, transposed = len(spatial), "Transpose" in type(module).__name__
    name = f"conv{'_transpose' if transposed else ''}{axes}d"
    options = {"stride": module.stride, "padding": module.padding, "dilation": module.dilation}
    if transposed:
        options["output_padding"] = module.output_padding
    with torch.autocast("cpu", enabled=False):
        return getattr(nn.functional, name)(ones, kernel, **options)[0, 0].to(delta.device)  # type: ignore[no-any-return]
