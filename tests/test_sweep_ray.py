"""On a Ray cluster a sweep gives the numbers that it gives on one machine, also if a node dies."""

import os
import re
import signal
import socket
import time
from dataclasses import dataclass

import pytest
from helpers.small_sweep import numbers

pytest.importorskip("ray")
pytest.importorskip("torch")

import numpy as np
import psutil
import ray
from ray.cluster_utils import Cluster

from gradwalk import register
from gradwalk.nets import OPTIMIZERS
from gradwalk.nets.optimizers import SGD
from gradwalk.sweep import EngineOptions, Spec, Store, ray_cluster, ray_engine, ray_task, run_sweep, status
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.extensions import Extensions, sent
from gradwalk.sweep.folder import CHECKPOINTS, STORE, network_path
from gradwalk.train import DamageWarning

# Two stacks, which a test can keep training until that has happened which is to happen meanwhile.
SPEC = """
data = "digits"
examples = 300
params = 1e4
depth = 4
epochs = 30
seed = [0, 1]
optimizer = "patient"
"""
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}
# A dead node is noticed after 2 seconds, not after 15.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
# Neither an autoscaler nor a reader of logs, which nobody asks for.
WITHOUT = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}
HEAD = NODE | WITHOUT | {"_system_config": QUICK}


def register_patient(hold):
    """Register an optimizer that takes most of a second per step, without using a core, while a file is there."""

    @dataclass(frozen=True)
    class Patient(SGD):  # a local class, which is sent to workers by value
        name = "patient"

        def update(self, parameter, step):
            if hold.exists():
                time.sleep(0.1)  # once per layer for the weights, and once for the biases
            SGD.update(self, parameter, step)

    OPTIMIZERS.register(Patient)


@pytest.fixture(scope="module", autouse=True)
def hold_path(tmp_path_factory):
    """The file of the patient optimizer, which is not there yet."""
    path = tmp_path_factory.mktemp("hold") / "hold"
    register_patient(path)
    yield path
    OPTIMIZERS.remove("patient")


@pytest.fixture
def hold(hold_path):
    """Tasks last a minute and more on any machine, until the file is removed."""
    hold_path.touch()
    yield hold_path
    hold_path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes with one core each, on this machine."""
    started = start_cluster()
    started.second = started.add_node(**NODE)
    yield started
    ray.shutdown()
    started.shutdown()


def start_cluster(attempts=3):
    """Ray gives a node 30 seconds to start, which may not be enough on a busy machine."""
    try:
        return Cluster(True, head_node_args=HEAD)
    except Exception:
        if attempts == 1:
            raise
        return start_cluster(attempts - 1)


@pytest.fixture(scope="module")
def joined(cluster):
    """The cluster, joined already: the sweeps of one driver share workers, each of which takes seconds to load torch.

    It is left at the end of the module, so the tests that use it come last.
    """
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The numbers of the sweep on one machine."""
    return numbers(run_sweep(Spec.load(SPEC), tmp_path_factory.mktemp("local")).results)


def once(ready, act):
    """Return a report for `run_sweep` that acts the first time that its progress is ready, and then has `acted`."""

    def report(progress):
        if not report.acted and ready(progress):
            report.acted = True
            act()

    report.acted = False
    return report


