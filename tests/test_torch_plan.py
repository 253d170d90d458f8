"""gradwalk.torch.plan and init_: what is drawn follows its law, and what has none is left alone."""

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from helpers.torch_models import Branch, Wired, generator, mlp, residual, square  # noqa: E402
from torch import nn  # noqa: E402

import gradwalk as gw  # noqa: E402
import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import LayerRole  # noqa: E402


def growth(model, inputs, first, last, seed):
    """Return the mean over examples of ln(|delta| at the output of `first` / |delta| at the output of `last`)."""
    outputs = {}
    handles = [m.register_forward_hook(lambda m, a, y: outputs.__setitem__(m, y)) for m in (first, last)]
    model(inputs)
    for handle in handles:
        handle.remove()
    cotangent = torch.randn(outputs[last].shape, generator=generator(seed))
    (delta,) = torch.autograd.grad(outputs[last], outputs[first], cotangent)
    dims = tuple(range(1, delta.dim())), tuple(range(1, cotangent.dim()))
    norms = torch.linalg.vector_norm(delta, dim=dims[0]) / torch.linalg.vector_norm(cotangent, dim=dims[1])
    return float(norms.log().mean())


def growths(build, inputs, seeds, ends=(0, -2), **options):
    """Return the growth of the gradient in models that init_ drew, one per seed, and the plan of the last."""
    values = []
    for seed in range(seeds):
        model = build()
        plan = gwt.init_(model, generator=generator(seed), keep_fine=False, **options)
        values.append(growth(model, inputs(seed), model[ends[0]], model[ends[1]], 1000 + seed))
    return np.array(values), plan


def assert_mean(values, expected, errors=4.0, atol=0.0):
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - expected) < errors * error + atol, f"{values.mean():.3f} +- {error:.3f}, not {expected}"


# Residual branches.


@pytest.mark.parametrize("norm", [None, nn.LayerNorm, nn.RMSNorm])
def test_the_gradient_grows_by_a_half_over_any_number_of_residual_branches(norm):
    def inputs(seed):
        return torch.randn(4, 10, generator=generator(seed))

    values, plan = growths(lambda: residual(40, norm=norm), inputs, 12)
    if norm is None:
        assert_mean(values, 0.5 * 40 * math.log1p(1 / 40), atol=0.02)
    assert 0.2 < values.mean() < 0.6
    assert {row.role for row in plan.rows} == {LayerRole.CHAIN, LayerRole.BRANCH, LayerRole.HEAD}
    assert "along the stream of 40 branches" in str(plan)


def test_a_residual_net_that_is_fine_is_left_alone_and_one_that_explodes_is_mended():
    """REVIEW: 40 blocks of width 64 ended at 947 instead of 0.09."""
    model = residual(40)
    plan = gwt.plan(model)
    assert plan.drawn == ()
    assert plan.row("7.b").reason == "fine as it is: its own scale serves"
    for block in model[1:-1]:
        nn.init.kaiming_normal_(block.a.weight)
        nn.init.kaiming_normal_(block.b.weight)
    drawn = {row.name for row in gwt.plan(model).drawn}
    assert drawn >= {f"{n}.{each}" for n in range(1, 41) for each in "ab"}


@pytest.mark.parametrize("depth", [16, 40])
def test_a_chain_is_drawn_where_its_own_scale_does_not_serve(depth):
    plan = gwt.plan(mlp([64] * depth, nn.ReLU))
    assert len(plan.drawn) == (0 if depth == 16 else depth - 1)
    assert plan.rows[3].gain == pytest.approx(gw.gain("relu", 64))


def test_a_branch_that_begins_with_a_norm_is_scaled_to_the_stream():
    embedding = nn.Embedding(20, 64)
    nn.init.normal_(embedding.weight, std=0.02)
    model = nn.Sequential(embedding, *(Branch(64, nn.LayerNorm) for _ in range(16)), nn.LayerNorm(64), square(64))
    plan = gwt.init_(model, example=torch.arange(20)[None], generator=generator(0), keep_fine=False)
    size = float(embedding.weight.detach().square().mean().sqrt())
    assert plan.row("3.b").gain == pytest.approx(gw.gain("relu", 64) / 4 * size)
    assert f"of the stream's size, {size:.2g}" in str(plan)
    added = model[1](model[0](torch.arange(20))) - model[0](torch.arange(20))
    assert float(added.detach().square().mean().sqrt() / size) == pytest.approx(0.25, rel=0.25)


def test_what_already_scales_a_branch_is_counted():
    class Scaled(Branch):
        def __init__(self, width):
            super().__init__(width)
            self.scale = nn.Parameter(torch.full((width,), 1e-2))

        def forward(self, x):
            return x + self.scale * self.b(torch.relu(self.a(x)))

    model = nn.Sequential(square(), *(Scaled(12) for _ in range(9)), square())
    plan = gwt.plan(model, torch.ones(2, 12))
    assert plan.row("3.b").gain == pytest.approx(gw.gain("relu", 12))


