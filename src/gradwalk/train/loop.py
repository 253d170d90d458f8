"""Training: runs of one architecture are trained side by side, a share of them on each core.

Each share is trained by a worker in a thread of its own, which has further threads where there are more cores than
runs. The workers share only the data, which they do not change, and report events, which the thread that called `train`
passes to the watcher.
"""

import queue
import threading
from collections.abc import Sequence
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
from gradwalk.nets.crew import THREAD_FLOPS
from gradwalk.nets.device import check_device, free_memory
from gradwalk.nets.footprint import stack_bytes
from gradwalk.nets.kernels import Kernels, library
from gradwalk.nets.widths import layer_flops
from gradwalk.train.members import Member, member
from gradwalk.train.run import Run
from gradwalk.train.state import Outcome
from gradwalk.train.watcher import Event, Watcher
from gradwalk.train.worker import Worker

SAVE_EVERY = 60.0  # seconds
HELPED_FLOPS = 5e7  # of one product of all layers, from which on a worker has use for a second thread; not tuned
_POLL = 0.1  # seconds between two looks at the workers


def train(
    runs: Sequence[Run],
    data: Dataset,
    *,
    device: str = "cpu",
    kernels: Kernels = "auto",
    threads: int | None = None,
    folder: Path | None = None,
    save_every: float = SAVE_EVERY,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Train runs of one architecture on the same data, and return the outcome of each.

    device: "cpu", "cuda", "cuda:1" or another one that torch can use. kernels: what computes. "auto" is "torch" on
    other devices, and on a CPU "compiled" for large networks if Numba is installed, otherwise "numpy"; the last bits of
    a result depend on it. threads: number of cores (default: all); only as many are used as have enough work. folder:
    for checkpoints, one file per run, written on an interrupt and every `save_every` seconds: after each step if that
    is 0, less often where writing takes more than a twentieth of the time. Runs with a checkpoint there resume from it.
    A damaged checkpoint is set aside and reported to the watcher, and its run starts anew. The results of a run do not
    depend on the other runs, on the number of threads or on interruptions.
    """
    check_device(device)
    _check_runs(runs)
    flops = _flops(runs, data, kernels, device)
    cores = checks.whole("train", "threads", (psutil.cpu_count() or 1) if threads is None else threads)
    _check_data(data)
    _check_memory(runs, data, device, _helped(runs, data, device, cores // len(runs)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    watcher = watcher or Watcher()
    members = [member(place, run, data, folder, device, watcher.restarted) for place, run in enumerate(runs)]
    shares = deal(members, min(cores, max(1, int(flops / THREAD_FLOPS))))
    parallel = min(cores, len(shares))  # workers at a time
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    workers = [
        Worker(
            share,
            data,
            device=device,
            kernels=kernels,
            threads=_helped(runs, data, device, cores // parallel),
            folder=folder,
            save_every=save_every,
            report=events.put,
            stop=stop,
        )
        for share in shares
    ]
    with products.one_thread():
        outcomes = _watched(workers, parallel, events, stop, watcher)
    return [outcomes[place] for place in range(len(runs))]


def deal(members: Sequence[Member], cores: int) -> list[list[Member]]:
    """Return the members in shares whose members are at the same step: one share per core, or more if steps differ."""
    groups: dict[tuple[int, int], list[Member]] = {}
    for each in members:
        groups.setdefault((each.state.epochs, each.state.steps), []).append(each)
    shares = list(groups.values())
    while len(shares) < min(cores, len(members)):
        largest = max(shares, key=len)
        shares.remove(largest)
        shares += [largest[::2], largest[1::2]]
    return shares


def _check_runs(runs: Sequence[Run]) -> None:
    if not runs:
        raise ValueError("train: at least one run is needed, got runs=[]")
    if len({run.stacks_with() for run in runs}) > 1:
        raise ValueError(
            "train: runs of one stack must share architecture, data, batch, data_seed, optimizer and measure_every"
        )


def _check_data(data: Dataset) -> None:
    for split in (data.train, data.test):
        if not np.isfinite(split.frames).all():
            raise ValueError(f"train: {data.name} must hold finite numbers only, got NaN or inf")


def _check_memory(runs: Sequence[Run], data: Dataset, device: str, threads: int) -> None:
    """Raise a ValueError, before anything is drawn, if the stack does not fit into memory."""
    widths, activations = runs[0].architecture(data)
    needed = stack_bytes(widths, activations, len(runs), runs[0].batch, runs[0].optimizer, threads)
    free = free_memory(device)
    if needed > free:
        raise ValueError(
            f"train: {len(runs)} networks of {len(widths) - 1} layers need {needed / 1e9:.1f} GB, and {free / 1e9:.1f} "
            "GB are free; train fewer networks at a time, or narrower ones"
        )


def _flops(runs: Sequence[Run], data: Dataset, kernels: Kernels, device: str) -> float:
    """Return the operations for which threads do not wait for Python's lock; raise if these kernels are not to be had.

    With fewer than THREAD_FLOPS of them per thread, threads wait more than they work.
    """
    widths, batch = runs[0].architecture(data).widths, runs[0].batch
    return len(runs) * library(kernels, device, widths, batch).flops(widths, batch)


def _helped(runs: Sequence[Run], data: Dataset, device: str, cores: int) -> int:
    """Return how many threads of so many cores a worker has use for: one for a small network or another device."""
    widths = runs[0].architecture(data).widths
    large = (len(widths) - 1) * layer_flops(widths, runs[0].batch) >= HELPED_FLOPS
    return max(1, cores) if large and torch.device(device).type == "cpu" else 1


def _watched(
    workers: Sequence[Worker], threads: int, events: "queue.SimpleQueue[Event]", stop: threading.Event, watcher: Watcher
) -> dict[int, Outcome]:
    """Run the workers, pass their events to the watcher, and let them save and stop if anything is raised."""
    try:
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(worker.train) for worker in workers]
            for future in futures:
                future.add_done_callback(lambda _: events.put(_nothing))  # wakes the loop below after the last event
            try:
                while not all(each.done() for each in futures):
                    if any(each.done() and each.exception() for each in futures):
                        stop.set()
                    _pass_on(events, watcher, _POLL)
            except BaseException:
                stop.set()
                _joined(futures)
                raise
    finally:
        _pass_on(events, watcher, 0.0)  # also of workers that ended while the others stopped
    return {place: outcome for each in futures for place, outcome in each.result().items()}


def _joined(futures: Sequence[Future[Any]]) -> None:
    """Wait until all have stopped: a second Ctrl-C must not leave a thread that writes after `train` has ended."""
    while not all(each.done() for each in futures):
        with suppress(KeyboardInterrupt):
            wait(futures)


def _nothing(watcher: Watcher) -> None:
    pass


def _pass_on(events: "queue.SimpleQueue[Event]", watcher: Watcher, timeout: float) -> None:
    """Pass all waiting events to the watcher; wait up to `timeout` seconds for the first one."""
    try:
        if timeout:
            events.get(timeout=timeout)(watcher)
        while True:
            events.get_nowait()(watcher)
    except queue.Empty:
        pass
