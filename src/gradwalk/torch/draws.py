"""Steps of the walk by redrawing weights: the gradient as other weights of the same scale would have passed it back."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.autograd.graph import GradientEdge, Node

from gradwalk.checks import Weights
from gradwalk.torch.calls import Call
from gradwalk.torch.norms import mean_squares, stacks
from gradwalk.torch.weight_layers import TRANSPOSED, is_dense, output_rows, weight_of

DRAWS = 10
_HOMES = ("torch.nn.modules.linear", "torch.nn.modules.conv")
_ORTHOGONAL = 1e-3  # how far the Gram matrix of orthogonal weights may be from a multiple of the identity
_ROWS = 16  # rows of the weight matrix that this is checked on


def drawn_gradients(
    calls: Sequence[Call],
    deltas: Sequence[Tensor],
    at: Tensor | GradientEdge,
    own: Tensor | None,
    draw: torch.Generator,
) -> list[Tensor]:
    """Return gradients at a tensor that layers read, had other weights of the same scale taken their gradients back.

    deltas: at the outputs of the layers. own: the gradient at the tensor as it is, where more than these layers
    contributes to it; the rest of it is then kept.
    """
    outputs, inputs = [call.output for call in calls], [call.input for call in calls]
    rest = 0.0 if own is None else own - pulled_back(outputs, list(deltas), at)
    layers = [_Redrawn(call, delta) for call, delta in zip(calls, deltas, strict=True)]
    return [_through(inputs, [layer.gradient(draw) for layer in layers], at) + rest for _ in range(DRAWS)]


def _through(outputs: list[Tensor], deltas: list[Tensor], at: Tensor | GradientEdge) -> Tensor:
    """Return what `pulled_back` returns, without the engine of autograd if it can be."""
    with torch.no_grad():
        direct = _direct(outputs[0], at, deltas[0]) if len(outputs) == 1 else None
    return pulled_back(outputs, deltas, at) if direct is None else direct


def pulled_back(outputs: list[Tensor], deltas: list[Tensor], at: Tensor | GradientEdge) -> Tensor:
    """Return the gradient at a tensor, given those at tensors computed from it."""
    gradients: tuple[Tensor, ...] = torch.autograd.grad(outputs, [at], deltas, retain_graph=True)  # type: ignore[arg-type]
    return gradients[0]


def all_slopes(outputs: Sequence[Tensor], places: Sequence[Tensor | GradientEdge], ones: Tensor) -> list[Tensor]:
    """Return the slopes of elementwise functions: what multiplies a gradient on the way back from output to place.

    ones: of the shape of each output.
    """
    with torch.no_grad():
        direct = [_direct(output, at, ones) for output, at in zip(outputs, places, strict=True)]
    return [
        pulled_back([output], [ones], at) if own is None else own
        for output, at, own in zip(outputs, places, direct, strict=True)
    ]


def _direct(output: Tensor, at: Tensor | GradientEdge, delta: Tensor) -> Tensor | None:
    """Return a gradient without the engine of autograd, which takes longer than the gradient; None if that cannot be.

    It can if the output is that of one function of torch's own, without hooks, of the copy that `measure` passes on.
    """
    function = output.grad_fn
    hooked = output._backward_hooks or output.output_nr
    if function is None or hooked or not isinstance(at, Tensor) or not _is_next(function, at):
        return None
    gradient: Tensor = function(delta)  # type: ignore[operator]
    return gradient


def _is_next(function: Node, at: Tensor) -> bool:
    """Return whether a function of torch's own read only a tensor, or the copy of it that `measure` passes on."""
    if isinstance(function, FunctionCtx) or len(function.next_functions) != 1 or at.grad_fn is None:
        return False
    if len(function._input_metadata) != 1:  # it returned several tensors, as split does, and takes a gradient of each
        return False
    own = at.grad_fn, at.output_nr
    read = function.next_functions[0]
    if read == own:
        return True
    return read[0] is not None and read[0].name() == "CloneBackward0" and read[0].next_functions == (own,)


def is_redrawable(module: nn.Module) -> bool:
    """Return whether a layer computes what its class in torch does, so that other weights can be tried in it."""
    kinds = [kind for kind in type(module).__mro__ if kind.__module__ in _HOMES]
    return not kinds or type(module).forward is vars(kinds[0]).get("forward", type(module).forward)


