"""Drift and variance of the step against closed forms, quadrature, limits, Monte Carlo and the paper's formulas."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import gradwalk as gw
from gradwalk.activations import activation, names
from gradwalk.theory import predicted_walk
from gradwalk.theory.gaussian import flat_share
from gradwalk.theory.meanfield import KINDS, computed_kind

WIDTHS = [1, 2, 3, 6, 10, 100, 249, 1000]
ALL = names()


def mp_linear(n):
    return mpmath.digamma(mpmath.mpf(n) / 2) + mpmath.log(mpmath.mpf(2) / n), mpmath.psi(1, mpmath.mpf(n) / 2)


def mp_relu(n, orthogonal=False):
    shares = [mpmath.binomial(n, m) for m in range(1, n + 1)]
    total = mpmath.fsum(shares)
    half = mpmath.mpf(n) / 2
    shift = mpmath.digamma(half) if orthogonal else -mpmath.log(mpmath.mpf(2) / n)
    means = [mpmath.digamma(mpmath.mpf(m) / 2) - shift for m in range(1, n + 1)]
    norm = mpmath.psi(1, half) if orthogonal else 0
    drift = mpmath.fsum(s * m for s, m in zip(shares, means, strict=True)) / total
    within = mpmath.fsum(s * mpmath.psi(1, mpmath.mpf(m) / 2) for m, s in enumerate(shares, 1)) / total
    return drift, within - norm + mpmath.fsum(s * (m - drift) ** 2 for s, m in zip(shares, means, strict=True)) / total


def assert_step(result, expected, rel):
    assert result.drift == pytest.approx(float(expected[0]), rel=rel)
    assert result.variance == pytest.approx(float(expected[1]), rel=rel)


@pytest.mark.parametrize("n", WIDTHS)
def test_closed_forms_agree_with_mpmath(n):
    with mpmath.workdps(40):
        assert_step(gw.step("linear", n), mp_linear(n), 1e-12)
        assert_step(gw.step("relu", n), mp_relu(n), 1e-12)


@pytest.mark.parametrize("n", [2, 3, 10, 100, 1000])
def test_orthogonal_relu_is_the_beta_law(n):
    with mpmath.workdps(40):
        assert_step(gw.step("relu", n, weights="orthogonal"), mp_relu(n, orthogonal=True), 1e-11)


@pytest.mark.parametrize("n", WIDTHS)
def test_orthogonal_linear_net_does_not_walk(n):
    assert gw.step("linear", n, weights="orthogonal") == (0.0, 0.0)


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("name", ["linear", "relu"])
@pytest.mark.parametrize("n", WIDTHS)
def test_quadrature_agrees_with_the_closed_forms(name, n, dropout):
    f = gw.activation(name)
    anonymous = gw.Activation("anonymous", f.f, f.derivative, f.kinks)  # closed forms are found by name
    assert_step(gw.step(anonymous, n, dropout=dropout), gw.step(name, n, dropout=dropout), 1e-9)


def test_linear_units_that_half_drop_out_are_relu_units_of_twice_the_slope():
    relu, dropped = gw.step("relu", 30), gw.step("linear", 30, dropout=0.5)
    assert_step(dropped, (relu.drift + 2 * math.log(2), relu.variance), 1e-12)


def slope_zeros(f, sd):
    """Return where f'(sd x) crosses 0 and ln f'^2 has a pole, by a grid and bisection."""
    x = np.linspace(-11, 11, 4001)
    left = np.flatnonzero(np.diff(np.sign(f.derivative(sd * x))) != 0)
    return [optimize.brentq(lambda at: float(f.derivative(np.array([sd * at]))[0]), x[k], x[k + 1]) for k in left]


@pytest.mark.parametrize("name", [name for name in ALL if name != "linear" and flat_share(gw.activation(name), 4) == 0])
@pytest.mark.parametrize("q", [0.05, 1.0, 4.0])
def test_quadrature_at_width_one_is_a_plain_integral(name, q):
    """For one unit, ln z = ln f'(a)^2 + ln xi^2: two integrals that mpmath computes."""
    f, sd = gw.activation(name), math.sqrt(q)
    edges = sorted({-11.0, 0.0, 11.0, *slope_zeros(f, sd)} - set(f.kinks) | {k / sd for k in f.kinks})

    def moment(power):
        def term(x):
            slope = abs(float(f.derivative(np.array([sd * float(x)]))[0]))
            return (2 * math.log(max(slope, 1e-300))) ** power * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

        return float(mpmath.quad(term, edges, maxdegree=8))

    mean = moment(1)
    linear = gw.step("linear", 1)
    assert_step(gw.step(f, 1, q=q), (mean + linear.drift, moment(2) - mean**2 + linear.variance), 1e-9)


def test_sine_at_large_variance_has_the_moments_of_a_uniform_phase():
    linear = gw.step("linear", 1)
    expected = -2 * math.log(2) + linear.drift, math.pi**2 / 3 + linear.variance
    assert_step(gw.step("sin", 1, q=30.0), expected, 1e-9)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ALL)
