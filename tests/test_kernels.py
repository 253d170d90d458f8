"""Kernels and devices: the path of torch alone, which other devices take, agrees with NumPy's on a CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk import activation, data, register
from gradwalk.activations import names
from gradwalk.nets import check_device
from gradwalk.nets.footprint import reads_input
from gradwalk.nets.memory import aligned
from gradwalk.nets.pointwise import Pointwise, pointwise
from gradwalk.train import Run, train

EXAMPLES = 200
MEMBERS = ("leaky_relu(0.2)", "leaky_relu(-0.3)", "elu(0.5)", "softplus(2)", "gelu*100", "tanh*0.5", "relu*3")
LEAKS = ("gelu@0.8", "tanh@0.9", "silu@0.5", "selu@0.97", "hard_sigmoid@0.5", "gelu*10@0.5", "tanh@0.5*2")
BUILT_IN = [name for name in names() if not name.startswith("test ")]


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return data.load("digits", examples=EXAMPLES)


def points() -> torch.Tensor:
    """Return pre-activations: many of ordinary size, some large, and the kinks themselves."""
    spread = torch.randn(4000, generator=torch.Generator().manual_seed(0)) * 2
    return torch.cat([spread, torch.tensor([0.0, 1.0, -1.0, 30.0, -30.0, 90.0, -90.0])])


def applied(name: str, by_numpy: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return f(a), and delta after the way back, for delta = a + 1."""
    return there_and_back(pointwise(activation(name), by_numpy), points())


def there_and_back(form: Pointwise, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return f(a), and delta after the way back, for delta = a + 1."""
    h, delta = a.clone(), a + 1
    form.forward_(h)
    form.backward_(delta, h, a if form.needs_input else None)
    return h, delta


@pytest.mark.parametrize("name", [*BUILT_IN, *MEMBERS, *LEAKS])
def test_both_kernels_compute_every_activation_and_its_derivative(name: str) -> None:
    exact, a = activation(name), points().double().numpy()
    with np.errstate(all="ignore"):
        expected = [np.asarray(exact.f(a)), np.asarray(exact.derivative(a)) * (a + 1)]
    for by_numpy in (True, False):
        for result, value in zip(applied(name, by_numpy), expected, strict=True):
            np.testing.assert_allclose(result.double(), value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [*BUILT_IN, *MEMBERS, *LEAKS])
@pytest.mark.parametrize("length", [2, 7, 61, 133])
def test_on_a_cpu_a_number_has_the_same_result_wherever_it_lies_in_memory(name: str, length: int) -> None:
    form, a = pointwise(activation(name)), points()[:2005]
    whole, parts = (torch.empty(2, len(a)) for _ in range(2))
    with np.errstate(all="ignore"):
        whole[0], whole[1] = there_and_back(form, a)
        for start in range(0, len(a) - 1, length):
            part = slice(start, start + length)
            parts[0, part], parts[1, part] = there_and_back(form, a[part])
    assert torch.equal(whole[:, :-1], parts[:, :-1])


@pytest.mark.parametrize("name", [*BUILT_IN, *MEMBERS, *LEAKS])
def test_on_a_cpu_gaps_between_the_networks_of_a_stack_do_not_matter(name: str) -> None:
    form, a = pointwise(activation(name)), points()[:1998].view(3, 18, 37)
    with np.errstate(all="ignore"):
        alone = [torch.cat(each) for each in zip(*(there_and_back(form, network[None]) for network in a), strict=True)]
        for start, stop in ((0, 18), (5, 18)):
            h, delta, given = (aligned(each, *each.shape).copy_(each)[:, start:stop] for each in (a, a + 1, a))
            form.forward_(h)
            form.backward_(delta, h, given if form.needs_input else None)
            assert torch.equal(h, alone[0][:, start:stop])
            assert torch.equal(delta, alone[1][:, start:stop])


def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything fail that a step computes with NumPy."""

    def fail(*_, **__):
        raise AssertionError("NumPy computes")

    monkeypatch.setattr("gradwalk.nets.pointwise.through_numpy", fail)
    monkeypatch.setattr(np, "tanh", fail)
    monkeypatch.setattr(np, "matmul", fail)


def run(**changes) -> Run:
    settings = {"data": "digits", "examples": EXAMPLES, "depth": 5, "width": 16, "gain": 1.2, "epochs": 3}
    return Run(**(settings | {"rate_in": 0.1, "rate_out": 0.1} | changes))


@pytest.mark.parametrize("name", ["tanh", "gelu", "silu", "gelu*100", "gelu@0.8", "tanh@0.8"])
def test_training_with_torch_alone_gives_the_results_of_training_with_numpy(digits, monkeypatch, name) -> None:
    runs = [run(activation=name, seed=seed) for seed in range(2)]
    by_numpy = train(runs, digits, threads=1)
    without_numpy(monkeypatch)
    with pytest.raises(AssertionError, match="NumPy computes"):
        train(runs, digits, threads=1)
    for outcome, expected in zip(train(runs, digits, kernels="torch", threads=1), by_numpy, strict=True):
        assert outcome.last.train_mistakes == expected.last.train_mistakes
        assert outcome.last.train_loss == pytest.approx(expected.last.train_loss, rel=1e-5)
        for ours, theirs in zip(outcome.state.weights, expected.state.weights, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


class Cubic(nn.Module):
    """x + x^3 / 3, in torch; counts its calls."""

    calls = 0

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        Cubic.calls += 1
        return a + a.pow(3) / 3


def test_a_registered_activation_uses_its_counterpart_in_torch() -> None:
    register("test cubic", lambda a: a + a**3 / 3, lambda a: 1 + a**2, torch=Cubic)
    expected = applied("test cubic", by_numpy=True)
    assert Cubic.calls == 0
    h, delta = applied("test cubic", by_numpy=False)
    assert Cubic.calls >= 2
    torch.testing.assert_close((h, delta), expected, rtol=1e-5, atol=1e-5)


def test_a_registered_activation_without_a_counterpart_goes_through_numpy() -> None:
    register("test square", lambda a: a**2 / 2 + a, lambda a: a + 1)
    for ours, theirs in zip(applied("test square", by_numpy=False), applied("test square", by_numpy=True), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", [*BUILT_IN, *MEMBERS, *LEAKS])
def test_the_predicted_memory_keeps_inputs_where_the_kernels_read_them(name: str) -> None:
    assert reads_input(activation(name)) == pointwise(activation(name)).needs_input


def test_unknown_kernels_are_refused(digits) -> None:
    with pytest.raises(ValueError, match='train: kernels must be "auto" or "compiled" or "numpy" or "torch", got '):
        train([run()], digits, kernels="cupy")


@pytest.mark.parametrize("device", ["gpu", "meta", "cuda:99"])
def test_a_device_that_torch_cannot_use_is_refused_before_anything_is_loaded(monkeypatch, device) -> None:
    monkeypatch.setattr("gradwalk.train.loop.member", None)
    with pytest.raises(
        ValueError, match=f"train: device must be one that torch can use here.*got device='{device}'"
    ) as caught:
        train([run()], data=None, device=device)
    assert "\n" not in str(caught.value)
    assert check_device("cpu") == "cpu"
