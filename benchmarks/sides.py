"""The ways to train several networks of one shape that benchmarks/stack.py compares, each with the same work per step.

A step: a minibatch of 100, tanh, mean cross entropy, the gradient of each network clipped to a norm, plain gradient
descent with one learning rate per layer.
"""

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from gradwalk.data import Dataset, Examples
from gradwalk.nets import products, sequential
from gradwalk.nets.crew import Crew
from gradwalk.train import Run
from gradwalk.train.members import first_layers, member
from gradwalk.train.worker import Worker

CORES = os.cpu_count() or 1
BATCH = 100
Rows = np.ndarray[Any, Any]


def examples() -> Dataset:
    """Return random examples with the shape of MNIST."""
    rng = np.random.default_rng(0)
    split = Examples(rng.standard_normal((1000, 784), dtype=np.float32), rng.integers(0, 10, 1000))
    return Dataset("random", split, split, 10, "random")


def runs(depth: int, width: int, count: int) -> list[Run]:
    """Return runs that differ in their seed.

    The gain is 1: at a larger gain the rounding differences between two implementations of tanh grow over 1000 layers.
    """
    return [
        Run(depth=depth, width=width, gain=1.0, seed=seed, rate_in=1e-3, rate_out=1e-2, epochs=1000)
        for seed in range(count)
    ]


def model_of(run: Run, data: Dataset) -> nn.Sequential:
    """Return the initial network of a run."""
    weights, biases = zip(*first_layers(run, data), strict=True)
    return sequential(weights, biases, run.architecture(data).activations)


class Side(ABC):
    """A way to train `networks` of the runs together."""

    networks: int

    @abstractmethod
    def step(self, rows: Rows) -> Rows:
        """Take one step with all networks, and return their losses before it."""

    def steps(self, batches: Sequence[Rows]) -> None:
        """Take one step per minibatch; this is what is timed."""
        for rows in batches:
            self.step(rows)


class Stack(Side):
    """What `gradwalk.train` does: one thread per core, each with a part of the networks."""

    def __init__(self, members: Sequence[Run], data: Dataset) -> None:
        self.held = ExitStack()  # until the process ends, as in `train`
        self.held.enter_context(products.one_thread())
        self.networks = len(members)
        self.workers = []
        for core in range(min(CORES, len(members))):
            own = [member(place, run, data) for place, run in enumerate(members[core::CORES])]
            self.workers.append(Worker(own, data))
            self.workers[-1].build()

    def step(self, rows: Rows) -> Rows:
        """Take one step, one worker after the other."""
        losses = np.empty(self.networks)
        for core, worker in enumerate(self.workers):
            with torch.no_grad():
                losses[core::CORES] = worker.stack.gradient(*worker.minibatch(worker.data.train, rows))
                worker.step(rows)
        return losses

    def steps(self, batches: Sequence[Rows]) -> None:
        """Take the steps with all workers in parallel."""

        def job(worker: Worker) -> Callable[[], None]:
            def train() -> None:
                torch.set_flush_denormal(True)
                with torch.no_grad():
                    for rows in batches:
                        worker.step(rows)

            return train

        in_parallel([job(worker) for worker in self.workers])


class Lone(Side):
    """What `gradwalk.train` does with a single network: several threads for it."""

    networks = 1

    def __init__(self, members: Sequence[Run], data: Dataset, threads: int = CORES) -> None:
        self.held = ExitStack()  # until the process ends, as in `train`
        self.held.enter_context(products.one_thread())
        self.worker = Worker([member(0, members[0], data)], data)
        self.worker.build(self.held.enter_context(Crew(threads - 1)))

    def step(self, rows: Rows) -> Rows:
        """Take one step."""
        with torch.no_grad():
            loss = self.worker.stack.gradient(*self.worker.minibatch(self.worker.data.train, rows))
            self.worker.step(rows)
        return loss.numpy()

    def steps(self, batches: Sequence[Rows]) -> None:
        """Take the steps."""
        torch.set_flush_denormal(True)
        with torch.no_grad():
            for rows in batches:
                self.worker.step(rows)


def in_parallel(jobs: Sequence[Callable[[], None]]) -> None:
    """Run each job in its own thread, and wait for all of them."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Loop(Side):
    """The loop that a user of torch would write, for one network after the other: nn.Sequential, SGD, clip_grad_norm_.

    All networks cost the same, so one of them is enough.
    """

    networks = 1

    def __init__(self, members: Sequence[Run], data: Dataset, threads: int = CORES) -> None:
        torch.set_num_threads(threads)
        run = members[0]
        self.model = model_of(run, data)
        linears = [layer for layer in self.model if isinstance(layer, nn.Linear)]
        groups = [{"params": layer.parameters(), "lr": rate} for layer, rate in zip(linears, run.rates(), strict=True)]
        self.optimizer, self.clip = torch.optim.SGD(groups, lr=0.0), run.clip
        self.x, self.y = torch.tensor(data.train.frames), torch.tensor(data.train.labels)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the loss on a minibatch."""
        return nn.functional.cross_entropy(self.model(x), y)

    def step(self, rows: Rows) -> Rows:
        """Take a step."""
        self.optimizer.zero_grad()
        loss = self.loss(self.x[rows], self.y[rows])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return np.array([loss.item()])


class Compiled(Loop):
    """The loop with the loss, and so the gradient, under torch.compile; clipping and SGD as in torch."""

    def __init__(self, members: Sequence[Run], data: Dataset) -> None:
        from torch._inductor import config

        warnings.filterwarnings("ignore", "dynamo_pgo force disabled")
        config.compile_threads, config.force_disable_caches = (
            1,
            True,
        )  # no helper processes, no cache
        super().__init__(members, data)
        self.loss = torch.compile(super().loss)  # type: ignore[method-assign]


