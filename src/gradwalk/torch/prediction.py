"""The predicted walk of one network, given the scale of its weights and its forward pass.

delta of layer d follows from that of layer d + 1 as f'(a_d) * (W^T delta), so the log-norm changes by
ln g + (ln z) / 2, where ln z is the step of the activation that layer d + 1 reads, at the fan-in of layer d + 1 and the
measured variance q of a_d. What the forward pass already shows of W, its product with h, is included: see
`shown_by_the_forward_pass`.
Mean and variance of a single step are accurate to O(1 / fan_in^2); steps are taken as independent.
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
from gradwalk.torch.weight_layers import TRANSPOSED, fan_in, is_dense, output_rows, weight_of

_ORTHOGONAL = 1e-3  # how far the Gram matrix of orthogonal weights may be from a multiple of the identity
_ROWS = 16  # rows of the weight matrix that this is checked on
_LEAST_Q, _LARGEST_Q = 1e-6, 1e4  # beyond these f is homogeneous, and the step no longer depends on q
BAND = 1.96  # standard deviations on either side: 95 %


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of the log-norm per layer, layer 1 first; NaN where unknown.

    bias: the final mean over all networks with weights of this scale, without what is particular to this one.
    """

    mean: Array
    sd: Array
    bias: float


class Move(NamedTuple):
    """Mean and variance of one step of the log-norm; `luck` is the part of the mean particular to this network."""

    mean: float
    variance: float
    luck: float = 0.0


UNKNOWN = Move(math.nan, math.nan)


def predict(moves: list[Move]) -> Prediction:
    """Return the walk with these steps, the first of which leads from layer 2 back to layer 1.

    >>> predict([Move(-0.5, 0.01), Move(0.5, 0.03)]).mean
    array([0. , 0.5, 0. ])
    """
    back = np.array(moves, dtype=np.float64).reshape(-1, 3)[::-1]
    total = np.vstack([np.zeros((1, 3)), np.cumsum(back, axis=0)])[::-1]
    return Prediction(total[:, 0], np.sqrt(total[:, 1]), float(total[0, 0] - total[0, 2]))


def log_norm_step(
    activation: Activation, module: nn.Module, q: float, shape: torch.Size, output: Tensor, delta: Tensor
) -> Move:
    """Return mean and variance of ln(|delta_d| / |delta_(d+1)|), where `module` is layer d + 1.

    q: the variance of a_d. shape: of the layer's input. output, delta: of the layer. The actual gain is rms(weight)
    times the square root of the number of inputs read. UNKNOWN where the signal is 0 or not finite.
    """
    weight, reads = weight_of(module), inputs_read(module, shape, delta)
    gain = math.sqrt(mean_square(weight) * reads)
    if not (0 < gain < math.inf and 0 < q < math.inf):
        return UNKNOWN
    rows = output_rows(module, weight) if is_dense(module) else weight
    width, weights = max(1, round(reads)), weights_kind(rows)
    log_q = round(50 * math.log(min(max(q, _LEAST_Q), _LARGEST_Q))) / 50  # coarse, so that many layers share one step
    drift, variance = _step(activation, width, weights, log_q)
    shown = shown_by_the_forward_pass(module, weights, _signal_share(activation, log_q), output, delta)
    luck = shown if kind(activation) == "neutral" else 0.0  # for other activations its mean is not 0
    return Move(math.log(gain) + drift / 2 + shown, variance / 4, luck)


@lru_cache(maxsize=8192)
def _step(activation: Activation, width: int, weights: Weights, log_q: float) -> tuple[float, float]:
    drift, variance = step(activation, width, weights=weights, q=math.exp(log_q))
    return drift, variance


@lru_cache(maxsize=8192)
def _signal_share(activation: Activation, log_q: float) -> float:
    """Return s = E[f'^2 f^2] / (E[f'^2] E[f^2]): how well the direction of the signal passes f'; 2 for ReLU."""
    q, f, slope = math.exp(log_q), activation.f, activation.derivative
    both = chi(Activation("", f, lambda a: np.asarray(slope(a)) * f(a), activation.kinks), q)
    return both / (chi(activation, q) * q_map(activation, q))


