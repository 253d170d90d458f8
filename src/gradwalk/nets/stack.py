"""A stack: networks of one architecture that train together, with batched products per layer for all of them.

The weights of a layer are (networks, in, out). All networks see the same minibatch; their parameters and gradients are
separate, and no operation mixes numbers of two networks. A network therefore gives the same results alone and in any
stack, bit for bit. For that, each matrix begins at a multiple of 64 bytes, as it does in a stack of one, because the
last bits of a product depend on where its factors lie in memory.

The gradient is written by hand: all memory is allocated once, and a layer takes three products and few passes over
memory. The operations of a pass are planned once per number of rows, as lists of calls bound to their operands: in
narrow layers, looking up the operands each time would take longer than the products.

A crew may help. In a forward pass each thread takes some of the rows, through all layers. In a backward pass one
thread propagates delta, and the others compute the gradients of the weights behind it, by blocks of layers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import torch

from gradwalk.activations import Activation, activation
from gradwalk.nets.crew import THREAD_FLOPS, Crew, Step
from gradwalk.nets.footprint import deltas_ahead, evaluated_rows, gradient_blocks, padded, scratch_numbers
from gradwalk.nets.kernels import Kernels, library
from gradwalk.nets.losses import Loss
from gradwalk.nets.memory import aligned, aligned_layers, aligned_weights, joined

Tensors = list[torch.Tensor]
Parts = list[list[Step]]  # the operations of a pass, for each thread
Stages = list[tuple[list[Step], list[Step]]]  # per block of layers: the propagation of delta, the gradients
Memory = tuple[torch.Tensor | None, torch.Tensor]  # of a layer: pre-activations if they are kept, outputs


class Stack:
    """Networks side by side: `weights[d]` (networks, in, out), `biases[d]` (networks, 1, out), input layer first.

    layers: the weights (in, out) and the biases (out,) of all networks, layer by layer; consumed lazily, to free
    memory. widths: the units of all layers, those of the input first. activations: one per layer, the last one
    "linear". batch: the largest minibatch of a step. kernels: what computes, see `gradwalk.nets.kernels`. crew: the
    threads that compute (default: the calling one). `rows` is the largest number of examples of which `outputs` are
    computed at a time.
    """

    def __init__(
        self,
        layers: Iterable[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]],
        widths: Sequence[int],
        activations: Sequence[str | Activation],
        loss: Loss,
        batch: int = 100,
        kernels: Kernels = "auto",
        crew: Crew | None = None,
    ) -> None:
        self.crew = crew or Crew()
        self.widths = tuple(widths)
        self.weights: Tensors = []
        self.biases: Tensors = []
        for d, (weights, biases) in enumerate(layers):
            self.weights = self.weights or aligned_weights(weights[0], len(weights), self.widths)
            for place, weight in zip(self.weights[d], weights, strict=True):
                place.copy_(weight)
            self.biases.append(torch.stack([each.reshape(1, -1) for each in biases]))
        self.loss, self.batch = loss, batch
        like = self.weights[0]
        self._library = library(kernels, like.device, self.widths, batch, "Stack", like.dtype)
        self._f = [self._library.pointwise(activation(each)) for each in activations]
        assert len(self.weights) == len(self.biases) == len(self._f)
        self._allocate()

    def __getstate__(self) -> dict[str, object]:
        """Return the state for a copy, without the plans, bound to the memory of this stack, and without the crew."""
        return self.__dict__ | {"_forward_plans": {}, "_backward_plans": {}, "crew": Crew()}

    @property
    def count(self) -> int:
        """The number of networks."""
        return len(self.weights[0])

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs (networks, rows, out) for some examples (rows, in); they are valid until the next call."""
        self._forward(x, self._in_turn)
        return self._outputs[:, : len(x)]

    def gradient(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return each network's loss on a minibatch (rows, in), and write its gradient to the gradient tensors.

        eq. 3: delta_d = f'(a_d) W_{d+1} delta_{d+1}, weights as (in, out); the gradient is h_{d-1}^T delta_d.
        """
        rows = len(x)
        self._forward(x, self._kept)
        loss, by_output = self.loss.with_gradient(self._h[-1][:, :rows], target)
        self._delta(0, rows)[-1].copy_(by_output)
        if rows not in self._backward_plans:
            self._backward_plans[rows] = self._plan_backward(rows)
        self.crew.trail(self._backward_plans[rows], self._ahead)
        return loss

    def gradient_norm(self) -> torch.Tensor:
        """Return the norm of each network's whole gradient, biases included."""
        torch.linalg.vector_norm(self.flat_bias_gradients, dim=1, out=self._norms[-1])
        by_network = self._norms.T.contiguous()  # summed along a row, in the same order for one network as for many
        norms: torch.Tensor = torch.linalg.vector_norm(by_network, dim=1)
        return norms

    def keep(self, networks: Sequence[int]) -> None:
        """Keep these networks and remove the others."""
        chosen = torch.tensor(networks, device=self.weights[0].device)
        before, self.weights = self.weights, aligned_weights(self.weights[0], len(networks), self.widths)
        for weight, old in zip(self.weights, before, strict=True):
            weight.copy_(old[chosen])
        self.biases = [each[chosen] for each in self.biases]
        self._allocate()

    def network(self, index: int) -> tuple[Tensors, Tensors]:
        """Return the weights (in, out) and biases (out,) of one network, as views."""
        return [each[index] for each in self.weights], [each[index, 0] for each in self.biases]

    def _forward(self, x: torch.Tensor, memory: Callable[[int, int, int], Memory]) -> None:
        """Run a forward pass, planned at the first one with this number of rows and of threads."""
        rows, key = len(x), (memory.__name__, len(x), self.crew.working)
        self._x[0, :rows].copy_(x)
        if key not in self._forward_plans:
            self._forward_plans[key] = [self._plan_forward(*part, memory) for part in pairwise(self._cuts(rows))]
        self.crew.share(self._forward_plans[key])

    def _cuts(self, rows: int) -> list[int]:
        """Return where the rows of a forward pass are cut, so that each thread has a part with enough work."""
        flops = self.count * self._library.flops(self.widths, rows)
        return self._library.cuts(rows, min(self.crew.working, int(flops / THREAD_FLOPS)), self.widths)

    def _plan_forward(self, start: int, stop: int, memory: Callable[[int, int, int], Memory]) -> list[Step]:
        """Return the steps that take some rows through all layers, which write to the memory that `memory` returns."""
        steps: list[Step] = []
        h = self._x[:, start:stop].expand(self.count, -1, -1)
        for d, f in enumerate(self._f):
            a, out = memory(d, start, stop)
            steps += self._library.affine(h, self.weights[d], self.biases[d], out if a is None else a)
            steps += [] if a is None else [partial(out.copy_, a)]
            steps += self._library.forward(f, out)
            h = out
        return self._library.joined(steps)

    def _plan_backward(self, rows: int) -> Stages:
        """Return the stages of a backward pass, the last layers first; delta of the last layer is in its memory."""
        stages: Stages = []
        above: torch.Tensor | None = None  # delta of the layer above
        for place, block in enumerate(self._blocks):
            deltas, steps = self._delta(place, rows), []
            for d, delta in zip(reversed(block), reversed(deltas.unbind()), strict=True):
                if above is not None:
                    a, h = self._kept(d, 0, rows)
                    steps += self._library.backward(above, self.weights[d + 1], delta)
                    steps += self._library.slope(self._f[d], delta, h, a)
                above = delta
            gradients = self._plan_gradients(block, deltas)
            if self.crew.threads == 1:
                steps, gradients = steps + gradients, []
            stages.append((self._library.joined(steps), self._library.joined(gradients)))
        return stages

    def _plan_gradients(self, block: range, deltas: torch.Tensor) -> list[Step]:
        """Return the steps that compute the gradients of a block of layers from its deltas, and their norms."""
        rows, layers = deltas.shape[2], slice(block.start, block.stop)
        inputs = self._h[block.start - 1 : block.stop - 1] if block.start else [self._x.expand(self.count, -1, -1)]
        weights, biases = joined(self.weight_gradients[layers]), joined(self.bias_gradients[layers])
        return self._library.gradients(joined(inputs)[:, :, :rows], deltas, weights, biases, self._norms[layers])

    def _kept(self, d: int, start: int, stop: int) -> Memory:
        """Return memory for a layer's pre-activations, if they are needed, and outputs until the backward pass."""
        a = self._a[d]
        return None if a is None else a[:, start:stop], self._h[d][:, start:stop]

    def _in_turn(self, d: int, start: int, stop: int) -> Memory:
        """Return memory for outputs of a layer that the layer after the next one reuses; the last one's stay."""
        if d == len(self.weights) - 1:
            return None, self._outputs[:, start:stop]
        width, widest = self.weights[d].shape[2], max(self.widths[1:])
        size = padded(self.rows * widest)
        half = self._scratch[d % 2 * self.count * size :][: self.count * size].view(self.count, size)
        return None, half[:, start * widest :][:, : (stop - start) * width].view(self.count, stop - start, width)

    def _delta(self, place: int, rows: int) -> torch.Tensor:
        """Return the memory of the deltas of a block (layers, networks, rows, out), which a later block reuses."""
        block, slot = self._blocks[place], len(self._scratch) // self._ahead
        width = self.weights[block.start].shape[2]
        shape = len(block), self.count, padded(self.batch * width)
        deltas = self._scratch[place % self._ahead * slot :][: math.prod(shape)].view(shape)
        return deltas[:, :, : rows * width].view(*shape[:2], rows, width)

    def _allocate(self) -> None:
        """Allocate the memory of a step: outputs of all layers, gradients, and the deltas of some blocks of layers."""
        like, count, widths = self.weights[0], self.count, list(self.widths[1:])
        self.units = torch.tensor(widths, device=like.device)
        self.rows = evaluated_rows(self.widths, self.batch)
        self._blocks, self._ahead = gradient_blocks(self.widths, count, self.batch), deltas_ahead(self.crew.threads)
        self._x = aligned(like, 1, self.rows, like.shape[1])
        self._h = aligned_layers(like, count, [(self.batch, width) for width in widths])
        self._a = [
            aligned(like, count, self.batch, width) if f.needs_input else None
            for width, f in zip(widths, self._f, strict=True)
        ]
        self._outputs = aligned(like, count, self.rows, widths[-1])
        self._scratch = like.new_empty(scratch_numbers(self.widths, count, self.batch, self._ahead))
        self.weight_gradients = aligned_weights(like, count, self.widths)
        self.flat_biases = torch.cat([each.view(count, -1) for each in self.biases], dim=1)
        self.flat_bias_gradients = torch.empty_like(self.flat_biases)
        self.biases, self.bias_gradients = (
            list(torch.split(each[:, None], widths, dim=2)) for each in (self.flat_biases, self.flat_bias_gradients)
        )
        # of the gradients: one row per layer, the last for the biases
        self._norms = like.new_empty(len(widths) + 1, count)
        self._forward_plans: dict[tuple[str, int, int], Parts] = {}
        self._backward_plans: dict[int, Stages] = {}
