"""The activation of a layer, applied in place to a whole stack, forward and backward.

Torch alone, on any device, takes operations in place for most built-in activations, and autograd for others that have a
counterpart in torch. With NumPy, on a CPU, that is taken where torch is slower (tanh), where its results depend on the
place in memory (`TorchForm.uniform`) and where it has no operation: the Activation's own f and f' on views of the same
memory. An activation without a counterpart in torch is computed by NumPy on the host in any case.
"""

import numpy as np
import torch

from gradwalk.activations import Activation
from gradwalk.nets.torch_forms import FORMS, LEAKY_RELU_FROM_OUTPUT, TorchForm
from gradwalk.torch.counterparts import module_for
from gradwalk.torch.elementwise import Elementwise, through_numpy


class Pointwise:
    """One activation, here the identity; `needs_input`: whether `backward_` needs the pre-activations."""

    needs_input = False

    @property
    def is_identity(self) -> bool:
        """Whether there is nothing to compute."""
        return type(self) is Pointwise

    def forward_(self, a: torch.Tensor) -> None:
        """Replace a by f(a)."""

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        """Multiply delta in place by f'(a), where h = f(a)."""


class _ByTorch(Pointwise):
    def __init__(self, form: TorchForm, parameter: float | None) -> None:
        self.form, self.parameter, self.needs_input = form, parameter or 0.0, not form.from_output

    def forward_(self, a: torch.Tensor) -> None:
        self.form.forward(a, self.parameter)

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        self.form.backward(delta, h if a is None else a, self.parameter)


class _NumpyTanh(_ByTorch):
    def forward_(self, a: torch.Tensor) -> None:
        h = a.numpy()
        np.tanh(h, out=h)  # 9 times as fast as torch's, see docs/performance.md


class _ByNumpy(Pointwise):
    needs_input = True

    def __init__(self, activation: Activation) -> None:
        self.activation = activation

    def forward_(self, a: torch.Tensor) -> None:
        a.copy_(through_numpy(self.activation.f, a))

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        assert a is not None
        delta.mul_(through_numpy(self.activation.derivative, a))


class _Scaled(Pointwise):
    """f(s a) / s, whose derivative is f'(s a)."""

    def __init__(self, inner: Pointwise, scale: float) -> None:
        self.inner, self.scale, self.needs_input = inner, scale, inner.needs_input

    def forward_(self, a: torch.Tensor) -> None:
        self.inner.forward_(a.mul_(self.scale))
        a.div_(self.scale)

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        self.inner.backward_(delta, h * self.scale, None if a is None else a * self.scale)


class _Leaking(Pointwise):
    """s a + (1 - s) f(a), whose derivative is s + (1 - s) f'(a)."""

    needs_input = True

    def __init__(self, inner: Pointwise, leak: float) -> None:
        self.inner, self.leak = inner, leak

    def forward_(self, a: torch.Tensor) -> None:
        bent = self._bent(a)
        a.mul_(self.leak).add_(bent, alpha=1 - self.leak)

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        assert a is not None
        through = delta.clone()
        if self.inner.needs_input:
            self.inner.backward_(through, h, a)
        else:
            self.inner.backward_(through, self._bent(a), None)
        delta.mul_(self.leak).add_(through, alpha=1 - self.leak)

    def _bent(self, a: torch.Tensor) -> torch.Tensor:
        bent = a.clone()
        self.inner.forward_(bent)
        return bent


class _ByAutograd(Pointwise):
    needs_input = True

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module

    def forward_(self, a: torch.Tensor) -> None:
        a.copy_(self.module(a.clone()))  # a copy, for modules that work in place

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        assert a is not None
        with torch.enable_grad():
            leaf = a.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.module(leaf.clone()), leaf, delta)
        delta.copy_(gradient)


def pointwise(activation: Activation, by_numpy: bool = True) -> Pointwise:
    """Return the in-place form of an activation."""
    if activation.family == "linear":
        return Pointwise()
    if activation.inner is not None:
        inner = pointwise(activation.inner, by_numpy)
        return _Leaking(inner, activation.leak) if activation.leak else _Scaled(inner, activation.scale)
    form = FORMS.get(activation.family)
    if activation.family == "leaky_relu" and (activation.parameter or 0.0) > 0:
        form = LEAKY_RELU_FROM_OUTPUT
    return _on_numpy(activation, form) if by_numpy else _on_torch(activation, form)


def _on_numpy(activation: Activation, form: TorchForm | None) -> Pointwise:
    if activation.family == "tanh":
        return _NumpyTanh(FORMS["tanh"], None)
    return _ByNumpy(activation) if form is None or not form.uniform else _ByTorch(form, activation.parameter)


def _on_torch(activation: Activation, form: TorchForm | None) -> Pointwise:
    if form is not None:
        return _ByTorch(form, activation.parameter)
    module = module_for(activation)
    return _ByNumpy(activation) if isinstance(module, Elementwise) else _ByAutograd(module)
