"""gradwalk.torch.init_: weights have the right scale, and the walks of real networks are unbiased."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from helpers.torch_models import generator, mlp  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk as gw  # noqa: E402
import gradwalk.torch as gwt  # noqa: E402

DEPTH, WIDTH, SEEDS = 200, 100, 24
NARROW = 50  # for orthogonal weights, whose QR decompositions take most of the time
MODULES = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "selu": nn.SELU, "leaky_relu": nn.LeakyReLU}


@functools.cache
def deep(module, width=WIDTH):
    with torch.random.fork_rng(devices=[]):
        return mlp([width] * (DEPTH + 1), module)


def final_log_norm(model, inputs, seed):
    """Return ln(|delta_1| / |delta_D|) of one example by autograd; delta_D is the random cotangent at the output."""
    first = model[0](inputs).detach().requires_grad_()
    output = model[1:](first)
    cotangent = torch.randn(output.shape, generator=generator(10_000 + seed))
    (delta,) = torch.autograd.grad(output, first, cotangent)
    return math.log(delta.double().norm() / cotangent.double().norm())


def final_log_norms(model, seeds=SEEDS, **options):
    """Return the final log-norms of networks whose weights init_ draws, one per seed."""
    finals = []
    for seed in range(seeds):
        source = generator(seed)
        gwt.init_(model, generator=source, keep_fine=False, **options)
        finals.append(final_log_norm(model, torch.randn(1, model[0].in_features, generator=source), seed))
    return np.array(finals)


def assert_unbiased(finals, errors=4.0):
    mean, error = finals.mean(), finals.std(ddof=1) / math.sqrt(len(finals))
    assert abs(mean) < errors * error, f"mean {mean:.3f}, standard error {error:.3f}"


# The walk of real networks.


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_gaussian_nets_of_200_layers_do_an_unbiased_walk(name):
    assert_unbiased(final_log_norms(deep(MODULES[name])))


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_orthogonal_nets_of_200_layers_do_an_unbiased_walk(name):
    seeds = SEEDS if name in ("relu", "leaky_relu") else SEEDS // 2  # the others spread a third as much
    assert_unbiased(final_log_norms(deep(MODULES[name], NARROW), seeds, weights="orthogonal"))


def test_the_measure_sees_a_gain_that_is_two_percent_off():
    model = deep(nn.Tanh, NARROW)
    finals = []
    for seed in range(10):
        gwt.init_(model, generator=generator(seed), weights="orthogonal")
        for layer in model[2::2]:
            layer.weight.data.mul_(1.02)
        finals.append(final_log_norm(model, torch.randn(1, NARROW, generator=generator(seed)), seed))
    with pytest.raises(AssertionError, match="mean"):
        assert_unbiased(np.array(finals))


def test_a_deep_gelu_net_is_called_unsteady_once_with_its_serviceable_depth():
    with pytest.warns(gw.UnsteadyWarning, match=r"gelu is unsteady: at depth 59 .* spread of \d\.") as caught:
        report = gwt.init_(mlp([NARROW] * 61, nn.GELU), generator=generator(0))
    limit = gw.max_depth("gelu", NARROW)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f"largest serviceable depth at this width (spread 2) is {limit:.0f}" in str(caught[0].message)
    assert report.remarks == (str(caught[0].message).removeprefix("init_: "),)
    assert "gelu is unsteady" in str(report)


def test_steady_gelu_is_flat_where_gelu_is_not():
    finals = final_log_norms(deep(functools.partial(gwt.Steady, nn.GELU(), 300.0)))
    assert_unbiased(finals)
    assert finals.std() < 3.0


def test_a_shallow_gelu_net_is_not_called_unsteady():
    assert gwt.init_(mlp([100] * 6, nn.GELU), generator=generator(0), keep_fine=False).remarks == ()


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_layers_of_different_width_are_unbiased(weights):
    model = mlp([784, 300, 100, 500, 10], nn.ReLU)
    assert_unbiased(final_log_norms(model, 100, weights=weights))
    report = gwt.init_(model, keep_fine=False, weights=weights, generator=generator(0))
    expected = [
        gw.gain(f, n, weights=weights) for f, n in (("linear", 784), ("relu", 300), ("relu", 100), ("relu", 500))
    ]
    assert [row.gain for row in report.rows] == pytest.approx(expected, rel=1e-12)


class ConvNet(nn.Module):
    """Twenty convolutions, four of them of stride 2, all of them padded."""

    def __init__(self):
        super().__init__()
        strides = [2 if place in (4, 8, 12, 16) else 1 for place in range(20)]
        self.layers = nn.ModuleList(
            nn.Conv2d(3 if place == 0 else 16, 16, 3, stride=stride, padding=1, padding_mode="circular")
            for place, stride in enumerate(strides)
        )

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            x = layer(x if place == 0 else F.relu(x))
        return x

    def log_norm(self, seed):
        x = torch.randn(1, 3, 32, 32, generator=generator(seed))
        first = self.layers[0](x).detach().requires_grad_()
        out = first
        for layer in self.layers[1:]:
            out = layer(F.relu(out))
        cotangent = torch.randn(out.shape, generator=generator(seed + 1))
        return math.log(torch.autograd.grad(out, first, cotangent)[0].norm() / cotangent.norm())


def test_a_convnet_with_stride_and_padding_keeps_its_gradient():
    model = ConvNet()
    default = model.log_norm(0)
    finals = []
    for seed in range(SEEDS):
        report = gwt.init_(model, generator=generator(seed))
        finals.append(model.log_norm(seed))
    assert [row.activation for row in report.rows] == ["linear"] + ["relu"] * 19
    assert default < -5
    assert abs(np.mean(finals)) < 0.5


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (nn.Conv2d(32, 64, 3, groups=4, padding=1, padding_mode="circular"), 16),
        (nn.ConvTranspose2d(32, 16, 4, stride=2, groups=2), 16),
        (nn.ConvTranspose1d(64, 32, 5, stride=3), 300),
    ],
    ids=["grouped", "transposed and grouped", "transposed"],
)
def test_convolutions_hand_the_norm_of_the_gradient_back(layer, size, weights):
    gwt.init_(layer, keep_fine=False, weights=weights, generator=generator(1))
    shape = (1, layer.in_channels) + (size,) * (layer.weight.ndim - 2)
    x = torch.randn(shape, generator=generator(2), requires_grad=True)
    out = layer(x)
    cotangent = torch.randn(out.shape, generator=generator(3))
    (delta,) = torch.autograd.grad(out, x, cotangent)
    assert math.log(delta.norm() / cotangent.norm()) == pytest.approx(0.0, abs=0.1)
    assert not layer.bias.any()


# The entries.


def test_gaussian_entries_have_mean_variance_and_distribution():
    w = gwt.random_walk_(torch.empty(400, 150, dtype=torch.float64), "relu", generator=generator(0)).numpy()
    std = gw.gain("relu", 150) / math.sqrt(150)
    assert abs(w.mean()) < 4 * std / math.sqrt(w.size)
    assert abs(w.var() / std**2 - 1) < 4 * math.sqrt(2 / w.size)
    assert stats.kstest(w.ravel() / std, "norm").pvalue > 0.001


@pytest.mark.parametrize("shape", [(60, 200), (200, 60), (100, 100), (32, 8, 3, 3)])
def test_orthogonal_entries_have_the_same_variance_and_orthogonal_rows_or_columns(shape):
    w = gwt.random_walk_(torch.empty(shape, dtype=torch.float64), gain=1.5, weights="orthogonal").flatten(1)
    fan_in = w.shape[1]
    assert (w**2).mean().item() == pytest.approx(1.5**2 / fan_in)
    products = w @ w.T if len(w) <= fan_in else w.T @ w
    torch.testing.assert_close(products, products.diag().mean() * torch.eye(len(products), dtype=w.dtype))


def test_each_group_of_a_convolution_is_orthogonal_of_its_own():
    layer = nn.Conv1d(32, 32, 1, groups=4).double()
    gwt.init_(layer, keep_fine=False, weights="orthogonal", generator=generator(0))
    for group in layer.weight.detach().flatten(1).chunk(4):
        torch.testing.assert_close(group @ group.T, torch.eye(8, dtype=torch.float64))


def test_orthogonal_weights_with_more_rows_than_columns_are_not_called_exact():
    rows = gwt.init_(mlp([20, 20, 40], nn.ReLU), keep_fine=False, weights="orthogonal").rows
    assert [row.exact for row in rows] == [True, False]


def test_layers_are_independent_of_each_other():
    model = mlp([100] * 4, nn.ReLU)
    gwt.init_(model, generator=generator(0), keep_fine=False)
    flat = [layer.weight.detach().flatten().double().numpy() for layer in model[::2]]
    correlations = np.corrcoef(flat)[np.triu_indices(3, 1)]
    assert (abs(correlations) < 4 / math.sqrt(flat[0].size)).all()
    assert not np.array_equal(flat[0], flat[1])


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_the_same_seed_gives_the_same_weights_and_the_global_seed_is_left_alone(weights):
    model = mlp([30, 20, 40], nn.Tanh)
    before = torch.get_rng_state()
    states = []
    for seed in (1, 1, 2):
        gwt.init_(model, keep_fine=False, weights=weights, generator=generator(seed))
        states.append(model[2].weight.detach().clone())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_every_floating_type_is_filled_in_place(dtype, weights):
    tensor = torch.zeros(80, 120, dtype=dtype)
    assert gwt.random_walk_(tensor, "relu", weights=weights, generator=generator(0)) is tensor
    expected = gw.gain("relu", 120, weights=weights) / math.sqrt(120)
    assert tensor.double().std().item() == pytest.approx(expected, rel=0.05)


def test_parameters_are_filled_without_a_graph():
    parameter = nn.Parameter(torch.empty(4, 4))
    assert gwt.random_walk_(parameter, "relu").grad_fn is None
    assert parameter.requires_grad


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_meta_tensors_are_left_as_they_are(weights):
    with torch.device("meta"):
        model = mlp([30, 20, 40], nn.ReLU)
    source = generator(0)
    before = source.get_state()
    assert gwt.random_walk_(model[0].weight, weights=weights, generator=source).is_meta
    with pytest.raises(ValueError, match=r"^init_: Sequential is on the meta device .*to_empty"):
        gwt.init_(model, keep_fine=False, weights=weights, generator=source)
    assert len(gwt.plan(model, weights=weights).rows) == 2
    assert torch.equal(source.get_state(), before)
    assert model[0].weight.is_meta


def test_an_empty_tensor_comes_back():
    assert gwt.random_walk_(torch.empty(0, 3)).shape == (0, 3)


def test_depth_sets_the_scale_of_the_weights():
    shallow, deep = (
        gwt.random_walk_(torch.empty(30, 50, dtype=torch.float64), "tanh", depth=depth, generator=generator(0))
        for depth in (2, 40)
    )
    ratio = gw.gain("tanh", 50, 2) / gw.gain("tanh", 50, 40)
    assert ratio > 1.05
    torch.testing.assert_close(shallow, deep * ratio)


def test_the_gain_given_is_the_scale_of_the_weights():
    w = gwt.random_walk_(torch.empty(300, 50), gain=3.0, generator=generator(0))
    assert w.std().item() * math.sqrt(50) == pytest.approx(3.0, rel=4 / math.sqrt(2 * w.numel()))


# Steady, Leak and bad input.


def test_steady_computes_its_formula_and_reads_well():
    steady = gwt.Steady(nn.GELU(), scale=100.0)
    a = torch.linspace(-0.1, 0.1, 11)
    torch.testing.assert_close(steady(a), F.gelu(100 * a) / 100)
    assert repr(steady) == "Steady(GELU(approximate='none'), scale=100)"


@pytest.mark.parametrize("inner", [nn.GELU(), nn.ReLU(inplace=True)], ids=str)
def test_leak_computes_its_formula_and_gradient_and_reads_well(inner):
    leak = gwt.Leak(inner, leak=0.8)
    a = torch.linspace(-2, 2, 11, requires_grad=True)
    expected = 0.8 * a + 0.2 * inner(a.clone())
    torch.testing.assert_close(leak(a.clone()), expected)
    ours, theirs = (torch.autograd.grad(h.sum(), a)[0] for h in (leak(a.clone()), expected))
    torch.testing.assert_close(ours, theirs)
    assert repr(leak) == f"Leak({inner}, leak=0.8)"


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: gwt.random_walk_([1.0]), TypeError, "random_walk_: tensor must be a torch.Tensor, got list"),
        (lambda: gwt.random_walk_(torch.empty(3)), ValueError, r"random_walk_: tensor must be \(out, in\)"),
        (lambda: gwt.random_walk_(torch.ones(3, 3).int()), TypeError, "floating-point numbers, got torch.int32"),
        (lambda: gwt.random_walk_(torch.empty(3, 3), "rleu"), ValueError, "did you mean 'relu'"),
        (lambda: gwt.random_walk_(torch.empty(3, 3), gain=-1.0), ValueError, "random_walk_: gain must be positive"),
        (lambda: gwt.random_walk_(torch.empty(3, 3), weights="flat"), ValueError, "random_walk_: weights must be"),
        (lambda: gwt.random_walk_(torch.empty(3, 3), "tanh"), ValueError, "tanh depends on depth.*pass depth="),
        (lambda: gwt.init_(torch.empty(3, 3)), TypeError, "^init_: model must be a torch.nn.Module, got Tensor"),
        (lambda: gwt.init_(nn.Linear(2, 2), weights="flat"), ValueError, "init_: weights must be"),
        (lambda: gwt.init_(nn.ReLU()), ValueError, "init_: ReLU has no parameters"),
        (lambda: gwt.Steady(nn.GELU(), 0.0), ValueError, "Steady: scale must be positive and finite"),
        (
            lambda: gwt.init_(nn.Linear(2, 2), "rellu"),
            ValueError,
            "^init_: there is no activation 'rellu'; did",
        ),
        (lambda: gwt.plan(nn.Linear(2, 2), activation=3), TypeError, "^plan: activation must be a name"),
        (lambda: gwt.Steady("gelu"), TypeError, "Steady: activation must be a module"),
        (lambda: gwt.Leak(nn.GELU(), 1.0), ValueError, "Leak: leak must be at least 0 and below 1"),
        (lambda: gwt.Leak("gelu", 0.8), TypeError, "Leak: activation must be a module"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
