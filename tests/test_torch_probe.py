"""probe: the measured walk is that of plain autograd, the band holds, the model is unchanged."""

import copy
import itertools
import math

import numpy as np
import pytest

import gradwalk

torch = pytest.importorskip("torch")
from helpers.torch_chains import batch, chain, plain_log_norms  # noqa: E402
from helpers.torch_models import generator  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch.draws import weights_kinds  # noqa: E402
from gradwalk.torch.probe import probe  # noqa: E402


def z_scores(act, gain, examples, nets, **options):
    scores = []
    for seed in range(nets):
        x, loss_fn = batch(examples, seed=10_000 + seed)
        scores.append(probe(chain(act, gain, seed=seed, **options), x, loss_fn).z[0])
    return np.array(scores)


# The band.


@pytest.mark.parametrize(("act", "name"), [(nn.ReLU, "relu"), (nn.Tanh, "tanh")])
def test_the_band_holds_the_final_log_norm_of_150_nets_95_times_in_100(act, name):
    scores = z_scores(act, gradwalk.gain(name, 50, 20), examples=2, nets=150, depth=20)
    assert 0.90 <= (abs(scores) <= 1.96).mean() <= 0.99
    assert 0.85 < scores.std() < 1.15
    assert abs(scores.mean()) < 0.35


def test_the_band_holds_for_orthogonal_weights():
    scores = z_scores(nn.ReLU, 1.45, examples=1, nets=100, depth=20, orthogonal=True)
    assert 0.90 <= (abs(scores) <= 1.96).mean() <= 0.99
    assert 0.85 < scores.std() < 1.15
    assert abs(scores.mean()) < 0.35


def test_orthogonal_weights_are_distinguished_from_gaussian_ones():
    draw = torch.randn(40, 60, generator=generator(3))
    rows = torch.linalg.qr(draw.T)[0].T
    assert weights_kinds([3.0 * rows]) == ["orthogonal"]
    assert weights_kinds([draw]) == ["gaussian"]
    assert weights_kinds([rows.T]) == ["gaussian"]


def test_the_walk_through_a_convnet_is_predicted():
    scores = []
    for seed in range(12):
        draw, layers = generator(seed), []
        for place in range(12):
            conv = nn.Conv2d(3 if place == 0 else 12, 12, 3, padding=1, stride=2 if place == 6 else 1)
            with torch.no_grad():
                conv.weight.normal_(0, math.sqrt(2 / conv.weight[0].numel()), generator=draw)
            nn.init.zeros_(conv.bias)
            layers += [conv, nn.ReLU()]
        direction = torch.randn(8, 12, 6, 6, generator=draw)
        x = torch.randn(8, 3, 12, 12, generator=draw)
        scores.append(probe(nn.Sequential(*layers), x, lambda y, v=direction: (y * v).sum()).z[0])
    assert abs(np.mean(scores)) < 1.5
    assert np.std(scores) < 2.5


# What is measured.


def test_the_measured_walk_is_that_of_plain_autograd():
    model, (x, loss_fn) = chain(nn.Tanh, 1.2, dtype=torch.float64), batch(16, dtype=torch.float64)
    expected = plain_log_norms(model, x, loss_fn)
    walk = probe(model, x, loss_fn)
    assert walk.log_norm[0] == pytest.approx(expected.mean(), abs=1e-9)
    assert walk.spread[0] == pytest.approx(expected.std(ddof=1), abs=1e-9)
    assert walk.log_norm[-1] == 0
    first = model[0](x)
    assert walk.forward[0] == pytest.approx(math.log(first.square().mean().sqrt().item()), abs=1e-9)


def test_an_activation_in_place_changes_nothing():
    model, (x, loss_fn) = chain(nn.ReLU, 1.4), batch(8)
    in_place = chain(lambda: nn.ReLU(inplace=True), 1.4)
    assert np.array_equal(probe(model, x, loss_fn).log_norm, probe(in_place, x, loss_fn).log_norm)


def test_dead_and_saturated_units_are_counted():
    model, (x, loss_fn) = chain(nn.ReLU, 1.4, depth=3), batch(64)
    model[0] = nn.Linear(50, 50)
    with torch.no_grad():
        model[0].bias[:10] = -100.0
    assert probe(model, x, loss_fn).stuck[0] == pytest.approx(0.2)
    bent = nn.Sequential(model[0], nn.Tanh(), *model[2:])
    assert probe(bent, x, loss_fn).stuck[0] == pytest.approx(0.2)
    assert math.isnan(probe(model, x[:2], lambda y: y.sum()).stuck[0])


