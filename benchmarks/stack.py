"""Stacked training against the loop that a user of PyTorch would write, as network-steps a second.

The loop: an nn.Sequential, SGD with a parameter group a layer, cross entropy, clip_grad_norm_, a minibatch of 100; the
better of one thread and all threads; and one such loop a core, in processes of one thread each, side by side. The stack
is what `gradwalk.train` runs: a part of the networks in a thread a core. All sides take turns in one run; the losses of
the first steps are compared before anything is timed. The peak is that of the same batched products alone.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from setting import line, setting
from torch import nn

from gradwalk.data import Dataset, Examples
from gradwalk.nets import initial_weights, sequential
from gradwalk.train import Run
from gradwalk.train.loop import _member
from gradwalk.train.part import Part

# depth, parameter limit, networks in the stack for each core
SHAPES = {"D=512 N=88": (512, 4e6, 16), "D=128 N=177": (128, 4e6, 4), "D=32 N=356": (32, 4e6, 4)}
CORES = os.cpu_count() or 1
BATCH = 100


def examples() -> Dataset:
    """Return random examples of MNIST's shape."""
    rng = np.random.default_rng(0)
    split = Examples(rng.standard_normal((1000, 784), dtype=np.float32), rng.integers(0, 10, 1000))
    return Dataset("random", split, split, 10, "random")


def runs(depth: int, params: float, count: int) -> list[Run]:
    """Return runs that differ in their seed."""
    return [
        Run(depth=depth, params=params, gain=1.1, seed=seed, rate_in=1e-3, rate_out=1e-2, epochs=1000)
        for seed in range(count)
    ]


class Loop:
    """The loop that a user would write, for one network."""

    def __init__(self, run: Run, data: Dataset) -> None:
        widths, activations = run.architecture(data)
        weights = list(initial_weights(widths, run.gains(widths), run.seed))
        self.model = sequential(weights, [torch.zeros(width) for width in widths[1:]], activations)
        linears = [each for each in self.model if isinstance(each, nn.Linear)]
        groups = [{"params": each.parameters(), "lr": rate} for each, rate in zip(linears, run.rates(), strict=True)]
        self.optimizer, self.loss_of, self.clip = torch.optim.SGD(groups, lr=0.0), nn.CrossEntropyLoss(), run.clip
        self.x, self.y = torch.tensor(data.train.frames), torch.tensor(data.train.labels)

    def step(self, rows: Any) -> float:
        """Take a step, and return the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss_of(self.model(self.x[rows]), self.y[rows])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item()


def stack_parts(members: list[Run], data: Dataset) -> list[Part]:
    """Return the parts of a stack, one a core, ready to step."""
    parts = []
    for core in range(CORES):
        own = [_member(place, run, data, None, "cpu") for place, run in enumerate(members[core::CORES])]
        stop, no_one = threading.Event(), lambda event: None
        part = Part(own, data, device="cpu", folder=None, save_every=1e9, report=no_one, stop=stop)
        part._stack_up()
        parts.append(part)
    return parts


def side_by_side(work: list[Callable[[], None]]) -> float:
    """Return the seconds until all have ended, each in a thread of its own."""
    threads = [threading.Thread(target=each) for each in work]
    start = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return time.perf_counter() - start


def repeat(step: Callable[[Any], Any], steps: int) -> Callable[[], None]:
    """Return a job that takes so many steps."""

    def job() -> None:
        for place in range(steps):
            step(np.arange(BATCH) + BATCH * (place % 10))

    return job


def stack_rate(parts: list[Part], steps: int) -> float:
    """Return network-steps a second of all parts together."""
    torch.set_num_threads(1)
    taken = side_by_side([repeat(_without_gradient(part), steps) for part in parts])
    return steps * sum(len(part.members) for part in parts) / taken


def _without_gradient(part: Part) -> Callable[[Any], None]:
    def step(rows: Any) -> None:
        with torch.no_grad():
            part._step(rows)

    return step


def loop_rate(loop: Loop, threads: int, steps: int) -> float:
    """Return steps a second of one loop."""
    torch.set_num_threads(threads)
    start = time.perf_counter()
    repeat(loop.step, steps)()
    return steps / (time.perf_counter() - start)


def _process(depth: int, params: float, steps: int, barrier: Any, repeats: int) -> None:
    torch.set_num_threads(1)
    loop = Loop(runs(depth, params, 1)[0], examples())
    repeat(loop.step, 2)()
    for _ in range(repeats):
        barrier.wait()  # the parent's sign
        repeat(loop.step, steps)()
        barrier.wait()


class Processes:
    """One loop a core, in processes of one thread each, that run when told."""

    def __init__(self, depth: int, params: float, steps: int, repeats: int) -> None:
        context, self.steps = multiprocessing.get_context("spawn"), steps
        self.barrier = context.Barrier(CORES + 1)
        arguments = (depth, params, steps, self.barrier, repeats)
        self.processes = [context.Process(target=_process, args=arguments, daemon=True) for _ in range(CORES)]
        for each in self.processes:
            each.start()

    def rate(self) -> float:
        """Return steps a second of all processes together."""
        self.barrier.wait()
        start = time.perf_counter()
        self.barrier.wait()
        return CORES * self.steps / (time.perf_counter() - start)

    def close(self) -> None:
        """Wait for the processes to end."""
        for each in self.processes:
            each.join()


def peak(width: int, networks: int) -> float:
    """Return floating-point operations a second of the three products of a layer, a thread a core."""
    torch.set_num_threads(1)

    def job() -> None:
        h, w = torch.randn(networks, BATCH, width), torch.randn(networks, width, width)
        out, gradient = torch.empty_like(h), torch.empty_like(w)
        for _ in range(count):
            torch.bmm(h, w, out=out)
            torch.bmm(out, w.transpose(1, 2), out=h)
            torch.bmm(h.transpose(1, 2), out, out=gradient)

    operations = 6 * networks * BATCH * width * width
    count = max(3, int(2e10 / operations))
    return CORES * count * operations / side_by_side([job] * CORES)


def operations_a_step(widths: tuple[int, ...]) -> float:
    """Return the floating-point operations of one network's step: three products a layer, two for the first."""
    products = [a * b for a, b in pairwise(widths)]
    return 2.0 * BATCH * (3 * sum(products) - products[0])