class _Redrawn:
    """The gradient at the input of a layer, for weights that differ in all but their scale and what they returned."""

    def __init__(self, call: Call, delta: Tensor) -> None:
        self.module, self.read = call.module, call.input.detach()
        weight = weight_of(call.module)
        self.delta, self.deviation = delta.to(self.read.dtype), math.sqrt(mean_squares([weight])[0])
        (self.kind,) = weights_kinds([output_rows(call.module, weight) if is_dense(call.module) else weight])
        self.dims = (-1,) if is_dense(call.module) else tuple(range(1, self.read.dim()))
        self.length = self.read.square().sum(self.dims, keepdim=True).clamp(min=torch.finfo(self.read.dtype).tiny)
        out = (-1,) if is_dense(call.module) else tuple(range(1, delta.dim()))
        self.known = (_without_bias(call) * self.delta).sum(out, keepdim=True)

    def gradient(self, draw: torch.Generator) -> Tensor:
        """Return it for a new draw; its product with the input is that of the output with its gradient, always."""
        gradient = self._through_matrix(draw) if is_dense(self.module) else self._through_kernel(draw)
        random = gradient - self.read * ((gradient * self.read).sum(self.dims, keepdim=True) / self.length)
        if self.kind == "orthogonal" and is_dense(self.module):  # its length is known too
            whole = self.delta.square().sum(-1, keepdim=True) * self.deviation**2 * self.read.shape[-1]
            left = (whole - self.known.square() / self.length).clamp(min=0).sqrt()
            random = random * (left / random.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(random.dtype).tiny))
        return random + self.read * (self.known / self.length)

    def _through_matrix(self, draw: torch.Generator) -> Tensor:
        rows = self.delta.reshape(-1, self.delta.shape[-1])
        if len(rows) < rows.shape[1]:
            precise = rows.to(torch.promote_types(rows.dtype, torch.float32))  # half precision has no QR decomposition
            triangle = torch.linalg.qr(precise.T, mode="r")[1]
            rows = triangle.T.to(rows)  # the same products between rows, in fewer columns
        return (rows @ self._drawn(torch.Size([rows.shape[1], self.read.shape[-1]]), draw)).reshape(self.read.shape)

    def _through_kernel(self, draw: torch.Generator) -> Tensor:
        kernel = self._drawn(weight_of(self.module).shape, draw)
        return input_gradient(self.module, self.read, kernel, self.delta)

    def _drawn(self, shape: torch.Size, draw: torch.Generator) -> Tensor:
        random = torch.randn(shape, generator=draw)
        if self.kind == "orthogonal":
            flat = random.flatten(1)
            random = (torch.linalg.qr(flat.T)[0].T * math.sqrt(flat.shape[1])).reshape(shape)
        return random.to(self.read) * self.deviation


def input_gradient(module: Any, read: Tensor, kernel: Tensor, delta: Tensor) -> Tensor:
    """Return the gradient at the input of a convolution with another kernel; it is not run unless it must be."""
    gradient: Tensor
    padded_by_zeros = isinstance(module.padding, tuple) and module.padding_mode == "zeros"
    if padded_by_zeros and read.dim() == len(module.kernel_size) + 2:  # one operation of torch, on a batch
        sizes = module.stride, module.padding, module.dilation, module.transposed, module.output_padding, module.groups
        gradient = torch.ops.aten.convolution_backward(delta, read, kernel, None, *sizes, [True, False, False])[0]
    else:
        with torch.enable_grad():
            own = read.detach().requires_grad_()
            returned = _convolved(module, own, kernel)
        gradient = torch.autograd.grad(returned, own, delta)[0]
    return gradient


def _convolved(module: nn.Module, read: Tensor, kernel: Tensor) -> Tensor:
    if not isinstance(module, TRANSPOSED):
        return module._conv_forward(read, kernel, None)  # type: ignore[operator, no-any-return]
    function = getattr(nn.functional, f"conv_transpose{len(module.kernel_size)}d")
    sizes = module.stride, module.padding, module.output_padding, module.groups, module.dilation
    return function(read, kernel, None, *sizes)  # type: ignore[no-any-return]


def _without_bias(call: Call) -> Tensor:
    output, bias = call.output.detach(), call.module.bias
    if not isinstance(bias, Tensor):
        return output
    axes = 0 if is_dense(call.module) else len(call.module.kernel_size)  # type: ignore[arg-type]
    return output - bias.detach().reshape(-1, *[1] * axes)


def weights_kinds(weights: Sequence[Tensor]) -> list[Weights]:
    """Return "orthogonal" for weights whose first 16 rows are orthogonal to within 1e-3, else "gaussian".

    With more rows than columns, W^T delta fluctuates even if the columns are orthogonal, so that counts as Gaussian.
    """
    kinds: list[Weights] = ["gaussian"] * len(weights)
    places = [place for place, weight in enumerate(weights) if 1 < weight.shape[0] <= weight.shape[1:].numel()]
    for rows in (2, _ROWS):  # two rows are enough to tell most Gaussian weights
        places = [places[own] for own in _orthogonal([weights[place] for place in places], rows)]
    for place in places:
        kinds[place] = "orthogonal"
    return kinds


def _orthogonal(weights: Sequence[Tensor], rows: int) -> list[int]:
    """Return the places of weights whose first rows are orthogonal and of one length."""
    found: list[int] = []
    for places, stack in stacks(
        [weight[:rows] if weight.dim() == 2 else weight[:rows].flatten(1) for weight in weights]
    ):
        few = stack.to(torch.promote_types(stack.dtype, torch.float32))
        gram = few @ few.mT
        scale = gram.diagonal(dim1=1, dim2=2).mean(1)
        unit = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
        off = (gram / scale[:, None, None] - unit).abs().amax((1, 2))
        found += [places[place] for place in (off < _ORTHOGONAL).nonzero()[:, 0].tolist()]
    return found