def test_quadrature_agrees_with_monte_carlo(name, weights, dropout):
    n, q, count = 7, 0.8, 100_000
    f, rng = gw.activation(name), np.random.default_rng(ALL.index(name))
    slope = f.derivative(math.sqrt(q) * rng.standard_normal((count, n)))
    slope = slope * (rng.random((count, n)) >= dropout) / (1 - dropout)
    xi = rng.standard_normal((count, n))
    scale = n if weights == "gaussian" else (xi**2).sum(axis=1)
    z = (slope**2 * xi**2).sum(axis=1) / scale
    log_z = np.log(z[z > 0])
    if name == "linear" and weights == "orthogonal" and dropout == 0:
        assert np.abs(log_z).max() < 1e-12
        return
    result = gw.step(f, n, q=q, weights=weights, dropout=dropout)
    mean, variance = log_z.mean(), log_z.var()
    fourth = ((log_z - mean) ** 4).mean()
    assert abs(result.drift - mean) < 4 * math.sqrt(variance / len(log_z))
    assert abs(result.variance - variance) < 4 * math.sqrt((fourth - variance**2) / len(log_z))


def test_the_step_at_a_large_variance_does_not_overflow():
    """gelu is then nearly ReLU; warnings are errors here."""
    relu, gelu = gw.step("relu", 100), gw.step("gelu", 100, q=math.exp(5))
    assert gelu.drift == pytest.approx(relu.drift, abs=0.05)


def test_wide_layers_approach_the_infinite_width_limit():
    for name in ("tanh", "gelu", "selu"):
        limit = math.log(gw.chi(name, 0.7))
        gaps = [gw.step(name, n, q=0.7).drift - limit for n in (100, 1000, 10000)]
        assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.05)
        assert gaps[2] == pytest.approx(gaps[1] / 10, rel=0.05)


def test_step_of_a_neutral_activation_does_not_depend_on_q():
    assert gw.step("leaky_relu(0.2)", 30, q=0.01) == gw.step("leaky_relu(0.2)", 30, q=100.0)


def test_values_that_the_documents_print():
    assert gw.gain("relu", 6) == pytest.approx(1.8489, abs=5e-5)
    assert gw.gain("relu", 10) == pytest.approx(1.6492, abs=5e-5)
    assert gw.gain("relu", 100) == pytest.approx(1.43230, abs=5e-6)
    assert gw.gain("linear", 100) == pytest.approx(1.005029, abs=5e-7)
    assert gw.gain("relu", 6, formula="paper") == pytest.approx(1.9737, abs=5e-5)
    assert gw.gain("relu", 10, formula="paper") == pytest.approx(1.6561, abs=5e-5)
    assert gw.gain("relu", 100, formula="paper") == pytest.approx(1.43171, abs=5e-6)
    assert gw.gain("linear", 100, formula="paper") == pytest.approx(1.005013, abs=5e-7)


def test_paper_formulas_are_as_printed_also_at_small_widths():
    assert gw.gain("relu", 3, formula="paper") == math.sqrt(2) * math.exp(1.2 / (6 - 2.4))
    assert gw.gain("linear", 7, formula="paper") == math.exp(1 / 14)
    assert gw.step("relu", 3, formula="paper").variance == 5 / 2
    assert gw.step("linear", 50, formula="paper") == (-1 / 50, 1 / 100)


def test_erratum_1_the_variance_of_ln_z_is_four_times_the_printed_one():
    exact, printed = gw.step("linear", 100), gw.step("linear", 100, formula="paper")
    assert exact.variance == pytest.approx(0.02020, abs=5e-6)
    assert exact.variance / printed.variance == pytest.approx(4, rel=0.02)


def test_erratum_2_the_leading_order_of_relu_is_two_and_a_half():
    for n in (1000, 4000):
        assert (gw.step("relu", n).drift + math.log(2)) * n == pytest.approx(-2.5, rel=0.01)


def test_elasticity_is_the_logarithmic_slope_of_the_q_map():
    for name in ("tanh", "gelu", "softplus", "elu"):
        for q in (0.01, 1.0, 30.0):
            slope = math.log(gw.q_map(name, q * 1.001) / gw.q_map(name, q / 1.001)) / math.log(1.001**2)
            assert gw.elasticity(name, q) == pytest.approx(slope, abs=1e-6)


def test_q_map_and_chi_of_known_integrals():
    for q in (0.1, 1.0, 10.0):
        assert gw.q_map("relu", q, 1.3) == pytest.approx(1.69 * q / 2, rel=1e-12)
        assert gw.q_map("erf", q) == pytest.approx(2 / math.pi * math.asin(2 * q / (1 + 2 * q)), rel=1e-12)
        assert gw.q_map("sin", q) == pytest.approx((1 - math.exp(-2 * q)) / 2, rel=1e-12)
        assert gw.chi("erf", q) == pytest.approx(4 / math.pi / math.sqrt(1 + 4 * q), rel=1e-12)


