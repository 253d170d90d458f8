"""Training: runs that come out the same however they are stacked or interrupted, and what is refused."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.interrupt import InterruptAt
from threadpoolctl import threadpool_info
from torch import nn

from gradwalk import data as data_sets
from gradwalk import nets
from gradwalk.nets import products, stack
from gradwalk.train import Run, State, Watcher, checked_run, loop, train
from gradwalk.train.checkpoint import load_state, save_state
from gradwalk.train.loop import HELPED_FLOPS, THREAD_FLOPS, deal
from gradwalk.train.members import Member, first_layers
from gradwalk.train.worker import Worker

SMALL = {"data": "digits", "examples": 250, "depth": 6, "params": 3000, "epochs": 3, "rate_in": 0.1, "rate_out": 0.1}


@pytest.fixture(autouse=True)
def _threads_for_the_smallest(monkeypatch):
    """Use all threads, also for networks as small as these."""
    monkeypatch.setattr(loop, "THREAD_FLOPS", 1.0)
    monkeypatch.setattr(loop, "HELPED_FLOPS", 1.0)
    monkeypatch.setattr(stack, "THREAD_FLOPS", 1.0)


@pytest.fixture(scope="module")
def digits():
    return data_sets.load("digits", examples=250)


def runs(count=3, **changes):
    gains = (1.0, 1.2, 1.4, 1.1, 1.3)
    return [Run(**(SMALL | {"gain": gains[i], "seed": i, "rate_out": 0.05 + 0.05 * i} | changes)) for i in range(count)]


LONG = 60  # epochs: more than can end before an interrupt is noticed


def long_runs(count):
    return runs(count, epochs=LONG)


@pytest.fixture(scope="module")
def uninterrupted(digits):
    return train(long_runs(3), digits, threads=1)


def measured(outcome):
    return [replace(epoch, seconds=0.0) for epoch in outcome.epochs]


def assert_same(outcome, expected):
    assert measured(outcome) == measured(expected)
    assert outcome.diverged == expected.diverged
    ours, theirs = ([*each.state.weights, *each.state.biases] for each in (outcome, expected))
    assert all(map(torch.equal, ours, theirs))
    assert len(ours) == len(theirs)


class TestSameNumbers:
    def test_a_run_is_bit_for_bit_the_same_alone_and_in_any_stack(self, digits):
        together = train(runs(5), digits, threads=1)
        for run, expected in zip(runs(5), together, strict=True):
            assert_same(train([run], digits, threads=1)[0], expected)

    def test_the_number_of_threads_does_not_change_it(self, digits):
        for outcome, expected in zip(train(runs(3), digits, threads=2), train(runs(3), digits, threads=1), strict=True):
            assert_same(outcome, expected)
        assert_same(train(runs(1), digits, threads=2)[0], train(runs(1), digits, threads=1)[0])

    @pytest.mark.parametrize(
        ("width", "intel"),
        [(850, False), (850, True), (900, False)],
        ids=["products by NumPy", "products by torch", "products by torch, in blocks of rows"],
    )
    def test_a_wide_network_on_two_threads_is_that_of_a_stack_on_one(self, digits, width, intel, monkeypatch):
        monkeypatch.setattr(products, "_mkl_at_home", lambda: intel)
        monkeypatch.setattr(products, "cuts", products.cuts.__wrapped__)  # no cuts of the other library
        wide = runs(3, params=None, width=width, depth=4, epochs=1)
        assert_same(train(wide[:1], digits, threads=2)[0], train(wide, digits, threads=1)[0])

    @pytest.mark.parametrize("at", [1, 4, 7], ids=lambda at: f"step{at}")
    def test_an_interrupted_training_resumes_to_the_same_numbers(self, digits, uninterrupted, tmp_path, at):
        with pytest.raises(KeyboardInterrupt):
            train(long_runs(3), digits, threads=2, folder=tmp_path, watcher=InterruptAt(at))
        assert len(list(tmp_path.glob("*.safetensors"))) == 3
        resumed = train(long_runs(3), digits, threads=1, folder=tmp_path)
        for outcome, expected in zip(resumed, uninterrupted, strict=True):
            assert_same(outcome, expected)

    def test_a_checkpoint_in_mid_epoch_is_used(self, digits, tmp_path):
        with pytest.raises(KeyboardInterrupt):
            train(long_runs(1), digits, threads=1, folder=tmp_path, watcher=InterruptAt(4))
        (path,) = tmp_path.iterdir()
        state = load_state(path, long_runs(1)[0].identity(digits))
        taken = state.epochs * 3 + state.steps
        assert taken >= 4
        counted = Counter()
        train(long_runs(1), digits, threads=1, folder=tmp_path, watcher=counted)
        assert counted.steps == 3 * LONG - taken

    def test_a_second_interrupt_waits_for_the_checkpoints_being_written(self, digits, tmp_path, monkeypatch):
        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # for the main thread to notice
            save_state(*arguments)

        monkeypatch.setattr("gradwalk.train.worker.save_state", interrupted)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                train(long_runs(3), digits, threads=2, folder=tmp_path, watcher=InterruptAt(1))
            assert len(list(tmp_path.glob("*.safetensors"))) == 3
        finally:
            signal.signal(signal.SIGINT, before)

    def test_it_is_the_loop_that_a_user_of_torch_would_write(self, digits):
        run = Run(**(SMALL | {"rate_in": 0.02, "clip": 0.5, "bias_rate": 0.5, "epochs": 2, "gain": 1.2}))
        (outcome,) = train([run], digits)
        expected = plain_torch(run, digits)
        assert sum(epoch.clipped for epoch in outcome.epochs) > 0
        for ours, (loss, mistakes) in zip(outcome.epochs, expected, strict=True):
            assert ours.train_loss == pytest.approx(loss, rel=1e-5)
            assert ours.train_mistakes == mistakes

    def test_runs_at_other_steps_are_dealt_apart_and_every_core_has_a_share(self):
        members = [Member(i, runs(1)[0], "", State([], [], epochs=i // 4), iter(())) for i in range(6)]
        parts = deal(members, cores=3)
        assert sorted(len(part) for part in parts) == [2, 2, 2]
        assert all(len({each.state.epochs for each in part}) == 1 for part in parts)


class TestTraining:
    def test_a_diverged_run_is_reported_with_its_epoch_and_leaves_the_others_alone(self, digits):
        wild = runs(3)
        wild[1] = wild[1].model_copy(update={"rate_in": 1e38, "rate_out": 1e38, "clip": None})
        outcomes = train(wild, digits, threads=1)
        assert outcomes[1].diverged == 1
        assert outcomes[1].epochs == ()
        for place in (0, 2):
            assert_same(outcomes[place], train([wild[place]], digits)[0])

    def test_a_network_that_measures_infinite_at_the_end_of_an_epoch_has_diverged(self, digits):
        last_step = Run(
            **(SMALL | {"examples": 100, "clip": None, "rate_in": 1e38, "rate_out": 1e38, "activation": "linear"})
        )
        few = data_sets.load("digits", examples=100)
        (outcome,) = train([last_step], few)  # one step an epoch: its loss before the step is finite
        assert (outcome.diverged, outcome.epochs) == (1, ())

    def test_clipping_shortens_the_gradient_to_the_limit(self, digits):
        loose, tight = (Run(**(SMALL | {"clip": clip, "epochs": 1, "gain": 1.2})) for clip in (None, 1e-9))
        outcomes = train([loose, tight], digits, threads=1)
        start = [weight for weight, _ in first_layers(loose, digits)]
        moved = [
            max(float((a - b).abs().max()) for a, b in zip(each.state.weights, start, strict=True)) for each in outcomes
        ]
        assert moved[0] > 1e-4
        assert moved[1] < 1e-8
        assert [each.epochs[0].clipped for each in outcomes] == [0, 3]

    def test_frozen_biases_stay_zero(self, digits):
        (outcome,) = train([Run(**(SMALL | {"bias_rate": 0.0}))], digits)
        assert all(not each.any() for each in outcome.state.biases)

    def test_rates_fall_by_the_decay_after_each_epoch(self, digits):
        still = {"decay": 1e-12, "epochs": 2}
        one, two = (train([Run(**(SMALL | still | {"epochs": epochs}))], digits)[0] for epochs in (1, 2))
        for a, b in zip(one.state.weights, two.state.weights, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)

    def test_it_stops_at_zero_mistakes_where_asked(self, digits):
        easy = SMALL | {"examples": 20, "epochs": 400, "depth": 3, "gain": 1.2, "stop_at_zero": True}
        (outcome,) = train([Run(**easy)], data_sets.load("digits", examples=20))
        counts = [epoch.train_mistakes for epoch in outcome.epochs]
        assert counts[-1] == 0 < min(counts[:-1])

    def test_measuring_every_third_epoch_trains_the_same_network_and_counts_clipped_steps_in_between(self, digits):
        often, seldom = (Run(**(SMALL | {"epochs": 7, "clip": 1e-3, "measure_every": every})) for every in (1, 3))
        (each,), (third,) = (train([run], digits) for run in (often, seldom))
        assert [epoch.epoch for epoch in third.epochs] == [3, 6, 7]
        by_number = {epoch.epoch: epoch for epoch in each.epochs}
        for epoch in third.epochs:
            same = by_number[epoch.epoch]
            assert (epoch.train_loss, epoch.test_mistakes) == (same.train_loss, same.test_mistakes)
        clipped = [epoch.clipped for epoch in each.epochs]
        assert [epoch.clipped for epoch in third.epochs] == [sum(clipped[:3]), sum(clipped[3:6]), clipped[6]]
        assert sum(clipped) > 0

    def test_runs_of_one_stack_are_measured_after_their_own_last_epoch(self, digits):
        short, long = (Run(**(SMALL | {"epochs": epochs, "measure_every": 2})) for epochs in (3, 5))
        outcomes = train([short, long], digits, threads=1)
        assert [[epoch.epoch for epoch in outcome.epochs] for outcome in outcomes] == [[2, 3], [2, 4, 5]]

    def test_an_interrupted_training_resumes_between_two_measurements(self, digits, tmp_path):
        seldom = runs(1, epochs=LONG, clip=1e-3, measure_every=40)
        with pytest.raises(KeyboardInterrupt):
            train(seldom, digits, folder=tmp_path, watcher=InterruptAt(7))
        (path,) = tmp_path.iterdir()
        assert 0 < load_state(path, seldom[0].identity(digits)).epochs < 40
        assert_same(train(seldom, digits, folder=tmp_path)[0], train(seldom, digits)[0])

    def test_what_is_measured_is_what_the_exported_network_does(self, digits):
        (outcome,) = train(runs(1), digits)
        model = nets.sequential(
            outcome.state.weights, outcome.state.biases, outcome.run.architecture(digits).activations
        )
        for split, mistakes, loss in (
            (digits.train, outcome.last.train_mistakes, outcome.last.train_loss),
            (digits.test, outcome.last.test_mistakes, outcome.last.test_loss),
        ):
            x, target = torch.tensor(split.inputs(np.arange(len(split)))), torch.tensor(split.labels)
            assert (model(x).argmax(1) != target).sum().item() == mistakes
            assert nn.CrossEntropyLoss()(model(x), target).item() == pytest.approx(loss, rel=1e-5)

    def test_the_watcher_receives_every_step_epoch_and_end_in_the_callers_thread(self, digits):
        counted = Counter()
        train(runs(3), digits, threads=2, watcher=counted)
        assert (counted.steps, counted.epochs, counted.ends) == (3 * 3 * 3, 9, 3)

    def test_global_seeds_and_threads_are_left_alone(self, digits):
        torch.manual_seed(1)
        before, threads, pools = torch.get_rng_state(), torch.get_num_threads(), threadpool_info()
        train(runs(2), digits, threads=2)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads
        assert threadpool_info() == pools

    @pytest.mark.parametrize(("width", "parts"), [(20, 1), (200, 2)])
    def test_a_thread_that_would_have_too_little_to_do_is_not_used(self, digits, monkeypatch, width, parts):
        made = []
        monkeypatch.setattr(loop, "THREAD_FLOPS", THREAD_FLOPS)
        monkeypatch.setattr(loop, "Worker", lambda *given, **more: made.append(Worker(*given, **more)) or made[-1])
        train(runs(4, params=None, width=width, epochs=1), digits, threads=2)
        assert len(made) == parts

    @pytest.mark.parametrize(("count", "threads"), [(1, [3]), (2, [1, 1]), (3, [1, 1, 1])])
    def test_cores_without_a_run_of_their_own_help_with_the_others(self, digits, monkeypatch, count, threads):
        made = []
        monkeypatch.setattr(loop, "Worker", lambda *given, **more: made.append(Worker(*given, **more)) or made[-1])
        train(runs(count, epochs=1), digits, threads=3)
        assert [worker.threads for worker in made] == threads

    def test_nobody_helps_with_a_small_network(self, digits, monkeypatch):
        made = []
        monkeypatch.setattr(loop, "HELPED_FLOPS", HELPED_FLOPS)
        monkeypatch.setattr(loop, "Worker", lambda *given, **more: made.append(Worker(*given, **more)) or made[-1])
        train(runs(1, epochs=1), digits, threads=2)
        assert [worker.threads for worker in made] == [1]

    def test_the_memory_of_a_wide_and_of_a_narrow_stack_is_predicted_within_a_fifth(self):
        command = [sys.executable, "-c", MEMORY, "20 210 8", "1200 20 4"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (predicted_wide, used_wide), (predicted_narrow, used_narrow) = (
            map(float, line.split()) for line in report.splitlines()
        )
        assert used_wide == pytest.approx(predicted_wide, rel=0.2)
        assert used_narrow == pytest.approx(predicted_narrow, rel=0.2)


class TestRefusals:
    def test_nan_in_the_data_is_refused(self, digits):
        frames = digits.train.frames.copy()
        frames[3, 4] = np.nan
        spoilt = replace(digits, train=replace(digits.train, frames=frames))
        with pytest.raises(ValueError, match="train: digits must hold finite numbers only"):
            train(runs(1), spoilt)

    def test_runs_of_different_architecture_do_not_stack(self, digits):
        with pytest.raises(ValueError, match="train: runs of one stack must share"):
            train([*runs(1), *runs(1, depth=5)], digits)

    def test_no_runs_are_refused(self, digits):
        with pytest.raises(ValueError, match="at least one run"):
            train([], digits)

    def test_a_stack_that_does_not_fit_memory_is_refused_before_it_is_drawn(self, digits):
        with pytest.raises(ValueError, match=r"train: 1 networks of 6 layers need .* GB"):
            train(runs(1, params=1e11), digits)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"depth": 1}, "train: depth must be greater than or equal to 2, got depth=1"),
            ({"depht": 4}, "train: there is no setting 'depht'"),
            ({"params": -1}, "train: params must be greater than 0, got params=-1"),
            ({"gain": math.nan}, "train: gain must be"),
            ({"activation": "tahn"}, "activation: there is no activation 'tahn'; did you mean 'tanh'?"),
            ({"data": "cifar"}, "there is no data set 'cifar'"),
            ({"depth": 8, "deepest": 4}, "train: deepest must be at least the depth 8, got deepest=4"),
            ({"epochs": 0}, "train: epochs must be greater than or equal to 1"),
            ({"seed": -1}, "train: seed must be"),
            ({"decay": 1.5}, "train: decay must be less than or equal to 1"),
        ],
    )
    def test_a_bad_setting_is_refused_in_one_sentence(self, settings, message):
        with pytest.raises(ValueError, match=message.replace("(", r"\(").replace("?", r"\?")) as caught:
            checked_run("train", **settings)
        assert "\n" not in str(caught.value)

    def test_a_limit_below_the_smallest_network_is_refused(self, digits):
        with pytest.raises(ValueError, match="classifier_widths: params must be at least"):
            train(runs(1, params=10), digits)


class Counter(Watcher):
    """Counts the events, and checks their thread."""

    def __init__(self):
        self.steps = self.epochs = self.ends = 0
        self.thread = threading.current_thread()

    def here(self):
        assert threading.current_thread() is self.thread

    def stepped(self, networks):
        self.here()
        self.steps += networks

    def epoch_ended(self, run, epoch):
        self.here()
        self.epochs += 1

    def ended(self, outcome):
        self.here()
        self.ends += 1


def plain_torch(run, digits):
    """Return loss and mistakes on the training examples after each epoch of the loop that users write."""
    model = nets.sequential(*zip(*first_layers(run, digits), strict=True), run.architecture(digits).activations)
    linears = [each for each in model if isinstance(each, nn.Linear)]
    groups = [{"params": [each.weight], "lr": rate} for each, rate in zip(linears, run.rates(), strict=True)]
    groups += [{"params": [each.bias], "lr": 0.5 * rate} for each, rate in zip(linears, run.rates(), strict=True)]
    optimizer, loss_of = torch.optim.SGD(groups, lr=0.0), nn.CrossEntropyLoss()
    x, target = torch.tensor(digits.train.inputs(np.arange(len(digits.train)))), torch.tensor(digits.train.labels)
    measured = []
    for epoch in range(run.epochs):
        order = torch.tensor(np.random.default_rng([run.data_seed, epoch]).permutation(len(x)))
        for rows in order.split(run.batch):
            optimizer.zero_grad()
            loss_of(model(x[rows]), target[rows]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), run.clip)
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= run.decay
        with torch.no_grad():
            measured.append((loss_of(model(x), target).item(), (model(x).argmax(1) != target).sum().item()))
    return measured


# Each stack has a process of its own, whose peak starts at what it holds; both share the imports.
MEMORY = """
import os, re, sys
import torch
from gradwalk import data, nets
from gradwalk.train import Run, train

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

def measure(depth, width, networks):
    for kernels in ("numpy", "auto"):  # libraries have loaded what they load
        train([Run(**settings, depth=20, width=30 if kernels == "numpy" else 60)], digits, threads=1, kernels=kernels)
    before = peak()
    runs = [Run(**settings, depth=depth, width=width, seed=seed) for seed in range(networks)]
    widths, names = runs[0].architecture(digits)
    train(runs, digits, threads=1)
    print(nets.stack_bytes(widths, names, networks, 100), peak() - before, flush=True)

digits = data.load("digits", examples=200)
settings = {"data": "digits", "examples": 200, "epochs": 1, "gain": 1.1}
for shape in sys.argv[1:]:
    if os.fork() == 0:
        measure(*map(int, shape.split()))
        os._exit(0)
    assert os.wait()[1] == 0
"""