def shown_by_the_forward_pass(
    module: nn.Module, weights: Weights, share: float, output: Tensor, delta: Tensor
) -> float:
    """Return by how much the log-norm changes because a = W h is known, on average over the examples.

    In the direction of h, W^T delta is (a . delta) / |h| and no longer random: of the N_in components of |W^T delta|^2
    one is N_out cos^2(a, delta) instead of 1 on average, and the `share` s is how well it passes f' compared with the
    others. So |delta|^2 is multiplied by 1 + s (N_out cos^2 - 1) / N_in, or 1 + (s - 1) (cos^2 - 1 / N_in) for
    orthogonal W. The effect is of order 1 / N_in per layer, and has one sign unless f is homogeneous: over 200 layers
    of 100 tanh units it sums to -0.7. It is large where delta is the output itself, as with a squared error. Dense
    layers only; 0 for convolutions.
    """
    if not is_dense(module):
        return 0.0
    a, bias = output.detach().double(), module.bias
    a = a - bias.detach().double() if isinstance(bias, Tensor) else a
    cosine = nn.functional.cosine_similarity(a, scaled_up(delta), dim=-1, eps=1e-300)
    n_out, n_in = a.shape[-1], fan_in(module)
    gaussian, orthogonal = share * (n_out * cosine.square() - 1) / n_in, (share - 1) * (cosine.square() - 1 / n_in)
    moves = torch.log1p(gaussian if weights == "gaussian" else orthogonal) / 2
    return float(moves[torch.isfinite(moves)].mean().nan_to_num())


def scaled_up(delta: Tensor) -> Tensor:
    """Return delta in double precision, scaled so that its largest entry is 1 and squares do not underflow."""
    double = delta.detach().double()
    largest = double.abs().max()
    return double / largest if 0 < float(largest) < math.inf else double


def mean_square(weight: Tensor) -> float:
    """Return the mean square of the entries."""
    return float(weight.double().square().mean())


def weights_kind(weight: Tensor) -> Weights:
    """Return "orthogonal" if the first 16 rows are orthogonal to within 1e-3, else "gaussian".

    With more rows than columns, W^T delta fluctuates even if the columns are orthogonal, so that counts as Gaussian.
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
    """Return the mean number of inputs that an output reads, with outputs weighted by delta^2.

    At its border a padded convolution reads fewer inputs than its fan-in, and so passes less gradient back. `shape` is
    that of the layer's input.
    """
    if is_dense(module):
        return float(fan_in(module))
    axes = len(module.kernel_size)  # type: ignore[arg-type]
    counts = _tap_counts(module, shape[-axes:], delta)
    power = scaled_up(delta).square().flatten(0, -axes - 1).sum(dim=0)
    channels = int(module.in_channels) // int(module.groups)  # type: ignore[arg-type]
    total = float(power.sum())
    return channels * (float((power * counts).sum()) / total if total > 0 else float(counts.mean()))


def _tap_counts(module: nn.Module, spatial: tuple[int, ...], delta: Tensor) -> Tensor:
    """Return, per position of the output, how many of the kernel's taps fall on the input."""
    ones = torch.ones(1, 1, *spatial, dtype=torch.float64)
    kernel = torch.ones(1, 1, *module.kernel_size, dtype=torch.float64)  # type: ignore[misc]
    axes, transposed = len(spatial), isinstance(module, TRANSPOSED)
    name = f"conv{'_transpose' if transposed else ''}{axes}d"
    options = {"stride": module.stride, "padding": module.padding, "dilation": module.dilation}
    if transposed:
        options["output_padding"] = module.output_padding
    with torch.autocast("cpu", enabled=False):
        return getattr(nn.functional, name)(ones, kernel, **options)[0, 0].to(delta.device)  # type: ignore[no-any-return]
