"""A stack: networks of one architecture that train together, one batched product a layer for all of them.

The weights of a layer are (networks, in, out). Every network sees the same minibatch; gain, learning rates and initial
weights are its own, and so is its gradient: no number of one network ever meets a number of another. So a network
comes out the same alone or in any stack, bit for bit: each matrix begins at a multiple of 64 bytes as a lone one does,
because the last bits of a product depend on where in memory its factors lie. The gradient is written out by hand:
nothing is recorded, all memory is allocated once, and the work of a layer is three products and few passes over memory.
"""

from collections.abc import Iterable, Sequence

import torch

from gradwalk.activations import Activation, activation
from gradwalk.nets.losses import Loss
from gradwalk.nets.pointwise import pointwise

Tensors = list[torch.Tensor]

# Measured, see docs/performance.md: from about this size a gradient is made faster by blocks of rows than at once.
_LARGE, _ROWS = 800_000, 256


class Stack:
    """Networks side by side: `weights[d]` (networks, in, out), `biases[d]` (networks, 1, out), input layer first.

    layers: the weights (in, out) and the biases (out,) of all networks, layer by layer; taken one by one, so that who
    yields them can let go of them. activations: one a layer, the last one "linear". batch: the most examples at once.
    """

    def __init__(
        self,
        layers: Iterable[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]],
        activations: Sequence[str | Activation],
        loss: Loss,
        batch: int = 100,
    ) -> None:
        self.weights: Tensors = []
        self.biases: Tensors = []
        for weights, biases in layers:
            self.weights.append(_aligned_copies(weights))
            self.biases.append(torch.stack([each.reshape(1, -1) for each in biases]))
        self.loss, self.batch = loss, batch
        self._f = [pointwise(activation(each)) for each in activations]
        assert len(self.weights) == len(self._f)
        self._allocate()

    @property
    def count(self) -> int:
        """The number of networks."""
        return len(self.weights[0])

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the networks make of a minibatch (rows, in): (networks, rows, out), until the next call."""
        h = x.expand(self.count, *x.shape)
        for d, (weight, bias, f) in enumerate(zip(self.weights, self.biases, self._f, strict=True)):
            h = torch.baddbmm(bias, h, weight, out=self._work(d, len(x), weight.shape[2]))
            f.forward_(h)
        return h

    def gradient(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return each network's loss on a minibatch (rows, in), and leave its gradient in the gradient tensors.

        eq. 3: delta_d = f'(a_d) W_{d+1} delta_{d+1}, weights as (in, out); the gradient is h_{d-1}^T delta_d.
        """
        rows = len(x)
        depth = len(self.weights)
        loss, by_output = self.loss.with_gradient(self._forward(x), target)
        delta = self._work(depth, rows, by_output.shape[2]).copy_(by_output)
        for d in reversed(range(depth)):
            h = self._h[d - 1][:, :rows] if d else x.expand(self.count, *x.shape)
            _transposed_product(h, delta, self.weight_gradients[d])
            torch.sum(delta, 1, keepdim=True, out=self.bias_gradients[d])
            for place, each in ((d, self.weight_gradients[d]), (depth + d, self.bias_gradients[d])):
                torch.linalg.vector_norm(each, dim=(1, 2), out=self._norms[place])  # now, while it is in the cache
            if d:
                back = self._work(d, rows, h.shape[2])
                torch.bmm(delta, self.weights[d].transpose(1, 2), out=back)
                a = self._a[d - 1]
                self._f[d - 1].backward_(back, h, None if a is None else a[:, :rows])
                delta = back
        return loss

    def gradient_norm(self) -> torch.Tensor:
        """Return the norm of each network's whole gradient, biases included."""
        norms: torch.Tensor = torch.linalg.vector_norm(self._norms, dim=0)
        return norms

    def update(self, rates: torch.Tensor, bias_rates: torch.Tensor) -> None:
        """Take the step -rate * gradient in every layer; the rates are (layers, networks)."""
        for d, rate in enumerate(-rates[:, :, None, None]):
            self.weights[d].addcmul_(self.weight_gradients[d], rate)
        for d, rate in enumerate(-bias_rates[:, :, None, None]):
            self.biases[d].addcmul_(self.bias_gradients[d], rate)

    def keep(self, networks: Sequence[int]) -> None:
        """Keep these networks and take the others out."""
        chosen = torch.tensor(networks, device=self.weights[0].device)
        self.weights = [_aligned_copies(each[chosen]) for each in self.weights]
        self.biases = [each[chosen] for each in self.biases]
        self._allocate()

    def network(self, index: int) -> tuple[Tensors, Tensors]:
        """Return the weights (in, out) and biases (out,) of one network, as views."""
        return [each[index] for each in self.weights], [each[index, 0] for each in self.biases]

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.expand(self.count, *x.shape)
        for d, f in enumerate(self._f):
            a, out = self._a[d], self._h[d][:, : len(x)]
            if a is None:
                torch.baddbmm(self.biases[d], h, self.weights[d], out=out)
            else:
                out.copy_(torch.baddbmm(self.biases[d], h, self.weights[d], out=a[:, : len(x)]))
            f.forward_(out)
            h = out
        return h

    def _work(self, d: int, rows: int, width: int) -> torch.Tensor:
        """Return memory for one layer's numbers, another one for even d than for odd d."""
        return self._scratch[d % 2][:, : rows * width].view(self.count, rows, width)

    def _allocate(self) -> None:
        """Allocate what a step works in: outputs of all layers, gradients, and two layers' worth of delta."""
        like, count = self.weights[0], self.count
        widths = [each.shape[2] for each in self.weights]
        self._h = [_aligned(like, count, self.batch, width) for width in widths]
        self._a = [
            _aligned(like, count, self.batch, width) if f.needs_input else None
            for width, f in zip(widths, self._f, strict=True)
        ]
        self._scratch = [like.new_empty(count, _padded(self.batch * max(widths))) for _ in range(2)]
        self.weight_gradients = [_aligned(like, *each.shape) for each in self.weights]
        self.bias_gradients = [torch.empty_like(each) for each in self.biases]
        self._norms = like.new_empty(2 * len(widths), count)


def _transposed_product(h: torch.Tensor, delta: torch.Tensor, out: torch.Tensor) -> None:
    """Put h^T delta of each network in its place; where it is large, some rows at a time, for the caches."""
    if out[0].numel() < _LARGE or out.device.type != "cpu":
        torch.bmm(h.transpose(1, 2), delta, out=out)
        return
    for one, its_delta, its_out in zip(h, delta, out, strict=True):
        for start in range(0, len(its_out), _ROWS):
            rows = slice(start, start + _ROWS)
            torch.mm(one[:, rows].T, its_delta, out=its_out[rows])


def _aligned(like: torch.Tensor, count: int, rows: int, columns: int) -> torch.Tensor:
    """Return empty matrices, each of which begins at a multiple of 64 bytes."""
    size = rows * columns
    return like.new_empty(count, _padded(size))[:, :size].view(count, rows, columns)


def _aligned_copies(matrices: Sequence[torch.Tensor] | torch.Tensor) -> torch.Tensor:
    copies = _aligned(matrices[0], len(matrices), *matrices[0].shape)
    for copy, matrix in zip(copies, matrices, strict=True):
        copy.copy_(matrix)
    return copies


def _padded(size: int) -> int:
    return -(-size // 16) * 16
