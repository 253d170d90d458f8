"""gradwalk.torch: modules and functions of torch are recognised as activations, and activations become modules."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk  # noqa: E402
import gradwalk.torch as gwt  # noqa: E402
from gradwalk import nets  # noqa: E402
from gradwalk.activations import BUILT_IN  # noqa: E402

POINTS = torch.linspace(-2, 2, 9, dtype=torch.float64)


@pytest.mark.parametrize(
    "name",
    [*(family.name for family in BUILT_IN), "leaky_relu(0.3)", "elu(0.5)", "celu(0.5)", "softplus(3)", "gelu*100"],
)
def test_the_module_for_an_activation_computes_it_and_is_recognised(name):
    f, module = gradwalk.activation(name), gwt.module_for(name)
    np.testing.assert_allclose(module(POINTS).numpy(), f.f(POINTS.numpy()), atol=1e-6)
    assert gwt.counterpart(module) is f


@pytest.mark.parametrize("family", [each for each in BUILT_IN if each.torch_functions], ids=lambda each: each.name)
def test_every_torch_function_in_the_table_exists_and_computes_its_activation(family):
    for record in family.torch_functions:
        function = getattr(F, record.name, None) or getattr(torch, record.name)
        arguments = {} if record.omitted else dict(record.fixed)
        f = gwt.counterpart_of_function(record.name, [POINTS], arguments)
        np.testing.assert_allclose(function(POINTS, **arguments).numpy(), f.f(POINTS.numpy()), atol=1e-6)


def test_the_parameter_of_a_function_is_read_by_position_and_by_keyword():
    for args, kwargs in [((None, 0.3), {}), ((None,), {"negative_slope": 0.3})]:
        assert gwt.counterpart_of_function("leaky_relu", args, kwargs).name == "leaky_relu(0.3)"
    assert gwt.counterpart_of_function("hardtanh", [None, -2.0], {}) is None


@pytest.mark.parametrize(
    ("args", "bounds", "name"),
    [
        ([0], {}, "relu"),
        ([], {"min": 0.0}, "relu"),
        ([0, None], {}, "relu"),
        ([0], {"max": 6}, "relu6"),
        ([-1.0, 1.0], {}, "hard_tanh"),
        ([1e-6], {}, None),
        ([-1], {}, None),
        ([], {"max": 6}, None),
        ([0, 1], {}, None),
        ([torch.zeros(3)], {}, None),
    ],
    ids=str,
)
def test_bounds_are_an_activation_only_if_they_are_its_bounds(args, bounds, name):
    for function in ("clamp", "clip"):
        found = gwt.counterpart_of_function(function, [POINTS, *args], bounds)
        assert (found.name if found else None) == name


@pytest.mark.parametrize("written", [lambda a: a.clamp(min=0), lambda a: a.clamp_min_(0), lambda a: torch.clip(a, 0)])
@pytest.mark.parametrize("example", [None, torch.randn(4, 30)], ids=["code", "run"])
def test_a_relu_that_is_written_as_a_bound_is_drawn_as_one(written, example):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(30, 30) for _ in range(8))

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = written(layer(x))
            return self.layers[-1](x)

    chain = [part for _ in range(7) for part in (nn.Linear(30, 30), nn.ReLU())]
    expected = [row.proposed for row in gwt.plan(nn.Sequential(*chain, nn.Linear(30, 30))).rows]
    assert [row.proposed for row in gwt.plan(Net(), example=example).rows] == expected
    assert expected[1] is not None


def test_modules_of_other_libraries_are_recognised_by_class_name_and_namesakes_of_torch_are_not():
    class SiLUActivation(nn.Module):
        pass

    class ReLU(nn.Module):
        pass

    assert gwt.counterpart(SiLUActivation()).name == "silu"
    assert gwt.counterpart(ReLU()) is None
    assert gwt.counterpart(nn.Hardtanh(-2.0, 2.0)) is None


def test_slopes_that_differ_between_channels_are_no_activation():
    prelu = nn.PReLU(3)
    assert gwt.counterpart(prelu).name == "leaky_relu(0.25)"
    with torch.no_grad():
        prelu.weight[1] = 0.5
    assert gwt.counterpart(prelu) is None


def test_an_activation_of_the_same_name_as_a_built_in_one_is_not_taken_for_it():
    mine = gradwalk.Activation("relu", np.tanh, lambda a: 1 - np.tanh(a) ** 2)
    np.testing.assert_allclose(gwt.module_for(mine)(POINTS).numpy(), np.tanh(POINTS.numpy()))


# Activations that users register.


class Cubed(nn.Module):
    def __init__(self, share=0.1):
        super().__init__()
        self.share = share

    def extra_repr(self):
        return f"share={self.share}"

    def forward(self, a):
        return a + self.share * a**3


def cubed(a):
    return a + 0.1 * a**3


@pytest.mark.parametrize("torch_module", [Cubed, lambda: Cubed(0.1)], ids=["class", "factory"])
def test_a_registered_module_is_recognised_initialised_probed_and_exported(torch_module, tmp_path):
    f = gradwalk.register("cubed", cubed, torch=torch_module)
    model = nn.Sequential(nn.Linear(12, 12), Cubed(), nn.Linear(12, 12), Cubed(), nn.Linear(12, 3))
    report = gwt.init_(model, generator=torch.Generator().manual_seed(0))
    assert [row.activation for row in report.rows] == ["linear", "cubed", "cubed"]
    assert report.rows[1].gain == pytest.approx(gradwalk.gain("cubed", 12, 2))
    walk = gwt.probe(model, torch.eye(12), lambda output: output.square().sum())
    assert walk.reads[1:] == (f, f)
    assert np.isfinite(walk.predicted).all()
    names = ("cubed", "linear")
    exported = nets.sequential([torch.ones(2, 3), torch.ones(3, 1)], [torch.zeros(3), torch.zeros(1)], names)
    assert type(exported[1]) is Cubed
    nets.save_network(exported, names, tmp_path / "network.safetensors")
    assert torch.equal(
        nets.load_network(tmp_path / "network.safetensors")(torch.ones(1, 2)), exported(torch.ones(1, 2))
    )


def test_a_factory_stands_for_modules_like_its_own_only():
    gradwalk.register("cubed_by_factory", lambda a: a + 0.2 * a**3, torch=lambda: Cubed(0.2))
    assert gwt.counterpart(Cubed(0.2)).name == "cubed_by_factory"
    assert gwt.counterpart(Cubed(0.3)) is None or gwt.counterpart(Cubed(0.3)).name != "cubed_by_factory"


def test_a_registered_module_that_computes_something_else_is_refused():
    class Other(Cubed):
        pass

    gradwalk.register("not_cubed", np.tanh, torch=Other)
    with pytest.raises(ValueError, match="torch of 'not_cubed' computes something else"):
        gwt.module_for("not_cubed")
    gradwalk.register("not_a_module", np.tanh, torch=lambda: torch.tanh)
    with pytest.raises(TypeError, match=r"torch of 'not_a_module' must build a torch.nn.Module"):
        gwt.module_for("not_a_module")


def test_a_registered_module_may_work_in_place():
    class InPlace(nn.Module):
        def forward(self, a):
            return a.mul_(2.0)

    gradwalk.register("doubled_in_place", lambda a: 2 * a, torch=InPlace)
    assert isinstance(gwt.module_for("doubled_in_place"), InPlace)


def test_a_registered_activation_without_a_module_is_exported_through_numpy():
    gradwalk.register("cubed_in_numpy", cubed)
    module = gwt.module_for("cubed_in_numpy")
    x = POINTS.clone().requires_grad_()
    module(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 + 0.3 * POINTS.numpy() ** 2)
    assert gwt.counterpart(module).name == "cubed_in_numpy"