def test_parallel_terms_share_the_sum():
    model = Wired(lambda m, x: m.c(torch.relu(m.a(x) + m.b(x))), a=square(100), b=square(100), c=square(100))
    plan = gwt.init_(model, example=torch.ones(2, 100), generator=generator(0), keep_fine=False)
    assert [row.gain for row in plan.rows] == pytest.approx(
        [gw.gain("linear", 100) / math.sqrt(2)] * 2 + [gw.gain("relu", 100)]
    )
    assert all("one of 2 terms" in row.notes[0] for row in plan.rows[:2])


class Fire(nn.Module):
    """A module of SqueezeNet: two branches that read the same signal, and whose outputs are concatenated."""

    def __init__(self, narrow, wide):
        super().__init__()
        self.squeeze = nn.Linear(sum(wide), narrow)
        self.left, self.right = (nn.Linear(narrow, width) for width in wide)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.left(x)), torch.relu(self.right(x))], dim=-1)


@pytest.mark.parametrize("wide", [(64, 64), (32, 96)])
def test_the_gradient_does_not_drift_over_concatenated_branches(wide):
    def inputs(seed):
        return torch.randn(4, 16, generator=generator(seed))

    def build():
        return nn.Sequential(nn.Linear(16, 128), nn.ReLU(), *(Fire(48, wide) for _ in range(20)), nn.Linear(128, 4))

    values, plan = growths(build, inputs, 12)
    assert_mean(values, 0.0)
    assert values.std(ddof=1) / math.sqrt(12) < 0.4  # at 1 / sqrt(2) per branch the gradient would shrink by exp(6.9)
    assert {(row.role, row.activation) for row in plan.rows[1:-1]} == {(LayerRole.CHAIN, "relu")}
    fan_ins = [128, 48, 48]
    assert [row.gain for row in plan.rows[1:4]] == pytest.approx([gw.gain("relu", n) for n in fan_ins], rel=1e-6)


# Norms, dropout, padding, pooling.


def test_a_layer_before_a_norm_is_left_alone_and_one_behind_it_has_its_rule():
    model = nn.Sequential(square(), nn.BatchNorm1d(12), nn.Tanh(), square(), nn.Tanh(), nn.Linear(12, 2))
    plan = gwt.plan(model)
    assert [row.role for row in plan.rows] == [LayerRole.CHAIN, LayerRole.NORMED, LayerRole.HEAD]
    assert plan.rows[0].reason == "a norm follows, so that its scale does not change the signal"
    assert plan.rows[1].gain == pytest.approx(gw.gain("tanh", 12, 1))
    assert [(each.name, each.kind) for each in plan.left_alone] == [("1", "BatchNorm1d")]


def test_the_activation_built_into_a_norm_is_read():
    class BatchNormAct1d(nn.BatchNorm1d):
        def __init__(self, width):
            super().__init__(width)
            self.drop, self.act = nn.Identity(), nn.ReLU()

        def forward(self, x):
            return self.act(self.drop(super().forward(x)))

    model = nn.Sequential(square(), BatchNormAct1d(12), square())
    for example in (None, torch.randn(4, 12)):
        assert gwt.plan(model, example).rows[1].activation == "relu"


def test_dropout_is_counted():
    """REVIEW: 30 x (Linear 64, ReLU, Dropout 0.5) reported a drift of 0 and had one of +9.7."""

    def build():
        layers = [each for _ in range(30) for each in (square(64), nn.ReLU(), nn.Dropout(0.5))]
        return nn.Sequential(*layers, square(64))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        values, plan = growths(build, lambda seed: torch.randn(8, 64, generator=generator(seed)), 20, (0, -1))
    assert_mean(values, 0.0)
    assert values.std() < 3
    assert plan.rows[1].gain == pytest.approx(gw.gain("relu", 64, dropout=0.5))
    functional = Wired(lambda m, x: m.b(F.dropout(torch.relu(m.a(x)), 0.5, m.training)), a=square(64), b=square(64))
    for example in (None, torch.ones(2, 64)):
        assert gwt.plan(functional, example).row("b").gain == pytest.approx(plan.rows[1].gain)