def compare(name: str, repeats: int) -> dict[str, object]:
    """Return one row: medians of the rates, and of the ratios in each repeat."""
    torch.set_num_threads(1)
    depth, params, each = SHAPES[name]
    data, members = examples(), runs(depth, params, each * CORES)
    widths = members[0].architecture(data).widths
    parts, loop = stack_parts(members, data), Loop(members[0], data)
    check_answers(parts[0], loop)
    steps = 3 if depth > 100 else 10
    processes = Processes(depth, params, steps, repeats)
    rows = []
    for _ in range(repeats):
        row = {"stack": stack_rate(parts, steps), "processes": processes.rate()}
        row["loop"] = max(loop_rate(loop, threads, steps) for threads in (1, CORES))
        row["peak"] = peak(widths[1], each) / operations_a_step(widths)
        rows.append(row)
    processes.close()
    told: dict[str, object] = {side: statistics.median(row[side] for row in rows) for side in rows[0]}
    for side in ("loop", "processes", "peak"):
        told[f"stack / {side}"] = statistics.median(row["stack"] / row[side] for row in rows)
    return {"shape": name, "networks": len(members), **told}


def check_answers(part: Part, loop: Loop) -> None:
    """Take two steps with both, and compare the losses."""
    for place in range(2):
        rows = np.arange(BATCH) + BATCH * place
        with torch.no_grad():
            x, target = part._batch(part.data.train, rows)
            ours = part.stack.gradient(x, target)[0].item()
            part._step(rows)
        theirs = loop.step(rows)
        assert abs(ours / theirs - 1) < 1e-4, (ours, theirs)


def main() -> None:
    """Print a table, and write it with the versions as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", help="also write the rows there")
    options = parser.parse_args()
    print(line())
    heads = ("stack", "loop", "processes", "peak", "stack / loop", "stack / processes", "stack / peak")
    print(f"{'network-steps a second':24}" + "".join(f"{head:>19}" for head in heads))
    rows = []
    for name in SHAPES:
        row = compare(name, options.repeats)
        rows.append(row)
        print(f"{name + ', ' + str(row['networks']):24}" + "".join(f"{row[head]:19.2f}" for head in heads), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"setting": setting(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