def test_gradients_past_single_precision_are_followed():
    for gain, depth, scale in ((0.4, 150, 1.0), (1.7, 40, 1e37)):
        model, (x, loss_fn) = chain(nn.Tanh, gain, depth), batch(4)
        walk = probe(model, x, lambda y, scale=scale, loss_fn=loss_fn: loss_fn(y) * scale)
        assert walk.lost >= 0
        assert "leaves the range" in walk.verdict
        assert walk.log_norm[0] == pytest.approx(plain_log_norms(model.double(), x.double(), loss_fn).mean(), rel=1e-3)


def test_paths_around_a_layer_are_not_mistaken_for_a_chain():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner = nn.Linear(50, 50), chain(nn.Tanh, 1e-5, depth=20)

        def forward(self, x):
            a = self.first(x)
            return a * 1e-30 + self.inner(a)

    model, (x, loss_fn) = Around(), batch(4)
    walk = probe(model, x, loss_fn)
    assert walk.log_norm[0] == pytest.approx(math.log(1e-30), abs=1e-3)


# The model stays as it was.


class Everything(nn.Module):
    """Dropout, batch norm, a frozen layer, a buffer that a forward pass replaces."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(50, 50),
            nn.BatchNorm1d(50),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(50, 50),
            nn.Tanh(),
            nn.Linear(50, 3),
        )
        self.net[0].weight.requires_grad_(False)
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x):
        self.runs = self.runs + 1
        return self.net(x)


@pytest.mark.parametrize("training", [True, False])
def test_probing_changes_nothing(training):
    torch.manual_seed(3)
    model = Everything().train(training)
    x = torch.randn(16, 50)
    model(x).sum().backward()
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    state, random_state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with torch.no_grad():
        walk = probe(model, x, lambda y: y.square().sum())
    assert len(walk.layers) == 3
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    for grad, p in zip(grads, model.parameters(), strict=True):
        assert p.grad is None if grad is None else torch.equal(p.grad, grad)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(module.training == training for module in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    assert [p.requires_grad for p in model.parameters()][:2] == [False, True]


def test_hooks_are_removed_when_the_loss_fails():
    model, (x, _) = chain(nn.ReLU, 1.4), batch(4)
    with pytest.raises(ZeroDivisionError):
        probe(model, x, lambda y: 1 / 0)
    assert not any(module._forward_hooks for module in model.modules())


def test_inference_mode_around_it_does_not_hinder():
    model, (x, loss_fn) = chain(nn.ReLU, 1.4), batch(4)
    expected = probe(model, x, loss_fn).log_norm
    with torch.inference_mode():
        assert np.array_equal(probe(model, x + 0, loss_fn).log_norm, expected)


# Precision.


def test_autocast_agrees_with_single_precision_within_its_own():
    model, (x, loss_fn) = chain(nn.ReLU, 1.4), batch(32)
    full = probe(model, x, loss_fn)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = probe(model, x, loss_fn)
    assert not np.array_equal(half.log_norm, full.log_norm)
    assert half.log_norm == pytest.approx(full.log_norm, abs=30 * 2**-8)
    assert half.status == full.status


def test_half_precision_gradients_that_would_underflow_are_followed():
    model, (x, loss_fn) = chain(nn.Tanh, 0.8, depth=60), batch(4)
    full = probe(model, x, loss_fn)
    with torch.autocast("cpu", dtype=torch.float16):
        half = probe(model, x, lambda y: loss_fn(y) * 1e-2)
    assert half.lost >= 0
    assert half.log_norm[0] == pytest.approx(full.log_norm[0], rel=0.05)


@pytest.mark.parametrize("scale", [2.0**-20, 65536.0])
def test_the_scale_of_a_grad_scaler_makes_no_difference(scale):
    model, (x, loss_fn) = chain(nn.Tanh, 1.2), batch(4)
    scaled = probe(model, x, lambda y: loss_fn(y) * scale)
    assert scaled.log_norm == pytest.approx(probe(model, x, loss_fn).log_norm, abs=1e-5)


# What comes back.


def test_the_table_is_narrow_and_short():
    for depth in (5, 200):
        text = str(probe(chain(nn.ReLU, 1.4, depth), *batch(8)))
        table, verdict = text.rsplit("\n", 1)
        assert max(map(len, table.split("\n"))) <= 100
        assert len(table.split("\n")) <= 70
        assert verdict.startswith(("healthy", "vanishing", "exploding"))


def test_the_columns_are_lists_of_one_length():
    columns = probe(chain(nn.ReLU, 1.4, 6), *batch(8)).columns()
    assert {len(values) for values in columns.values()} == {6}
    assert columns["reads"] == ["linear"] + 5 * ["relu"]
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert len(pandas.DataFrame(columns)) == 6


def test_the_plot_has_a_log_axis_and_goes_from_the_output_back():
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    walk = probe(chain(nn.ReLU, 1.4, 6), *batch(8))
    panel = walk.plot()
    assert panel.get_yscale() == "log"
    assert panel.get_xlim() == (6, 1)
    measured = next(line for line in panel.lines if line.get_label() == "measured")
    assert np.asarray(measured.get_ydata()) == pytest.approx(np.exp(walk.log_norm[::-1]))
    mine = figure_class().subplots()
    assert walk.plot(mine) is mine


def test_what_cannot_be_predicted_is_reported():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.three = (nn.Linear(50, 50) for _ in range(3))

        def forward(self, x):
            return self.three(torch.tanh(self.two(torch.sinc(self.one(x)))))

    model = Odd()
    assert np.isfinite(probe(model, *batch(8)).predicted).all()
    nn.utils.parametrizations.weight_norm(model.two)
    walk = probe(model, *batch(8))
    assert np.isnan(walk.predicted[0])
    assert np.isfinite(walk.predicted[1:]).all()
    assert np.isfinite(walk.log_norm).all()
    assert "two: parametrised" in str(walk)
    assert "nothing is predicted" in str(walk)


def test_a_layer_that_runs_twice_is_two_steps_of_the_walk():
    layer = nn.Linear(50, 50)
    walk = probe(nn.Sequential(layer, nn.Tanh(), layer), *batch(8))
    assert walk.layers == ("0", "0#2")


@pytest.mark.parametrize(
    ("model", "loss_fn", "message"),
    [
        (nn.Sequential(nn.Tanh()), lambda y: y.sum(), "probe: the model ran no weight layer"),
        (nn.Linear(50, 2), lambda y: y, "probe: loss_fn"),
        (nn.Linear(50, 2), lambda y: y.detach().sum(), "probe: the loss has no gradient"),
        (nn.Linear(50, 2), lambda y: (0 * y).sum(), "probe: the gradient of the loss is zero"),
        (nn.LazyLinear(2), lambda y: y.sum(), "probe: the model has lazy layers"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_bad_input_is_refused_in_one_sentence(model, loss_fn, message):
    with pytest.raises(ValueError, match=message):
        probe(model, torch.ones(4, 50), loss_fn)


def test_something_else_than_a_model_is_refused():
    with pytest.raises(TypeError, match="probe: model must be"):
        probe(lambda x: x, torch.ones(4), lambda y: y.sum())


def test_every_examples_order_gives_the_same_walk():
    model, (x, _) = chain(nn.Tanh, 1.2), batch(3)
    walks = [probe(model, x[list(order)], lambda y: y.sum()).log_norm[0] for order in itertools.permutations(range(3))]
    assert np.ptp(walks) < 1e-5


def test_a_chain_that_is_run_without_hooks_gives_the_walk_of_one_with_them():
    layers = [layer for _ in range(6) for layer in (nn.Linear(10, 10), nn.Tanh())]
    model, x = nn.Sequential(*layers, nn.Linear(10, 3)), torch.randn(20, 10)
    bare = probe(model, x, lambda output: output.mul_(2).square().sum())
    called = []
    with model[3].register_forward_hook(lambda *_: called.append(1)):
        hooked = probe(model, x, lambda output: output.mul_(2).square().sum())
    assert called == [1]
    for name in ("log_norm", "predicted", "low", "directions", "signal_directions", "relative"):
        assert getattr(hooked, name) == pytest.approx(getattr(bare, name), rel=1e-6), name
