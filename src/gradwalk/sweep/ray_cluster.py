"""Ray clusters: joining or starting one, and the resources of its nodes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gradwalk.sweep.ray_watchman import watchman

_REACHED = 5.0  # seconds for an address to answer at all
_ANSWERED = 40.0  # seconds for whatever answers to prove to be a Ray cluster, which takes 2 to 5

# Without a cluster, Ray retries for minutes and may end the process: another process tries first.
_TRIAL = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


@dataclass(frozen=True)
class Node:
    """The resources of a node for tasks: whole cores and GPUs, and bytes of memory."""

    cores: int
    gpus: int
    memory: float

    def workers(self, device: str) -> int:
        """Return how many tasks the node runs at a time: one per GPU, or one per core."""
        return self.gpus if device == "cuda" else self.cores


@contextmanager
def joined(address: str | None, threads: int) -> Iterator[None]:
    """Join the cluster at `address`, or start one here; leave it at the end, and stop it if it was started here.

    A cluster that the process has joined already is used as it is, and not left.
    """
    if ray.is_initialized():
        yield
        return
    _init(address, threads)
    with watchman() if address is None else nullcontext():
        try:
            yield
        finally:
            ray.shutdown()


def _init(address: str | None, threads: int) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send statistics home
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # and warn about a future default
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": threads, "include_dashboard": False}
    else:
        _try(address)
    try:
        ray.init(address=address or "local", **options)
    except Exception as error:  # Ray raises plain ones
        raise ValueError(f"sweep: Ray could not be started ({' '.join(str(error).split())[:200]})") from None


def nodes(device: str = "cpu") -> list[Node]:
    """Return the nodes that can run tasks on the device."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    every = [Node(int(has.get("CPU", 0)), int(has.get("GPU", 0)), float(has["memory"])) for has in alive]
    able = [node for node in every if node.cores and node.workers(device)]
    if not able:
        needed = "GPU" if device == "cuda" else "core"
        raise ValueError(
            f"sweep: no node of the Ray cluster has a {needed} for tasks; add one with: ray start --address ..."
        )
    return able


def threads_per_task(tasks: int, device: str = "cpu") -> int:
    """Return the number of cores per task: one, or more if there are fewer tasks than cores."""
    able = nodes(device)
    workers = min(max(tasks, 1), sum(node.workers(device) for node in able))
    share = sum(node.cores for node in able) // workers
    return max(1, min(share, *(node.cores for node in able)))


def resources(threads: int, memory: float, device: str = "cpu") -> dict[str, float]:
    """Return the resources that a task asks Ray for: cores, bytes of memory, and one GPU if the device is cuda."""
    cpu = {"num_cpus": threads, "memory": min(memory, max(node.memory for node in nodes(device)))}
    return cpu | {"num_gpus": 1} if device == "cuda" else cpu


def message_queue() -> Queue:
    """Return a queue that lives on the driver's own node, as long as the driver does."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    queue.qsize()  # waits until it exists
    return queue


def _try(address: str) -> None:
    """Raise an error within a bounded time if there is no cluster at an address."""
    if address != "auto":
        _check_port(address)
    try:
        command = [sys.executable, "-c", _TRIAL, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWERED, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(_unreachable(address, f"no answer within {_ANSWERED:.0f} s")) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ValueError(_unreachable(address, lines[-1] if lines else "for no stated reason"))


def _check_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise ValueError(f"sweep: address must be host:port or auto, got address={address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED).close()
    except (OSError, OverflowError) as error:
        raise ValueError(_unreachable(address, str(error))) from None


def _unreachable(address: str, why: str) -> str:
    return f"sweep: there is no Ray cluster at {address} ({why}); start one with: ray start --head"
