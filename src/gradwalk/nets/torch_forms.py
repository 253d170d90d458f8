"""The built-in activations as operations of torch that work in place, forward and backward, on any device."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.nn import functional

Tensor = torch.Tensor
_aten = torch.ops.aten


@dataclass(frozen=True)
class TorchForm:
    """One family of activations; the last argument of both functions is the family's parameter, 0 if it has none.

    forward: replaces a by f(a). backward: multiplies delta in place by f'(a), given a; or given f(a) if `from_output`.
    uniform: whether a CPU computes a number alike wherever it lies in memory, so that a network gives the same bits
    alone and in a stack (measured at lengths up to 70,003; gelu of a single number is the exception). Others have
    different code for the last few numbers.
    """

    forward: Callable[[Tensor, float], object]
    backward: Callable[[Tensor, Tensor, float], object]
    from_output: bool = False
    uniform: bool = True


def _elu_backward(delta: Tensor, a: Tensor, alpha: float) -> None:
    _aten.elu_backward.grad_input(delta, alpha, 1.0, 1.0, False, a, grad_input=delta)


def _selu_backward(delta: Tensor, a: Tensor, _: float) -> None:
    _aten.elu_backward.grad_input(delta, *_SELU, 1.0, False, a, grad_input=delta)


def _softplus(a: Tensor, beta: float) -> None:
    _aten.softplus.out(a, beta, _LINEAR_FROM, out=a)


def _softplus_backward(delta: Tensor, a: Tensor, beta: float) -> None:
    _aten.softplus_backward.grad_input(delta, a, beta, _LINEAR_FROM, grad_input=delta)


def _gelu(a: Tensor, _: float) -> None:
    for (part,) in _in_one_piece(a):
        _aten.gelu_(part)


def _gelu_backward(delta: Tensor, a: Tensor, _: float) -> None:
    for part, part_a in _in_one_piece(delta, a):
        _aten.gelu_backward.grad_input(part, part_a, grad_input=part)


def _in_one_piece(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Return the networks one by one on a CPU, where torch has another gelu, with other bits, for memory with gaps."""
    whole = tensors[0].device.type != "cpu" or all(each.is_contiguous() for each in tensors)
    return [tensors] if whole else zip(*(each.unbind() for each in tensors), strict=True)


def _erf_backward(delta: Tensor, a: Tensor, _: float) -> None:
    delta.mul_(a.square().neg_().exp_().mul_(2 / math.sqrt(math.pi)))


def _softsign(a: Tensor, _: float) -> None:
    a.div_(a.abs().add_(1))


def _softsign_backward(delta: Tensor, a: Tensor, _: float) -> None:
    delta.div_(a.abs().add_(1).square_())


_SELU = (1.6732632423543772, 1.0507009873554805)  # alpha, scale
_LINEAR_FROM = 20.0  # torch takes softplus for linear from there, where it is so to single precision

FORMS = {
    "relu": TorchForm(
        lambda a, _: a.clamp_min_(0),
        lambda delta, h, _: _aten.threshold_backward.grad_input(delta, h, 0, grad_input=delta),
        from_output=True,
    ),
    "leaky_relu": TorchForm(
        lambda a, slope: functional.leaky_relu_(a, slope),
        lambda delta, a, slope: _aten.leaky_relu_backward.grad_input(delta, a, slope, False, grad_input=delta),
    ),
    "tanh": TorchForm(
        lambda a, _: a.tanh_(),
        lambda delta, h, _: _aten.tanh_backward.grad_input(delta, h, grad_input=delta),
        from_output=True,
    ),
    "sigmoid": TorchForm(
        lambda a, _: a.sigmoid_(),
        lambda delta, h, _: _aten.sigmoid_backward.grad_input(delta, h, grad_input=delta),
        from_output=True,
        uniform=False,
    ),
    "softplus": TorchForm(_softplus, _softplus_backward, uniform=False),
    "elu": TorchForm(lambda a, alpha: functional.elu_(a, alpha), _elu_backward, uniform=False),
    "selu": TorchForm(lambda a, _: torch.selu_(a), _selu_backward, uniform=False),
    "gelu": TorchForm(_gelu, _gelu_backward),
    "silu": TorchForm(
        lambda a, _: _aten.silu_(a),
        lambda delta, a, _: _aten.silu_backward.grad_input(delta, a, grad_input=delta),
        uniform=False,
    ),
    "mish": TorchForm(
        lambda a, _: _aten.mish_(a),
        lambda delta, a, _: delta.copy_(_aten.mish_backward(delta, a)),
        uniform=False,
    ),
    "erf": TorchForm(lambda a, _: a.erf_(), _erf_backward),
    "softsign": TorchForm(_softsign, _softsign_backward),
    "hard_tanh": TorchForm(
        lambda a, _: a.clamp_(-1, 1),
        lambda delta, a, _: _aten.hardtanh_backward.grad_input(delta, a, -1, 1, grad_input=delta),
    ),
    "sin": TorchForm(lambda a, _: a.sin_(), lambda delta, a, _: delta.mul_(a.cos())),
}

# With a positive slope the sign of f(a) is that of a, so that the output is enough.
LEAKY_RELU_FROM_OUTPUT = TorchForm(FORMS["leaky_relu"].forward, FORMS["leaky_relu"].backward, from_output=True)