def training(node):
    """The workers of the node that are training a stack."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [child for child in psutil.Process(raylet).children() if "train_stack" in child.name()]


def test_a_cluster_started_here_knows_registered_activations_and_sets_a_damaged_checkpoint_aside(tmp_path):
    register("softer", lambda a: np.tanh(a / 2) * 2, lambda a: np.cosh(a / 2) ** -2)  # which workers do not know
    spec = Spec.load(SPEC, ["epochs=2", "seed=[0, 1, 2]", "activation=softer", "gain=1.1"])
    entries, _ = resolve(spec)
    corrupt = tmp_path / CHECKPOINTS / f"{entries[1].identity}.safetensors"
    corrupt.parent.mkdir()
    corrupt.write_bytes(b"nonsense")
    with pytest.warns(DamageWarning, match=rf"checkpoint: {corrupt} is damaged .* and the run starts anew"):
        results = run_sweep(spec, tmp_path, engine="ray", threads=1, save_networks=True).results
    assert not ray.is_initialized()
    assert numbers(results) == numbers(run_sweep(spec, tmp_path / "local").results)
    assert all(network_path(tmp_path, result.identity).exists() for result in results)


def test_a_missing_cluster_is_reported_and_nothing_is_lost(tmp_path):
    run_sweep(Spec.load(SPEC, ["epochs=1", "seed=0"]), tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ValueError, match=rf"sweep: there is no Ray cluster at {address} \(.*refused\); start one with"):
        run_sweep(Spec.load(SPEC, ["epochs=1"]), tmp_path, engine="ray", address=address)
    with Store(tmp_path) as store:
        assert store.counts() == {"waiting": 1, "running": 0, "interrupted": 0, "done": 1, "diverged": 0, "failed": 0}


def test_something_else_at_the_address_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_ANSWERED", 1.0)  # seconds, where 40 would keep us waiting
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ValueError, match=rf"no Ray cluster at {address} \(no answer within 1 s\)"):
            run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=address)


@pytest.mark.parametrize("address", ["nonsense", "ray://head:10001", "head:port", ":6379"])
def test_an_address_is_host_and_port(tmp_path, address):
    with pytest.raises(ValueError, match=f"sweep: address must be host:port or auto, got address='{address}'"):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=address)


def test_a_node_that_does_not_see_the_folder_is_named(tmp_path):
    options = EngineOptions(tmp_path / "nowhere", threads=1)
    with pytest.raises(OSError, match=f"nowhere is not the driver's folder on {socket.gethostname()}; choose one that"):
        ray_task.train_stack((), None, Extensions.here(), None, 0, options, options.folder / "sign")


def test_if_ray_is_missing_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"sweep: engine='ray' needs Ray: pip install 'gradwalk\[ray\]'"):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray")


def test_tasks_ask_for_a_gpu_only_if_the_device_is_cuda(monkeypatch):
    resources = [{"CPU": 4.0, "memory": 4e9}, {"CPU": 6.0, "GPU": 2.0, "memory": 8e9}, {"memory": 1e9}]
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": each} for each in resources])
    assert ray_cluster.resources(1, 5e9) == {"num_cpus": 1, "memory": 5e9}
    assert ray_cluster.resources(3, 9e9, "cuda") == {"num_cpus": 3, "memory": 8e9, "num_gpus": 1}
    assert [node.cores for node in ray_cluster.nodes("cuda")] == [6]
    assert [ray_cluster.threads_per_task(tasks) for tasks in (1, 3, 20)] == [4, 3, 1]
    assert [ray_cluster.threads_per_task(tasks, "cuda") for tasks in (1, 2, 20)] == [6, 3, 3]


def test_what_cannot_be_sent_to_workers_is_refused_before_training():
    def put(extensions):
        raise TypeError("no lambdas here")

    with pytest.raises(ValueError, match=r"sweep: what was registered .* cannot be sent to .* \(no lambdas here\)"):
        sent(put)


def test_a_cluster_without_gpus_is_refused_for_cuda(monkeypatch):
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 4.0, "memory": 4e9}}])
    with pytest.raises(ValueError, match="sweep: no node of the Ray cluster has a GPU for tasks; add one with"):
        ray_cluster.nodes("cuda")


def test_on_a_cluster_ray_chooses_the_gpu(tmp_path):
    with pytest.raises(
        ValueError, match=r"sweep: device must be 'cpu' or 'cuda' with engine='ray', .* device='cuda:1'"
    ):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", device="cuda:1")


def test_an_interrupted_sweep_leaves_the_cluster(cluster, tmp_path, monkeypatch):
    def interrupted():
        assert ray.get_runtime_context().gcs_address == cluster.address
        raise KeyboardInterrupt

    monkeypatch.setattr(ray_cluster, "message_queue", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", address=cluster.address)
    assert not ray.is_initialized()


def join_at_once(hold):
    """Join the cluster without a trial in another process, write epochs as soon as they have ended, and be patient."""
    from helpers.processes import write_at_once

    ray_cluster._try = lambda address: None
    write_at_once()
    register_patient(hold)


def test_sigterm_ends_the_command_with_how_to_resume_instead_of_a_trace_of_ray(cluster, local, hold, tmp_path):
    from helpers.processes import ended, started

    spec, folder, log = tmp_path / "mine.toml", tmp_path / "out", tmp_path / "log"
    spec.write_text(SPEC.replace("[0, 1]", "0"))  # one task, which is enough for how the command ends
    options = ["--out", folder, "--engine", "ray", "--address", cluster.address]
    process = started(["sweep", spec, *options], log, join_at_once, hold)
    while process.is_alive() and not ((folder / STORE).exists() and status(folder).epochs_done):
        time.sleep(0.2)
    assert process.is_alive(), log.read_text()
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process, 90) == 130
    errors = log.read_text()
    assert errors.splitlines()[-1].endswith(f"resume with: gradwalk sweep {spec} {' '.join(map(str, options))}")
    assert not re.search("SIGTERM|Traceback|[.]cc:", errors)
    assert list((folder / CHECKPOINTS).glob("*.safetensors"))
    hold.unlink()
    assert numbers(run_sweep(Spec.load(spec), folder).results).items() < local.items()


def family(process):
    """The processes that one has started, and those that they have started."""
    return psutil.Process(process.pid).children(recursive=True) if process.is_alive() else []


def test_a_driver_that_is_killed_leaves_no_process_of_ray_behind(hold, tmp_path):
    from helpers.processes import started

    spec = tmp_path / "mine.toml"
    spec.write_text(SPEC.replace("epochs = 30", "epochs = 100000"))
    command = ["sweep", spec, "--out", tmp_path / "out", "--engine", "ray", "--threads", "1"]
    driver = started(command, os.devnull, register_patient, hold)
    while driver.is_alive() and not any("train_stack" in each.name() for each in family(driver)):
        time.sleep(0.2)
    processes = family(driver)
    assert len(processes) > 5
    driver.kill()
    _, left = psutil.wait_procs(processes, timeout=30)  # by itself, Ray would take 60 seconds
    for process in left:
        process.kill()
    assert not left


def test_ctrl_c_lets_the_tasks_save_and_the_sweep_resumes_locally(joined, local, hold, tmp_path):
    ctrl_c = once(lambda progress: progress.steps > 0, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run_sweep(Spec.load(SPEC), tmp_path, engine="ray", report=ctrl_c)
    assert ctrl_c.acted
    saved = {path.stem for path in (tmp_path / CHECKPOINTS).glob("*.safetensors")}
    with Store(tmp_path) as store:
        unfinished = {result.identity for result in store.results() if result.epochs and not result.ended}
    assert unfinished <= saved != set()
    hold.unlink()
    last = run_sweep(Spec.load(SPEC), tmp_path)
    assert numbers(last.results) == local
    assert {result.starts for result in last.results if result.identity in saved} == {2}


def test_a_node_dies_and_the_sweep_ends_with_the_numbers_of_one_machine(joined, local, hold, tmp_path):
    def kill_node():
        workers = training(joined.second)
        joined.remove_node(joined.second, allow_graceful=False)
        psutil.wait_procs(workers, timeout=30)  # or one might end its run before it misses its node
        hold.unlink()

    def both_began(progress):
        return training(joined.second) and status(tmp_path).counts["running"] == 2

    death = once(both_began, kill_node)
    summary = run_sweep(Spec.load(SPEC), tmp_path, engine="ray", save_every=0.05, report=death)
    assert death.acted
    late = time.monotonic() + 30
    while (alive := sum(node["Alive"] for node in ray.nodes())) > 1 and time.monotonic() < late:
        time.sleep(0.1)  # the sweep may end before Ray calls the node dead
    assert alive == 1
    assert numbers(summary.results) == local
    assert sorted(result.starts for result in summary.results) == [1, 2]
    assert not (tmp_path / CHECKPOINTS).exists()
