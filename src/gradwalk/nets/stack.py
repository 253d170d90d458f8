"""A stack: networks of one architecture that train together, with batched products per layer for all of them.

The weights of a layer are (networks, in, out). All networks see the same minibatch; their parameters and gradients are
separate, and no operation mixes numbers of two networks. A network therefore gives the same results alone and in any
stack, bit for bit. For that, each matrix begins at a multiple of 64 bytes, as it does in a stack of one, because the
last bits of a product depend on where its factors lie in memory.

The gradient is written by hand: all memory is allocated once, and a layer takes three products and few passes over
memory. The operations of a pass are planned once per number of rows, as a list of calls bound to their operands: in
narrow layers, looking up the operands each time would take longer than the products.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch

from gradwalk.activations import Activation, activation
from gradwalk.nets import products
from gradwalk.nets.footprint import evaluated_rows
from gradwalk.nets.losses import Loss
from gradwalk.nets.memory import aligned, aligned_copies, padded
from gradwalk.nets.pointwise import Kernels, pointwise, takes_numpy
from gradwalk.nets.products import Step

Tensors = list[torch.Tensor]
Plan = tuple[list[Step], torch.Tensor]  # the operations of a pass, and its result
Memory = tuple[torch.Tensor | None, torch.Tensor]  # of a layer: pre-activations if they are kept, outputs


class Stack:
    """Networks side by side: `weights[d]` (networks, in, out), `biases[d]` (networks, 1, out), input layer first.

    layers: the weights (in, out) and the biases (out,) of all networks, layer by layer; consumed lazily, to free
    memory. activations: one per layer, the last one "linear". batch: the largest minibatch of a step. kernels: "auto",
    which uses NumPy on a CPU, or "torch" for torch alone (see `gradwalk.nets.pointwise`). `rows` is the largest number
    of examples of which `outputs` are computed at a time.
    """

    def __init__(
        self,
        layers: Iterable[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]],
        activations: Sequence[str | Activation],
        loss: Loss,
        batch: int = 100,
        kernels: Kernels = "auto",
    ) -> None:
        self.weights: Tensors = []
        self.biases: Tensors = []
        for weights, biases in layers:
            self.weights.append(aligned_copies(weights))
            self.biases.append(torch.stack([each.reshape(1, -1) for each in biases]))
        self.loss, self.batch = loss, batch
        self._by_numpy = takes_numpy(kernels, self.weights[0].device, "Stack")
        self._f = [pointwise(activation(each), self._by_numpy) for each in activations]
        assert len(self.weights) == len(self._f)
        self._allocate()

    def __getstate__(self) -> dict[str, object]:
        """Return the state for a copy, without the plans, which are bound to the memory of this stack."""
        return self.__dict__ | {"_plans": {}}

    @property
    def count(self) -> int:
        """The number of networks."""
        return len(self.weights[0])

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs (networks, rows, out) for some examples (rows, in); they are valid until the next call."""
        self._x[0, : len(x)].copy_(x)
        return self._run("outputs", len(x))

    def gradient(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return each network's loss on a minibatch (rows, in), and write its gradient to the gradient tensors.

        eq. 3: delta_d = f'(a_d) W_{d+1} delta_{d+1}, weights as (in, out); the gradient is h_{d-1}^T delta_d.
        """
        self._x[0, : len(x)].copy_(x)
        loss, by_output = self.loss.with_gradient(self._run("forward", len(x)), target)
        self._work(len(self.weights), len(x), by_output.shape[2]).copy_(by_output)
        self._run("backward", len(x))
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
        self.weights = [aligned_copies(each[chosen]) for each in self.weights]
        self.biases = [each[chosen] for each in self.biases]
        self._allocate()

    def network(self, index: int) -> tuple[Tensors, Tensors]:
        """Return the weights (in, out) and biases (out,) of one network, as views."""
        return [each[index] for each in self.weights], [each[index, 0] for each in self.biases]

    def _run(self, name: str, rows: int) -> torch.Tensor:
        """Run a pass, planned at the first one with this number of rows, and return its result."""
        if (name, rows) not in self._plans:
            make: dict[str, Callable[[int], Plan]] = {
                "outputs": partial(self._forward, memory=self._in_turn),
                "forward": partial(self._forward, memory=self._kept),
                "backward": self._backward,
            }
            self._plans[name, rows] = make[name](rows)
        steps, result = self._plans[name, rows]
        for step in steps:
            step()
        return result

    def _forward(self, rows: int, memory: Callable[[int, int], Memory]) -> Plan:
        """Return the plan of a forward pass whose layers write to the memory that `memory` returns."""
        steps: list[Step] = []
        h = self._x[:, :rows].expand(self.count, -1, -1)
        for d, f in enumerate(self._f):
            a, out = memory(d, rows)
            steps += products.affine(h, self.weights[d], self.biases[d], out if a is None else a, self._by_numpy)
            steps += [] if a is None else [partial(out.copy_, a)]
            steps.append(partial(f.forward_, out))
            h = out
        return steps, h

    def _backward(self, rows: int) -> Plan:
        """Return the plan of a backward pass; delta of the last layer is in that layer's work memory."""
        steps: list[Step] = []
        delta = self._work(len(self.weights), rows, self.weights[-1].shape[2])
        for d in reversed(range(len(self.weights))):
            a, h = self._kept(d - 1, rows) if d else (None, self._x[:, :rows].expand(self.count, -1, -1))
            steps += products.gradient(h, delta, self.weight_gradients[d], self._by_numpy)
            steps.append(partial(torch.sum, delta, 1, keepdim=True, out=self.bias_gradients[d]))
            # here, while the gradient is in the cache
            steps.append(partial(torch.linalg.vector_norm, self.weight_gradients[d], dim=(1, 2), out=self._norms[d]))
            if d:
                back = self._work(d, rows, h.shape[2])
                steps += products.backward(delta, self.weights[d], back)
                steps.append(partial(self._f[d - 1].backward_, back, h, a))
                delta = back
        return steps, delta

    def _kept(self, d: int, rows: int) -> Memory:
        """Return memory for a layer's pre-activations, if they are needed, and outputs until the backward pass."""
        a = self._a[d]
        return None if a is None else a[:, :rows], self._h[d][:, :rows]

    def _in_turn(self, d: int, rows: int) -> Memory:
        """Return memory for a layer's outputs that the layer after the next one reuses."""
        return None, self._work(d, rows, self.weights[d].shape[2])

    def _work(self, d: int, rows: int, width: int) -> torch.Tensor:
        """Return work memory for one layer; layers with even d share one block, those with odd d another."""
        return self._scratch[d % 2][:, : rows * width].view(self.count, rows, width)

    def _allocate(self) -> None:
        """Allocate the memory of a step: outputs of all layers, gradients, and two layers' worth of delta."""
        like, count = self.weights[0], self.count
        widths = [each.shape[2] for each in self.weights]
        self.units = torch.tensor(widths, device=like.device)
        self.rows = evaluated_rows((like.shape[1], *widths), self.batch)
        self._x = aligned(like, 1, self.rows, like.shape[1])
        self._h = [aligned(like, count, self.batch, width) for width in widths]
        self._a = [
            aligned(like, count, self.batch, width) if f.needs_input else None
            for width, f in zip(widths, self._f, strict=True)
        ]
        self._scratch = [like.new_empty(count, padded(self.rows * max(widths))) for _ in range(2)]
        self.weight_gradients = [aligned(like, *each.shape) for each in self.weights]
        self.flat_biases = torch.cat([each.view(count, -1) for each in self.biases], dim=1)
        self.flat_bias_gradients = torch.empty_like(self.flat_biases)
        self.biases, self.bias_gradients = (
            list(torch.split(each[:, None], widths, dim=2)) for each in (self.flat_biases, self.flat_bias_gradients)
        )
        # of the gradients: one row per layer, the last for the biases
        self._norms = like.new_empty(len(widths) + 1, count)
        self._plans: dict[tuple[str, int], Plan] = {}
