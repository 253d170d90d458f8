"""Ray clusters: joined or started, with one sentence where that cannot be, and what their nodes have."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_REACHED = 5.0  # seconds for an address to answer at all
_ANSWERED = 40.0  # seconds for what answers to prove a Ray cluster; it takes 2 to 5

# Ray tries for minutes where there is no cluster, and may end the process: it is tried in another one first.
_TRIAL = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


@dataclass(frozen=True)
class Node:
    """What a node has for tasks: whole cores, and bytes of memory."""

    cores: int
    memory: float


def join(address: str | None, threads: int) -> bool:
    """Join the cluster at `address`, or start one here; return whether it is ours to leave.

    Where the process has joined a cluster already, that one is used.
    """
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send statistics home
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # and warn of what it will do in the future
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        quiet |= {"num_cpus": threads, "include_dashboard": False}
    else:
        _try(address)
    try:
        ray.init(address=address or "local", **quiet)
    except Exception as error:  # Ray raises plain ones
        raise ValueError(f"sweep: Ray could not be started ({' '.join(str(error).split())[:200]})") from None
    return True


def nodes() -> list[Node]:
    """Return the nodes that can take tasks."""
    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    able = [Node(int(each["CPU"]), float(each["memory"])) for each in found if each.get("CPU", 0) >= 1]
    if not able:
        raise ValueError(
            "sweep: the Ray cluster has no node with a core for tasks; add one with: ray start --address ..."
        )
    return able


def threads_a_task(tasks: int) -> int:
    """Return how many cores each task may have: one, or more where there are fewer tasks than cores."""
    found = nodes()
    shared = sum(node.cores for node in found) // max(tasks, 1)
    return max(1, min(shared, *(node.cores for node in found)))


def letters() -> Queue:
    """Return a queue that lives on the driver's own node, as long as the driver does."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    queue.qsize()  # waits until it is there
    return queue


def _try(address: str) -> None:
    """Say within a bounded time that there is no cluster at an address."""
    if address != "auto":
        _check_port(address)
    try:
        command = [sys.executable, "-c", _TRIAL, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWERED, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(_unreachable(address, f"what is there gave no answer in {_ANSWERED:.0f} s")) from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise ValueError(_unreachable(address, said[-1] if said else "it did not say why"))


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