def test_a_fixed_point_is_one_and_its_absence_is_reported():
    for name, g in (("tanh", 1.3), ("selu", 1.0), ("sigmoid", 3.0)):
        q = gw.fixed_point(name, g)
        assert gw.q_map(name, q, g) == pytest.approx(q, rel=1e-9)
    assert gw.fixed_point("selu", 1.0) == pytest.approx(1.0, rel=1e-6)  # as selu was designed
    with pytest.raises(ValueError, match="no fixed point between"):
        gw.fixed_point("tanh", 0.9)
    with pytest.raises(ValueError, match="relu scales every variance by the same factor"):
        gw.fixed_point("relu", 1.4)


def test_the_built_in_activations_have_the_expected_kinds():
    kinds = {name: gw.kind(name) for name in ALL}
    assert {name for name, k in kinds.items() if k == "neutral"} == {"linear", "relu", "leaky_relu"}
    assert {name for name, k in kinds.items() if k == "unsteady"} == {"gelu", "silu", "hard_swish", "mish"}


def test_kinds_that_are_known_are_those_computed():
    assert set(KINDS) == {activation(name).name for name in ALL}
    assert {name: computed_kind(activation(name)) for name in KINDS} == KINDS


def test_the_kind_of_a_new_activation_is_computed():
    assert gw.kind(gw.Activation("anonymous", lambda a: 3 * a, lambda a: np.full_like(a, 3.0))) == "neutral"
    assert gw.kind(gw.Activation("cube", lambda a: a**3, lambda a: 3 * a**2)) == "unsteady"


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_the_predicted_walk_is_that_of_the_samples_where_layers_widen_and_narrow(weights):
    widths, gains, count = (40, 20, 30, 10, 50), (1.3, 1.1, 1.5, 1.2), 4000
    band = predicted_walk("relu", widths, gains, weights)
    walks = gw.simulate("relu", widths, gain=gains, walks=count, rng=0, weights=weights)
    assert band.mean[0] == band.deviation[0] == 0
    errors = band.deviation[1:] / math.sqrt(count)
    assert (abs(walks.log_norm.mean(axis=0)[1:] - band.mean[1:]) < 4 * errors).all()
    assert walks.log_norm.std(axis=0)[1:] == pytest.approx(band.deviation[1:], rel=0.06)


def test_no_walk_is_predicted_where_the_step_depends_on_the_signal():
    with pytest.raises(ValueError, match="step: the step of tanh depends on the variance"):
        predicted_walk("tanh", [10, 10], [1.0])


def test_share_of_flat_units_is_exact():
    assert flat_share(gw.activation("relu"), 2.0) == pytest.approx(0.5, rel=1e-12)
    assert flat_share(gw.activation("hard_tanh"), 4.0) == pytest.approx(math.erfc(0.5 / math.sqrt(2)), rel=1e-12)
    assert flat_share(gw.activation("tanh"), 4.0) == 0.0


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(ALL),
    n=st.integers(1, 100_000),
    log_q=st.floats(-12, 8),
    weights=st.sampled_from(["gaussian", "orthogonal"]),
    dropout=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_step_is_always_finite(name, n, log_q, weights, dropout):
    drift, variance = gw.step(name, n, q=math.exp(log_q), weights=weights, dropout=dropout)
    assert math.isfinite(drift)
    assert 0 <= variance < math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.step("relu", 0), "step: width must be at least 1, got width=0"),
        (lambda: gw.step("relu", 10**9), "step: width must be at most"),
        (lambda: gw.step("tanh", 10), "step: the step of tanh depends on the variance"),
        (lambda: gw.step("tanh", 10, q=-1.0), "step: q must be positive and finite, got q=-1.0"),
        (lambda: gw.step("tanh", 10, q=math.nan), "step: q must be positive and finite, got q=nan"),
        (lambda: gw.step("tanh", 10, q=1e12), "the pre-activation variance must be at most"),
        (lambda: gw.step("relu", 10, weights="uniform"), 'weights must be "gaussian" or "orthogonal"'),
        (lambda: gw.step("relu", 10, formula="guess"), 'formula must be "exact" or "paper"'),
        (lambda: gw.step("tanh", 10, q=1.0, formula="paper"), "the paper prints no formula for tanh"),
        (
            lambda: gw.step("relu", 10, dropout=0.1, formula="paper"),
            "no formula for relu with gaussian weights and dro",
        ),
        (lambda: gw.step("relu", 10, dropout=1.0), "step: dropout must be at least 0 and below 1, got dropout=1.0"),
        (lambda: gw.chi("tanh", 0.0), "chi: q must be positive"),
        (lambda: gw.q_map("tanh", 1.0, math.inf), "q_map: gain must be positive and finite"),
    ],
)
def test_invalid_input_is_reported_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=": ") as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("width", [2.5, "wide", None, True, [3]])
def test_a_width_that_is_not_a_whole_number_is_a_type_error(width):
    with pytest.raises(TypeError, match="step: width must be a whole number"):
        gw.step("relu", width)
