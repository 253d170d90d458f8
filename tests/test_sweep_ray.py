"""On a Ray cluster a sweep gives the numbers that it gives on one machine, also when a node dies."""

import os
import signal
import socket
import time
from dataclasses import replace

import pytest

pytest.importorskip("ray")
pytest.importorskip("torch")

import psutil
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gradwalk.sweep import Spec, Store, ray_cluster, ray_task, run_sweep, session, writer
from gradwalk.sweep.store import CHECKPOINTS

# Each run takes seconds, and the driver hears of it after some tenths of one: what happens then happens in its midst.
SPEC = """
data = "digits"
params = 3e5
depth = [4, 6]
epochs = 60
seed = [0, 1]
"""
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}
# A dead node is noticed after 2 seconds, not after 15.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Epochs are in the store soon after they end, for who waits for them there."""
    monkeypatch.setattr(writer, "_EVERY", 0.05)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes with a core each, on this machine."""
    made = started()
    made.second = made.add_node(**NODE)
    yield made
    ray.shutdown()
    made.shutdown()


def started(attempts=3):
    """Ray gives a node 30 seconds to start, which a busy machine may not keep to."""
    try:
        return Cluster(True, head_node_args=NODE | {"include_dashboard": False, "_system_config": QUICK})
    except Exception:
        if attempts == 1:
            raise
        return started(attempts - 1)


@pytest.fixture
def joined(cluster):
    """The cluster, which this process has joined: `run_sweep` then uses it, with workers that have imported torch."""
    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in ray.nodes()]
    ray.get([warmed.options(scheduling_strategy=place).remote() for place in places])
    return cluster


@ray.remote(num_cpus=1)
def warmed():
    import gradwalk.sweep.ray_task  # noqa: F401


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The table of the sweep on one machine."""
    return numbers(run_sweep(Spec.load(SPEC), tmp_path_factory.mktemp("local")).results)


def numbers(results):
    """What results say that no clock has a part in, by the runs' identities."""
    return {
        each.identity: (each.status, each.diverged, tuple(replace(epoch, seconds=0.0) for epoch in each.epochs))
        for each in results
    }


def once(ready, act):
    """Return a report for `run_sweep` that acts the first time that something is so, and tells by `acted`."""

    def report(standing):
        if not report.acted and ready():
            report.acted = True
            act()

    report.acted = False
    return report


def measured(folder):
    """Some run has finished an epoch."""
    with Store(folder) as store:
        return any(each.epochs for each in store.results())


def trains(node):
    """A stack is being trained by a worker of the node."""
    raylet = node.all_processes["raylet"][0].process.pid
    return any("train_stack" in child.name() for child in psutil.Process(raylet).children())


def test_without_an_address_a_cluster_is_started_here(tmp_path):
    spec = Spec.load(SPEC, ["epochs=2", "depth=4"])
    found = run_sweep(spec, tmp_path / "ray", engine="ray", threads=1).results
    assert numbers(found) == numbers(run_sweep(spec, tmp_path / "local").results)
    assert not ray.is_initialized()


def test_an_address_where_nothing_is_is_told_at_once_and_nothing_is_lost(tmp_path):
    run_sweep(Spec.load(SPEC, ["epochs=1", "depth=4"]), tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    start = time.monotonic()
    with pytest.raises(ValueError, match=rf"sweep: there is no Ray cluster at {address} \(.*refused\); start one with"):
        run_sweep(Spec.load(SPEC, ["epochs=1"]), tmp_path, engine="ray", address=address)
    assert time.monotonic() - start < 10
    with Store(tmp_path) as store:
        assert store.counts() == {"waiting": 2, "running": 0, "done": 2, "diverged": 0, "failed": 0}


def test_an_address_where_something_else_answers_is_told_within_a_bounded_time(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_ANSWERED", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ValueError, match=rf"no Ray cluster at {address} \(what is there gave no answer in 2 s\)"):
            run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=address)


@pytest.mark.parametrize("address", ["nonsense", "ray://head:10001", "head:port", ":6379"])
def test_an_address_is_host_and_port(tmp_path, address):
    with pytest.raises(ValueError, match=f"sweep: address must be host:port or auto, got address='{address}'"):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=address)


def test_a_node_that_does_not_see_the_folder_is_named(tmp_path):
    with pytest.raises(OSError, match=f"nowhere is not the driver's folder on {socket.gethostname()}; choose one that"):
        ray_task.train_stack((), None, None, 0, 1, tmp_path / "nowhere" / "sign", 60.0)


def test_where_ray_is_missing_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"sweep: engine='ray' needs Ray: pip install 'gradwalk\[ray\]'"):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray")


def test_ctrl_c_lets_the_tasks_save_and_the_sweep_goes_on_locally(cluster, local, tmp_path):
    ctrl_c = once(lambda: measured(tmp_path), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=cluster.address, report=ctrl_c)
    assert ctrl_c.acted
    assert not ray.is_initialized()
    with Store(tmp_path) as store:
        begun = {each.identity for each in store.results() if each.epochs and not each.ended}
    assert set() != begun <= {path.stem for path in (tmp_path / CHECKPOINTS).glob("*.safetensors")}
    last = run_sweep(Spec.load(SPEC), tmp_path)
    assert numbers(last.results) == local
    assert {each.starts for each in last.results if each.identity in begun} == {2}


def test_what_is_wrong_with_one_run_does_not_stop_the_others(joined, tmp_path):
    spec = Spec.load(SPEC, ["epochs=2"])
    entries, _ = session.enlisted(spec)
    damaged = tmp_path / CHECKPOINTS / f"{entries[2].identity}.safetensors"
    damaged.parent.mkdir()
    damaged.write_bytes(b"nonsense")
    summary = run_sweep(spec, tmp_path, engine="ray")
    assert [each.status for each in summary.results] == ["done", "done", "failed", "done"]
    assert summary.results[2].error.startswith(f"checkpoint: {damaged} is damaged")


def test_a_node_dies_and_the_sweep_ends_with_the_numbers_of_one_machine(joined, local, tmp_path):
    death = once(lambda: trains(joined.second), lambda: joined.remove_node(joined.second, allow_graceful=False))
    summary = run_sweep(Spec.load(SPEC), tmp_path, engine="ray", save_every=0.05, report=death)
    assert death.acted
    assert sum(node["Alive"] for node in ray.nodes()) == 1
    assert numbers(summary.results) == local
    assert sorted(each.starts for each in summary.results) == [1, 1, 1, 2]
    assert not (tmp_path / CHECKPOINTS).exists()