class Vmapped(Side):
    """torch.func: stacked parameters, grad and vmap over a functional call, all cores for each operation."""

    def __init__(self, members: Sequence[Run], data: Dataset) -> None:
        torch.set_num_threads(CORES)
        self.networks, self.clip = len(members), members[0].clip
        self.parameters, _ = stack_module_state([model_of(run, data) for run in members])
        skeleton = model_of(members[0], data).to("meta")
        rates = iter(members[0].rates())
        self.rates = {
            f"{place}.{kind}": -float(rate)
            for place, rate in (
                (place, next(rates)) for place, layer in enumerate(skeleton) if list(layer.parameters())
            )
            for kind in ("weight", "bias")
        }
        self.x, self.y = torch.tensor(data.train.frames), torch.tensor(data.train.labels)

        def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(functional_call(skeleton, parameters, (x,)), y)

        self.gradient = vmap(grad_and_value(loss), in_dims=(0, None, None))

    def step(self, rows: Rows) -> Rows:
        """Take a step."""
        with torch.no_grad():
            gradients, losses = self.gradient(self.parameters, self.x[rows], self.y[rows])
            norms = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients.values()]
            factor = (self.clip / torch.linalg.vector_norm(torch.stack(norms), dim=0)).clamp_max(1.0)
            for name, gradient in gradients.items():
                shape = -1, *[1] * (gradient.ndim - 1)
                self.parameters[name].addcmul_(gradient, (factor * self.rates[name]).view(shape))
        return losses.numpy()


class Jax(Side):
    """JAX: a scan over the hidden layers, vmap over the networks, the whole step jitted with its buffers donated."""

    def __init__(self, members: Sequence[Run], data: Dataset) -> None:
        import jax
        import jax.numpy as jnp

        self.networks, clip = len(members), members[0].clip
        widths, rates = members[0].architecture(data).widths, members[0].rates()

        def layers(run: Run) -> Any:
            weights = [np.asarray(weight) for weight, _ in first_layers(run, data)]
            bias = np.zeros((len(widths) - 3, widths[1]), np.float32)
            return (
                (weights[0], bias[0]),
                (np.stack(weights[1:-1]), bias),
                (weights[-1], np.zeros(widths[-1], np.float32)),
            )

        self.parameters = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[layers(run) for run in members])
        scale = tuple(jnp.asarray(part, jnp.float32) for part in (rates[0], rates[1:-1], rates[-1]))

        def loss(parameters: Any, x: Any, y: Any) -> Any:
            (first, first_bias), hidden, (last, last_bias) = parameters
            h = jnp.tanh(x @ first + first_bias)
            h, _ = jax.lax.scan(lambda h, layer: (jnp.tanh(h @ layer[0] + layer[1]), None), h, hidden)
            logs = jax.nn.log_softmax(h @ last + last_bias)
            return -jnp.take_along_axis(logs, y[:, None], 1).mean()

        def step(parameters: Any, x: Any, y: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(parameters, x, y)
            norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradients)))
            factor = jnp.minimum(1.0, clip / norm)
            moved = [
                tuple(p - jnp.reshape(rate * factor, rate.shape + (1,) * (p.ndim - rate.ndim)) * g for p, g in pairs)
                for rate, pairs in zip(scale, map(zip, parameters, gradients), strict=True)
            ]
            return tuple(moved), value

        self._step = jax.jit(jax.vmap(step, in_axes=(0, None, None)), donate_argnums=0)
        self.x, self.y = data.train.frames, data.train.labels.astype(np.int32)

    def step(self, rows: Rows) -> Rows:
        """Take a step."""
        self.parameters, losses = self._step(self.parameters, self.x[rows], self.y[rows])
        return np.asarray(losses)


class Peak(Side):
    """No training: the three batched products of a hidden layer, repeated up to the operations of one step.

    by_numpy: 1 for NumPy's products, 0 for torch's.
    """

    def __init__(self, members: Sequence[Run], data: Dataset, by_numpy: int = 0) -> None:
        self.held = ExitStack()
        self.held.enter_context(products.one_thread())
        self.by_numpy = bool(by_numpy)
        self.networks = len(members)
        self.parts = [len(members[core::CORES]) for core in range(min(CORES, len(members)))]
        widths = members[0].architecture(data).widths
        weights = [a * b for a, b in pairwise(widths)]
        self.width = widths[1]
        # no gradient is propagated below the first layer
        self.layers = round((3 * sum(weights) - weights[0]) / (3 * self.width**2))

    def step(self, rows: Rows) -> Rows:
        """Return no losses."""
        return np.zeros(0)

    def steps(self, batches: Sequence[Rows]) -> None:
        """Multiply, with one thread per core."""

        def job(networks: int) -> Callable[[], None]:
            h, w = torch.zeros(networks, BATCH, self.width), torch.zeros(networks, self.width, self.width)
            out, gradient = torch.empty_like(h), torch.empty_like(w)

            def by_torch() -> None:
                for _ in range(self.layers * len(batches)):
                    torch.bmm(h, w, out=out)
                    torch.bmm(out, w.transpose(1, 2), out=h)
                    torch.bmm(h.transpose(1, 2), out, out=gradient)

            def by_numpy() -> None:
                a, b, c, d = (each.numpy() for each in (h, w, out, gradient))
                for _ in range(self.layers * len(batches)):
                    np.matmul(a, b, out=c)
                    np.matmul(c, b.transpose(0, 2, 1), out=a)
                    np.matmul(a.transpose(0, 2, 1), c, out=d)

            return by_numpy if self.by_numpy else by_torch

        in_parallel([job(networks) for networks in self.parts])
