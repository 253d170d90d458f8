"""Training: runs that can share a stack are trained side by side, a part of them on each core.

A part is trained by a thread of its own, one core's worth of work: nothing is shared but the data, which nobody
changes. What happens is told to a Watcher, in the thread that called `train`.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from gradwalk import checks
from gradwalk.data import Dataset
from gradwalk.nets import products
from gradwalk.nets.initial import PEERS, initial_weights
from gradwalk.nets.memory import stack_bytes
from gradwalk.nets.peers import Layer, peer_layers
from gradwalk.nets.widths import layer_flops
from gradwalk.train.checkpoint import Epoch, State, checkpoint_path, load_state
from gradwalk.train.part import Event, Member, Outcome, Part
from gradwalk.train.run import Run

_POLL = 0.1  # seconds between two looks at the workers
SAVE_EVERY = 60.0  # seconds
_THREAD_FLOPS = 2.5e6  # of a product of a layer, measured, see docs/performance.md


class Watcher:
    """What happens during training; the methods are called in the thread that called `train`."""

    def stepped(self, networks: int) -> None:
        """So many networks took another step."""

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """A run finished an epoch."""

    def ended(self, outcome: Outcome) -> None:
        """A run is done, or diverged."""


def train(
    runs: Sequence[Run],
    data: Dataset,
    *,
    device: str = "cpu",
    threads: int | None = None,
    folder: Path | None = None,
    save_every: float = SAVE_EVERY,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Train runs of one architecture on the same data, and return how each ended.

    threads: cores to use, all by default; the runs are dealt out among as many of them as have enough work. folder: for
    checkpoints, one file a run, written every `save_every` seconds and on an interrupt; what is found there is gone on
    from. A run's numbers do not depend on which runs it is trained with, on the number of threads or on interruptions.
    """
    if not runs:
        raise ValueError("train: at least one run is needed, got runs=[]")
    if len({run.stacks_with() for run in runs}) > 1:
        raise ValueError("train: runs of one stack must share architecture, data, batch and data_seed")
    cores = checks.whole("train", "threads", (psutil.cpu_count() or 1) if threads is None else threads)
    _check_data(data)
    _check_memory(runs, data, device)
    cores = min(cores, _worthwhile(runs, data))
    parts = _deal(_members(runs, data, folder, device), cores)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    workers = [
        Part(part, data, device=device, folder=folder, save_every=save_every, report=events.put, stop=stop)
        for part in parts
    ]
    with products.threads(max(1, cores // len(parts))):
        outcomes = _watched(workers, min(cores, len(parts)), events, stop, watcher or Watcher())
    return [outcomes[place] for place in range(len(runs))]


def _check_data(data: Dataset) -> None:
    for split in (data.train, data.test):
        if not np.isfinite(split.frames).all():
            raise ValueError(f"train: {data.name} holds numbers that are not finite (NaN or inf); they are not used")


def _check_memory(runs: Sequence[Run], data: Dataset, device: str) -> None:
    """Say before anything is drawn that the stack does not fit."""
    widths, activations = runs[0].architecture(data)
    needed = stack_bytes(widths, activations, len(runs), runs[0].batch)
    free = psutil.virtual_memory().available if device == "cpu" else torch.cuda.mem_get_info(device)[0]
    if needed > free:
        raise ValueError(
            f"train: {len(runs)} networks of {len(widths) - 1} layers need {needed / 1e9:.1f} GB and {free / 1e9:.1f} "
            "GB are free; train fewer at a time, or narrower ones"
        )


def _members(runs: Sequence[Run], data: Dataset, folder: Path | None, device: str) -> list[Member]:
    return [_member(place, run, data, folder, device) for place, run in enumerate(runs)]


def _member(place: int, run: Run, data: Dataset, folder: Path | None, device: str) -> Member:
    """Return a run with what it begins with, or goes on from."""
    identity = run.identity(data)
    path = None if folder is None else checkpoint_path(folder, identity)
    if path is not None and path.exists():
        state = load_state(path, identity, device)
        return Member(place, run, identity, state, zip(state.weights, state.biases, strict=True))
    return Member(place, run, identity, State([], []), _initial_layers(run, data, device))


def _initial_layers(run: Run, data: Dataset, device: str) -> Iterator[Layer]:
    """Return the weights and biases of a run, layer by layer; gains are solved for before the first is taken."""
    widths, activations = run.architecture(data)
    if run.weights in PEERS:
        seen = torch.tensor(data.train.inputs(np.arange(min(run.batch, len(data.train)))))
        return peer_layers(run.weights, widths, activations, run.seed, seen, device)
    weights = initial_weights(widths, run.gains(widths), run.seed, run.weights, device)
    return ((weight, weight.new_zeros(weight.shape[1])) for weight in weights)


def _worthwhile(runs: Sequence[Run], data: Dataset) -> int:
    """Return how many cores have enough work in a layer; with less, their threads wait for Python's lock."""
    return max(1, int(len(runs) * layer_flops(runs[0].architecture(data).widths, runs[0].batch) / _THREAD_FLOPS))


def _deal(members: Sequence[Member], cores: int) -> list[list[Member]]:
    """Return parts whose members stand at the same step, as many parts as there are cores where that can be."""
    groups: dict[tuple[int, int], list[Member]] = {}
    for member in members:
        groups.setdefault((member.state.epochs, member.state.steps), []).append(member)
    parts = list(groups.values())
    while len(parts) < min(cores, len(members)):
        largest = max(parts, key=len)
        parts.remove(largest)
        parts += [largest[::2], largest[1::2]]
    return parts


def _watched(
    workers: Sequence[Part], threads: int, events: "queue.SimpleQueue[Event]", stop: threading.Event, watcher: Watcher
) -> dict[int, Outcome]:
    """Run the workers, tell the watcher what they report, and on any trouble let them save and stop."""
    try:
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(worker.train) for worker in workers]
            for future in futures:
                future.add_done_callback(lambda _: events.put(_nothing))  # so that nobody sleeps on after the last one
            try:
                while not all(each.done() for each in futures):
                    if any(each.done() and each.exception() for each in futures):
                        stop.set()
                    _tell(watcher, events, _POLL)
            except BaseException:
                stop.set()
                _joined(futures)
                raise
    finally:
        _tell(watcher, events, 0.0)  # also what ended while the others were stopped
    return {place: outcome for each in futures for place, outcome in each.result().items()}


def _joined(futures: Sequence[Future[Any]]) -> None:
    """Wait until all have stopped: a second Ctrl-C must leave no thread that writes on after `train` has ended."""
    while not all(each.done() for each in futures):
        with suppress(KeyboardInterrupt):
            wait(futures)


def _nothing(watcher: Watcher) -> None:
    pass


def _tell(watcher: Watcher, events: "queue.SimpleQueue[Event]", patience: float) -> None:
    try:
        events.get(timeout=patience)(watcher) if patience else None
        while True:
            events.get_nowait()(watcher)
    except queue.Empty:
        pass
