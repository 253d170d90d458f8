"""The gain stops the drift; where it depends on depth it is solved for, with an honest standard error."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk.gains import SERVICEABLE, expansion, sampled, unsteady_message
from gradwalk.gains.expansion import expanded_gain

CASES = [
    (name, width, depth)
    for name in ("linear", "relu", "leaky_relu", "tanh", "elu", "selu")
    for width, depth in ((20, 30), (60, 40), (20, 120))
]


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(("name", "width", "depth"), [*CASES, ("gelu", 100, 10)])
def test_exact_gain_stops_the_drift(name, width, depth, weights):
    g = gw.gain(name, width, depth, weights=weights)
    walks = gw.simulate(name, width, depth, gain=g, walks=400, rng=77, weights=weights)
    assert abs(walks.mean) < max(4 * walks.standard_error, 1e-4)  # an orthogonal linear net does not walk


def test_one_gain_for_unequal_widths_stops_the_drift():
    for name in ("relu", "tanh"):
        widths = [30, 60, 20, 50, 50, 10, 40]
        walks = gw.simulate(name, widths, gain=gw.gain(name, widths), walks=1000, rng=78)
        assert abs(walks.mean) < 4 * walks.standard_error


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.2)"])
def test_neutral_gain_and_spread_are_exact_where_layers_widen_and_narrow(name, weights):
    widths, count = [5, 20] * 20 + [5], 4000
    exact = gw.solve_gain(name, widths, weights=weights)
    walks = gw.simulate(name, widths, gain=exact.value, walks=count, rng=3, weights=weights)
    assert abs(walks.mean) < 4 * walks.standard_error
    assert walks.spread == pytest.approx(exact.spread, rel=4 / math.sqrt(2 * count))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.2)"])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_neutral_gain_and_spread_are_exact_with_dropout(name, dropout, weights):
    """At width 5 many layers are left without a unit, and resampled."""
    widths, count = [5, 20] * 10 + [5], 2000
    exact = gw.solve_gain(name, widths, weights=weights, dropout=dropout)
    chain = gw.dense(name, gain=exact.value, dropout=dropout)
    walks = gw.simulate(chain, widths, walks=count, rng=3, weights=weights)
    assert abs(walks.mean) < 4 * walks.standard_error
    assert walks.spread == pytest.approx(exact.spread, rel=4 / math.sqrt(2 * count))


@pytest.mark.parametrize(("name", "dropout"), [("tanh", 0.1), ("tanh", 0.5), ("elu", 0.3)])
def test_sampled_gain_with_dropout_stops_the_drift(name, dropout):
    estimate = gw.solve_gain(name, 40, 30, dropout=dropout, walks=800)
    walks = gw.simulate(gw.dense(name, gain=estimate.value, dropout=dropout), 40, 30, walks=800, rng=77)
    assert abs(walks.mean) < 4 * math.hypot(walks.standard_error, 30 * estimate.standard_error / estimate.value)
    assert gw.gain(name, 40, 30) - estimate.value > 4 * estimate.standard_error


def test_dropout_is_in_the_description_and_shortens_the_reach():
    description = gw.describe_gain("relu", 100, dropout=0.5)
    assert description.dropout == 0.5
    assert description.step == gw.step("relu", 100, dropout=0.5)
    assert gw.max_depth("relu", 100, dropout=0.5) < gw.max_depth("relu", 100) / 2
    assert gw.min_width("relu", 50, dropout=0.5) > 2 * gw.min_width("relu", 50)


@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.2)"])
def test_sampled_gain_agrees_with_the_closed_form(name):
    sampled, exact = gw.solve_gain(name, 30, 100, walks=500, seed=3, sampled=True), gw.solve_gain(name, 30, 100)
    assert abs(sampled.value - exact.value) < 4 * sampled.standard_error
    assert sampled.spread == pytest.approx(exact.spread, rel=4 / math.sqrt(2 * 500))


def test_standard_error_is_honest():
    """Over seeds, the estimates scatter as much as their standard errors claim."""
    estimates = [gw.solve_gain("tanh", 20, 8, walks=60, seed=seed) for seed in range(40)]
    scatter = np.std([estimate.value for estimate in estimates], ddof=1)
    claimed = np.sqrt(np.mean([estimate.standard_error**2 for estimate in estimates]))
    assert claimed == pytest.approx(scatter, rel=4 / math.sqrt(2 * 40))


def test_standard_error_is_honest_where_single_walks_decide_the_mean():
    """At width 10, the mean of elu is flat around its root and steep beside it."""
    estimates = [gw.solve_gain("elu", 10, 250, walks=200, seed=seed) for seed in range(6)]
    scatter = np.std([estimate.value for estimate in estimates], ddof=1)
    claimed = np.sqrt(np.mean([estimate.standard_error**2 for estimate in estimates]))
    assert 0.5 * scatter < claimed < 4 * scatter


def root_of(function, start=0.0):
    """Return the sampled root of a function of ln g to which the walks add noise, and where the mean was evaluated."""
    noise = np.random.default_rng(0).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std(ddof=3)
    places = []

    def mean(log_gain):
        places.append(log_gain)
        values = function(log_gain) + noise
        return sampled._Mean(log_gain, *sampled.mean_and_error(values), values, 1.0)

    return sampled._root(mean, start, 0.0), places


@pytest.mark.parametrize("start", [-0.3, 0.0, 0.3])
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: 100 * (x - 0.1), 100),
        (lambda x: 40 * math.expm1(30 * (x - 0.1)), 1200),
        (lambda x: math.sinh(40 * (x - 0.1)), 40),
        (lambda x: 5 * math.tanh(200 * (x - 0.1)), 1000),
    ],
)
def test_the_root_of_a_mean_is_found_with_the_slope_next_to_it(function, slope, start):
    root, places = root_of(function, start)
    assert abs(root.log_gain - 0.1) < 0.1 * root.error
    assert root.slope == pytest.approx(slope, rel=0.1)
    assert root.error == pytest.approx(0.05 / slope, rel=0.1)
    assert len(places) < 20


def test_the_error_of_a_root_covers_where_the_mean_is_flat():
    root, _ = root_of(lambda x: 50 * (max(x - 0.13, 0) + min(x - 0.07, 0)))
    assert abs(root.log_gain - 0.1) < 2 * root.error
    assert root.error > 0.01


def test_an_error_is_no_smaller_than_what_is_left_when_trials_end(monkeypatch):
    monkeypatch.setattr(sampled, "_TRIALS", 1)
    root, _ = root_of(lambda x: 40 * math.expm1(30 * (x - 0.1)), 0.3)
    assert abs(root.log_gain - 0.1) < 2 * root.error


# Gain and spread at N = 100 and D = 20, 50, 200, from an independent program; the number of walks behind them was not
# recorded, and is taken to be the 400 of the paper's Figure 2.
TABLE = {
    "tanh": [(20, 1.272, 0.47), (50, 1.195, 0.67), (200, 1.143, 1.33)],
    "elu": [(20, 1.220, 0.43), (50, 1.191, 0.68), (200, 1.159, 1.39)],
    "selu": [(20, 0.926, 0.46), (50, 0.880, 0.69), (200, 0.837, 1.41)],
    "softplus": [(20, 1.568, 0.64), (50, 1.508, 1.17), (200, 1.458, 2.30)],
    "gelu": [(20, 1.554, 1.91), (50, 1.579, 6.2), (200, 1.588, 28.8)],
    "silu": [(20, 1.680, 2.07), (50, 1.695, 6.9), (200, 1.703, 32.1)],
}
FORWARD = {  # the forward variance at D = 200, 5 % and 95 %
    "tanh": (0.11, 0.23),
    "elu": (0.13, 0.45),
    "selu": (0.10, 0.23),
    "softplus": (380, 3e6),
    "gelu": (1e-40, 1e19),
    "silu": (1e-29, 1e30),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_independent_table_of_the_three_kinds_is_reproduced(name):
    for depth, g, spread in TABLE[name]:
        walks = gw.simulate(name, 100, depth, gain=g, walks=400, rng=80, every=depth)
        error = walks.spread * math.sqrt(1 / 400 + 1 / 400)
        rounding = 0.0005 * depth / g  # g is given to three decimals
        assert abs(walks.mean) < 4 * error + rounding
        assert walks.spread == pytest.approx(spread, rel=4 / math.sqrt(2) * math.sqrt(1 / 400 + 1 / 400))
    low, high = np.log(FORWARD[name])
    quantiles = np.quantile(walks.log_variance[:, 0], [0.05, 0.95])
    assert np.abs(quantiles - [low, high]).max() < 0.45 * (high - low) / 3.29  # 4 standard errors of a 5 % quantile


def test_tanh_gains_at_depth_200_are_those_of_the_independent_program():
    for width, g in ((20, 1.36), (50, 1.19), (100, 1.14), (200, 1.12), (500, 1.10)):
        ours = expanded_gain(gw.dense("tanh"), width, 200, "gaussian")
        error = g * ours.spread / math.sqrt(400) / ours.slope  # of the independent program, see TABLE
        assert abs(gw.gain("tanh", width, 200) - g) < 0.005 + 4 * error


def test_a_gain_that_depends_on_depth_requires_it():
    with pytest.raises(ValueError, match="gain: the gain of tanh depends on depth, which is missing; pass depth="):
        gw.gain("tanh", 100)


def test_a_sampled_gain_is_deterministic_for_a_seed():
    first, again, other = (gw.solve_gain("tanh", 30, 20, walks=50, seed=seed).value for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_an_unsteady_activation_beyond_its_depth_warns_and_still_returns_a_gain():
    with pytest.warns(gw.UnsteadyWarning, match=r"gain: gelu is unsteady: at depth 60 .* spread of \d+\.\d .* is \d+"):
        assert gw.gain("gelu", 50, 60) == pytest.approx(1.6, abs=0.1)


def test_no_warning_up_to_the_serviceable_depth_nor_for_steady_activations():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gw.gain("gelu", 100, 10)
        gw.gain("tanh", 20, 300)


def test_the_unsteady_message_begins_with_its_caller_and_names_spread_and_depth():
    message = unsteady_message("gelu", width=50, depth=60, where="init_")
    assert message.startswith("init_: gelu is unsteady: at depth 60 and width 50 ")
    assert f"spread of {gw.solve_gain('gelu', 50, 60).spread:.1f}" in message
    assert f"is {gw.max_depth('gelu', 50)}." in message
    assert unsteady_message("gelu", width=50, depth=60, spread=7.25).startswith("gelu is unsteady: ")
    assert "spread of 7.2" in unsteady_message("gelu", width=50, depth=60, spread=7.25)


def test_there_is_no_unsteady_message_for_a_serviceable_network():
    assert unsteady_message("gelu", width=100, depth=10) is None
    assert unsteady_message("gelu", width=50, depth=60, spread=SERVICEABLE) is None
    assert unsteady_message("tanh", width=5, depth=1000) is None


def test_a_gain_is_solved_once(monkeypatch):
    first, drawn = gw.solve_gain("tanh", 23, 31), gw.solve_gain("tanh", 23, 31, walks=20)
    monkeypatch.setattr(expansion, "table", None)
    monkeypatch.setattr(sampled, "simulate", None)
    assert gw.solve_gain("tanh", 23, 31) is first
    assert gw.solve_gain("tanh", 23, 31, walks=20) is drawn
    assert gw.solve_gain("tanh", [23] * 32) is first
    assert gw.gain("tanh", 23, 31) == gw.describe_gain("tanh", 23, 31).gain == first.value


def test_a_description_has_all_that_is_known_of_a_gain():
    exact = gw.describe_gain("relu", 50, 30)
    assert exact.step == gw.step("relu", 50)
    assert exact.estimate == gw.solve_gain("relu", 50, 30)
    assert (exact.width, exact.depth, exact.kind, exact.warning) == (50, 30, "neutral", None)
    assert exact.weight_std == exact.gain / math.sqrt(50)
    several = gw.describe_gain("tanh", [30, 20, 10])
    assert (several.width, several.depth, several.step) == ((30, 20, 10), 2, None)
    assert several.weight_std == (several.gain / math.sqrt(30), several.gain / math.sqrt(20))
    paper = gw.describe_gain("linear", 40, 9, formula="paper")
    assert (paper.gain, paper.estimate) == (gw.gain("linear", 40, formula="paper"), None)
    assert paper.step == gw.step("linear", 40, formula="paper")


def test_describing_a_gain_records_the_warning_and_does_not_raise_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        description = gw.describe_gain("gelu", 50, 60)
    assert description.warning == unsteady_message("gelu", 50, 60, where="gain")


def test_scaled_gelu_is_serviceable_where_gelu_is_not():
    scaled = gw.activation("gelu").scaled(100.0)
    walks = gw.simulate(scaled, 100, 200, gain=gw.gain("relu", 100), walks=400, rng=5)
    low, middle, high = np.quantile(walks.final, [0.16, 0.5, 0.84])  # a few walks decide mean and standard deviation
    assert (high - low) / 2 < 2.0
    assert abs(middle) < 0.5


def test_min_width_and_max_depth_of_relu_are_exact_bounds():
    depth = gw.max_depth("relu", 100, 1.0)
    assert gw.solve_gain("relu", 100, depth).spread <= 1.0 < gw.solve_gain("relu", 100, depth + 1).spread
    width = gw.min_width("relu", 1000, 1.0)
    assert gw.solve_gain("relu", width, 1000).spread <= 1.0 < gw.solve_gain("relu", width - 1, 1000).spread
    assert width == pytest.approx(5 * 1000 / 4, rel=0.01)


def test_max_depth_of_a_net_that_does_not_walk_is_infinite():
    assert gw.max_depth("linear", 10, weights="orthogonal") == math.inf


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_sampled_max_depth_is_where_the_spread_is(name):
    depth = gw.max_depth(name, 40, 1.0)
    assert gw.solve_gain(name, 40, depth, seed=9).spread == pytest.approx(1.0, rel=0.15)


def test_sampled_min_width_is_where_the_spread_is():
    width = gw.min_width("tanh", 40, 1.0)
    assert gw.solve_gain("tanh", width, 40, seed=9).spread == pytest.approx(1.0, rel=0.15)


def test_a_narrow_saturating_net_without_an_unbiased_gain_is_reported():
    with pytest.raises(ValueError, match=r"solve_gain: no gain .* makes the walk of tanh unbiased"):
        gw.gain("tanh", 2, 100)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(["linear", "relu", "leaky_relu(0.3)"]), width=st.integers(1, 30_000), paper=st.booleans())
def test_neutral_gain_is_finite_and_undoes_the_drift(name, width, paper):
    formula = "paper" if paper and not name.startswith("leaky") else "exact"
    g = gw.gain(name, width, formula=formula)
    assert 0.5 < g < 10
    assert 2 * math.log(g) == pytest.approx(-gw.step(name, width, formula=formula).drift, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.gain("relu", 0), "gain: width must be at least 1, got width=0"),
        (lambda: gw.gain("tanh", 0, 10), "gain: width must be at least 1, got width=0"),
        (lambda: gw.gain("tanh", 10, 0), "gain: depth must be at least 1, got depth=0"),
        (lambda: gw.gain("tanh", 10, 5, formula="paper"), "the paper prints no formula for tanh"),
        (lambda: gw.gain("relu", 10, formula="papre"), 'gain: formula must be "exact" or "paper"'),
        (lambda: gw.gain("reul", 10), "did you mean 'relu'"),
        (lambda: gw.gain("relu", 10, dropout=1), "gain: dropout must be at least 0 and below 1, got dropout=1"),
        (lambda: gw.gain("relu", [10, 0, 3]), "gain: width must be at least 1"),
        (lambda: gw.solve_gain("tanh", 10), "solve_gain: depth is missing"),
        (lambda: gw.solve_gain("tanh", 10, 5, walks=1), "walks must be at least 8, got walks=1"),
        (lambda: gw.solve_gain("tanh", 10, 5, seed=-1), "seed must be at least 0"),
        (lambda: gw.solve_gain("relu", 10, 5, weights="x"), 'solve_gain: weights must be "gaussian" or "orthogonal"'),
        (lambda: gw.max_depth("relu", 10, 0.0), "max_depth: spread must be positive and finite"),
        (lambda: gw.min_width("relu", 10, math.nan), "min_width: spread must be positive and finite"),
    ],
)
def test_invalid_input_is_reported_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=": ") as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