@pytest.mark.parametrize("module", [nn.Dropout2d(0.5), nn.AlphaDropout(0.2)], ids=str)
def test_dropout_with_another_law_is_left_out_by_name(module):
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), module, nn.Conv2d(4, 4, 1))
    row = gwt.plan(model).rows[1]
    assert row.drift is None
    assert "dropout of channels" in row.notes[0]


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (5, 1), (3, 2)])
def test_padding_is_counted_where_the_sizes_are_known(kernel, dilation):
    """DESIGN section 6: 3x3 on 8x8 over 30 layers loses 1.39, 5x5 3.4, dilation 2 3.95."""
    padding = dilation * (kernel - 1) // 2

    def build(depth=16, channels=16):
        options = {"padding": padding, "dilation": dilation, "bias": False}
        convolutions = [nn.Conv2d(channels, channels, kernel, **options) for _ in range(depth)]
        return nn.Sequential(*(each for layer in convolutions for each in (layer, nn.ReLU())))

    def inputs(seed):
        return torch.randn(1, 16, 8, 8, generator=generator(seed))

    values, plan = growths(build, inputs, 16, (0, -2), example=inputs(0))
    assert_mean(values, 0.0, atol=0.05)
    lost = -sum(math.log(row.gain / gw.gain("relu", 16 * kernel**2)) for row in plan.rows[1:])
    assert lost < -0.4
    unknown = gwt.plan(build())
    assert all(row.drift is None and "without example=" in row.notes[-1] for row in unknown.rows)
    assert unknown.rows[1].gain == pytest.approx(gw.gain("relu", 16 * kernel**2))


def test_circular_padding_loses_nothing():
    layer = nn.Conv2d(16, 16, 3, padding=1, padding_mode="circular")
    row = gwt.plan(nn.Sequential(layer, nn.ReLU(), copy.deepcopy(layer)), torch.ones(1, 16, 8, 8)).rows[1]
    assert (row.gain, row.drift, row.exact) == (pytest.approx(gw.gain("relu", 144)), 0.0, True)


@pytest.mark.parametrize(
    ("between", "drift"),
    [
        (nn.AvgPool2d(2), -math.log(2)),
        (nn.AvgPool2d((1, 3)), -0.5 * math.log(3)),
        (nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Unflatten(1, (4, 1, 1))), -0.5 * math.log(36)),
    ],
    ids=str,
)
def test_average_pooling_is_counted(between, drift):
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), between, nn.Conv2d(4, 4, 1))
    wrapped = Wired(lambda m, x: m.net(x), net=model)
    assert gwt.plan(wrapped, torch.ones(2, 4, 6, 6)).rows[1].drift == pytest.approx(drift)
    x = torch.randn(2, 4, 6, 6, generator=generator(0), requires_grad=True)
    y = between(x)
    cotangent = torch.randn(y.shape, generator=generator(1))
    (delta,) = torch.autograd.grad(y, x, cotangent)
    assert float((delta.norm() / cotangent.norm()).log()) == pytest.approx(drift, abs=1e-5)


def test_constant_factors_are_counted_and_max_pooling_is_named():
    half = Wired(lambda m, x: m.b(0.5 * torch.relu(m.a(x))), a=square(), b=square())
    assert gwt.plan(half, torch.ones(2, 12)).row("b").drift == pytest.approx(math.log(0.5))
    row = gwt.plan(nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1))).rows[1]
    assert row.drift is None
    assert "max pooling: not counted" in row.notes


@pytest.mark.parametrize("module", [nn.Tanh, nn.Softplus])
def test_gains_of_many_widths_are_computed_or_fitted_within_their_standard_errors(module):
    """Those of tanh are computed; of those of softplus, which are sampled, four are, and the others fitted."""
    widths = [20 + 9 * n for n in range(9)]
    plan = gwt.plan(mlp(widths, module), keep_fine=False)
    for row, width in list(zip(plan.rows, widths, strict=False))[2::3]:
        exact = gw.solve_gain(module.__name__.lower(), width, len(widths) - 2)
        assert abs(row.gain - exact.value) <= 3 * exact.standard_error * (exact.walks > 0)


def test_a_branch_behind_a_norm_may_be_larger_than_its_law():
    model = nn.Sequential(nn.Embedding(9, 32), *(Branch(32, nn.LayerNorm) for _ in range(4)))
    nn.init.normal_(model[0].weight, std=0.02)
    assert gwt.plan(model, torch.arange(9)).drawn == ()


# How a model is followed.


@pytest.mark.parametrize("example", [None, torch.ones(2, 12)], ids=["traced", "run"])
@pytest.mark.parametrize(
    "wiring",
    [
        lambda m, x: m.b((y := m.a(x), y.relu_())[0]),
        lambda m, x: m.b((y := m.a(x), F.relu(y, inplace=True))[0]),
        lambda m, x: m.b((y := m.a(x), m.act(y))[0]),
        lambda m, x: m.b((y := m.a(x), y.relu_())[0][:, :12]),
    ],
    ids=["method", "function", "module", "by torch.fx"],
)
def test_in_place_activations_are_read(wiring, example):
    model = Wired(wiring, a=square(), b=square(), act=nn.ReLU(inplace=True))
    assert gwt.plan(model, example).row("b").activation == "relu"


def test_data_parallel_is_unwrapped():
    model = mlp([12] * 3, nn.ReLU)
    plan = gwt.init_(nn.DataParallel(model), generator=generator(0))
    assert [row.name for row in plan.rows] == ["0", "2"]


def test_a_plan_changes_nothing():
    model = residual(3)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    gwt.plan(model, torch.ones(2, 10))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
