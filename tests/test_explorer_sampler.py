"""The explorer computes in JavaScript what the Python sampler computes.

The numbers are computed in Node, and one test claims that Chromium computes the same ones. Without Node, Chromium
computes them all.
"""

import json
import math
import shutil
import subprocess
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

import gradwalk as gw
from gradwalk import activations
from gradwalk.report.explorer import script
from gradwalk.theory import kind, step

NAMES = [family.name for family in activations.BUILT_IN]  # other tests register more
NEUTRAL = ["linear", "relu", "leaky_relu"]
BOTH = ["gaussian", "orthogonal"]


@pytest.fixture(scope="module")
def javascript(request, tmp_path_factory):
    """Return a function that calls a JavaScript function with an argument after the explorer's script has run."""
    if shutil.which("node") is None:
        yield in_chromium(request.getfixturevalue("chromium"))
        return
    with in_node(tmp_path_factory.mktemp("node")) as call:
        yield call


def in_chromium(chromium):
    """Return a function that calls JavaScript in a page of Chromium."""
    page = chromium.new_page()
    page.add_script_tag(content=script().replace("typeof document", "typeof noDocument"))

    def call(function, argument=None):  # as text, because Chromium transfers long lists one number at a time
        return json.loads(page.evaluate(f"(given) => JSON.stringify(({function})(given) ?? null)", argument))

    return call


SERVER = """
require(process.argv[2]);
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { source, given } = JSON.parse(line);
  let reply;
  try {
    reply = { value: eval(`(${source})`)(given) ?? null };
  } catch (error) {
    reply = { error: error.stack };
  }
  process.stdout.write(JSON.stringify(reply) + "\\n");
});
"""


@contextmanager
def in_node(folder):
    """Yield a function that calls JavaScript in one Node process."""
    (folder / "explorer.js").write_text(script(), encoding="utf-8")
    (folder / "server.js").write_text(SERVER, encoding="utf-8")
    command = ["node", str(folder / "server.js"), str(folder / "explorer.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:

        def call(function, argument=None):
            process.stdin.write(json.dumps({"source": function, "given": argument}) + "\n")
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
            assert "error" not in reply, reply["error"]
            return reply["value"]

        yield call


def assert_same_law(left, right):
    """Assert that two samples agree by the Kolmogorov-Smirnov test and in their mean."""
    left, right = np.asarray(left), np.asarray(right)
    if max(left.std(), right.std()) < 1e-4:  # no walk at all, up to the rounding of single precision
        assert left.mean() == pytest.approx(right.mean(), abs=1e-5)
        return
    assert stats.ks_2samp(left, right).pvalue > 0.01
    error = math.hypot(left.std() / math.sqrt(len(left)), right.std() / math.sqrt(len(right)))
    assert abs(left.mean() - right.mean()) < 4 * error


EVERYTHING = """
([networks, solved, grid]) => {
  const { simulate, angles, gain, curve, normals, digamma, trigamma, erf, normalShare } = gradwalkExplorer;
  const numbers = networks.flatMap((network) => [simulate(network).finals, angles(network).directions]);
  for (const network of solved) {
    const estimate = gain(network), points = curve(network, estimate);
    numbers.push([estimate.value, estimate.spread], points.map((point) => point.mean));
  }
  const functions = [digamma, trigamma, erf, normalShare];
  for (const { f, derivative } of Object.values(gradwalkExplorer.activations)) functions.push(f, derivative);
  return [...numbers, ...functions.map((f) => grid.map((a) => f(a))), normals(3, 1000)].flat();
}
"""


def test_chromium_computes_the_numbers_of_node(chromium, tmp_path):
    """Up to rounding; one of them is then enough for the tests of the law."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    size = {"width": 6, "depth": 8, "gain": 1.3, "walks": 20, "seed": 5}
    networks = [{"activation": name, "weights": weights, **size} for name in NAMES for weights in BOTH]
    solved = [network for network in networks if network["activation"] in ("relu", "tanh")]
    given = [networks, solved, (np.arange(1, 60) / 2).tolist()]
    with in_node(tmp_path) as call:
        node, browser = (np.array(each(EVERYTHING, given), float) for each in (call, in_chromium(chromium)))
    assert np.isfinite(node).mean() > 0.99
    np.testing.assert_allclose(browser, node, rtol=1e-6)


@lru_cache(maxsize=64)
def python_walks(name, weights, width, depth, gain, walks):
    return gw.simulate(name, width, depth, gain=gain, walks=walks, rng=280 + width, weights=weights)


@pytest.mark.parametrize(("width", "depth"), [(2, 8), (5, 30), (12, 40), (40, 12)])
@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "gelu"])
def test_walks_have_the_law_of_the_python_sampler(javascript, name, weights, width, depth):
    settings = {"activation": name, "weights": weights, "width": width, "depth": depth, "gain": 1.3, "walks": 2000}
    middle = depth // 2
    half, full = javascript(
        "([settings, at]) => { const { logNorm, finals } = gradwalkExplorer.simulate({ ...settings, seed: 5 });"
        " return [logNorm.map((row) => row[at]), finals]; }",
        [settings, middle],
    )
    python = python_walks(name, weights, width, depth, 1.3, 2000)
    assert_same_law(half, python.log_norm[:, middle])
    assert_same_law(full, python.final)


@pytest.mark.parametrize(("width", "depth"), [(5, 12), (24, 20)])
@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "gelu"])
def test_angles_between_gradients_have_the_law_of_the_python_sampler(javascript, name, weights, width, depth):
    settings = {"activation": name, "weights": weights, "width": width, "depth": depth, "gain": 1.3, "walks": 1500}
    middle = depth // 2
    cosine, directions = javascript(
        "([settings, at]) => { const { cosine, directions } = gradwalkExplorer.angles({ ...settings, seed: 6 });"
        " return [cosine.map((row) => [row[0], row[at], row.at(-1)]), directions.at(-1)]; }",
        [settings, middle],
    )
    pair = gw.simulate(name, width, depth, gain=1.3, walks=1500, rng=8, weights=weights, pair="gradients").pair
    for column, sample in zip((0, middle, depth), np.transpose(cosine), strict=True):
        both = (np.abs(each).round(6) for each in (sample, pair.cosine[:, column]))  # parallel but for rounding
        assert_same_law(*both)
    assert directions == pytest.approx(1 / np.mean(np.transpose(cosine)[-1] ** 2))


@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", ["tanh", "erf", "hard_tanh", "gelu"])
def test_saturated_layers_do_not_underflow(javascript, name, weights):
    settings = {"activation": name, "weights": weights, "width": 3, "depth": 20, "gain": 30, "walks": 2000, "seed": 2}
    finals = javascript("(settings) => gradwalkExplorer.simulate(settings).finals", settings)
    assert_same_law(finals, python_walks(name, weights, 3, 20, 30.0, 2000).final)


@pytest.mark.parametrize(("name", "gain"), [("linear", 3.0), ("relu", 0.5), ("leaky_relu", 0.5)])
def test_a_signal_may_exceed_the_range_of_floating_point(javascript, name, gain):
    """Beyond that range only logarithms are stored."""
    depth, expected = 1000, step(name, 5)
    settings = {"activation": name, "width": 5, "depth": depth, "gain": gain, "walks": 100, "seed": 3}
    sampled = javascript(
        "(s) => { const { mean, spread } = gradwalkExplorer.simulate(s); return { mean, spread }; }", settings
    )
    mean = depth * (expected.drift / 2 + math.log(gain))
    spread = math.sqrt(depth * expected.variance) / 2
    assert abs(mean) > 800
    assert abs(sampled["mean"] - mean) < 4 * spread / 10
    assert sampled["spread"] == pytest.approx(spread, rel=4 / math.sqrt(200))


def test_inactive_layers_are_resampled_and_counted(javascript):
    settings = {"activation": "relu", "width": 4, "depth": 30, "gain": 1, "walks": 2000, "seed": 4}
    share = 2.0**-4 / (1 - 2.0**-4)  # expected number of draws before a layer is active
    expected = 30 * 2000 * share
    resampled = javascript("(settings) => gradwalkExplorer.simulate(settings).resampled", settings)
    assert abs(resampled - expected) < 4 * math.sqrt(expected * (1 + share))


def test_a_walk_does_not_depend_on_the_others(javascript):
    finals = javascript(
        "(settings) => [5, 10].map((walks) => gradwalkExplorer.simulate({ ...settings, walks }).finals)"
        ".concat([gradwalkExplorer.simulate({ ...settings, walks: 10, seed: 8 }).finals])",
        {"activation": "tanh", "width": 9, "depth": 20, "gain": 1.2, "seed": 7},
    )
    assert finals[0] == finals[1][:5]
    assert len({*finals[1], *finals[2]}) == 20


def test_walks_of_neighbouring_seeds_are_independent(javascript):
    first, second = javascript(
        "(settings) => [1, 2].map((seed) => gradwalkExplorer.simulate({ ...settings, seed }).finals)",
        {"activation": "relu", "width": 10, "depth": 10, "gain": 1.5, "walks": 2000},
    )
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(2000)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4 / math.sqrt(2000)


def test_mean_spread_band_and_shares_are_those_of_the_walks(javascript):
    result = javascript(
        "(settings) => { const r = gradwalkExplorer.simulate(settings);"
        " return { ...r, logNorm: r.logNorm.map((row) => Array.from(row)) }; }",
        {"activation": "relu", "width": 6, "depth": 900, "gain": 1.7, "walks": 37, "seed": 1},
    )
    walks, finals = np.array(result["logNorm"]), np.array(result["finals"])
    assert result["travelled"][0] == 0
    assert result["travelled"][-1] == 900
    assert len(result["travelled"]) == walks.shape[1] <= 401
    np.testing.assert_array_equal(walks[:, -1], finals)
    np.testing.assert_allclose(result["band"]["low"], np.quantile(walks, 0.05, axis=0))
    np.testing.assert_allclose(result["band"]["high"], np.quantile(walks, 0.95, axis=0))
    np.testing.assert_allclose(result["band"]["mean"], walks.mean(axis=0), atol=1e-12)
    assert result["mean"] == pytest.approx(finals.mean())
    assert result["spread"] == pytest.approx(finals.std(ddof=1))
    assert result["standardError"] == pytest.approx(finals.std(ddof=1) / math.sqrt(37))
    assert result["vanished"] == np.mean(finals < -math.log(10))
    assert result["exploded"] == np.mean(finals > math.log(10))


def test_activations_are_those_of_gradwalk(javascript):
    grid = [*np.linspace(-30, 30, 1201), -1e-3, 1e-3, 0.46874, -0.46876]
    records = javascript(
        "(grid) => Object.entries(gradwalkExplorer.activations).map(([name, { kind, f, derivative, rise }]) =>"
        " [name, kind, grid.map(f), grid.map((a) => derivative(a)), grid.map((a) => (rise ?? derivative)(a, f(a)))])",
        grid,
    )
    assert [name for name, *_ in records] == NAMES
    for name, javascript_kind, f, derivative, rise in records:
        python = gw.activation(name)
        assert javascript_kind == kind(name)
        np.testing.assert_allclose(f, python.f(np.array(grid)), rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(derivative, python.derivative(np.array(grid)), rtol=1e-12, atol=1e-15, err_msg=name)
        np.testing.assert_allclose(rise, python.derivative(np.array(grid)), rtol=1e-12, atol=1e-12, err_msg=name)


def test_special_functions_are_those_of_scipy(javascript):
    halves, grid = np.arange(1, 400) / 2, np.linspace(-26, 26, 2001)
    values = javascript(
        "([halves, grid]) => { const { digamma, trigamma, erf, normalShare } = gradwalkExplorer;"
        " return [halves.map(digamma), halves.map(trigamma), grid.map(erf), grid.map(normalShare)]; }",
        [halves.tolist(), grid.tolist()],
    )
    np.testing.assert_allclose(values[0], special.digamma(halves), rtol=1e-13)
    np.testing.assert_allclose(values[1], special.polygamma(1, halves), rtol=1e-13)
    np.testing.assert_allclose(values[2], special.erf(grid), rtol=1e-14)
    np.testing.assert_allclose(values[3], special.ndtr(grid), rtol=1e-12)


def test_normal_numbers_are_normal_and_independent(javascript):
    count = 400_000
    numbers = np.array(javascript("(count) => gradwalkExplorer.normals(3, count)", count))
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((numbers**power).mean() - mean) < 4 * math.sqrt(variance / count)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / math.sqrt(count)
    assert abs(np.corrcoef(numbers[:-1] ** 2, numbers[1:] ** 2)[0, 1]) < 4 / math.sqrt(count)


def test_normal_numbers_have_their_tail(javascript):
    edge, count = 3.442619855899, 4_000_000  # where the ziggurat's tail begins
    code = "([edge, count]) => gradwalkExplorer.normals(4, count).filter((number) => Math.abs(number) > edge)"
    tail = np.array(javascript(code, [edge, count]))
    expected = 2 * count * stats.norm.sf(edge)
    assert abs(len(tail) - expected) < 4 * math.sqrt(expected)
    assert abs((tail > 0).sum() - len(tail) / 2) < 2 * math.sqrt(len(tail))
    assert stats.kstest(abs(tail), stats.truncnorm(edge, np.inf).cdf).pvalue > 0.01


@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", NEUTRAL)
def test_neutral_gain_and_spread_are_exact(javascript, name, weights):
    widths = [2, 3, 10, 100, 1000]
    estimates = javascript(
        "([rest, widths]) => widths.map((width) => gradwalkExplorer.gain({ ...rest, width }))",
        [{"activation": name, "weights": weights, "depth": 50}, widths],
    )
    for width, estimate in zip(widths, estimates, strict=True):
        python = gw.solve_gain(name, width, 50, weights=weights)
        assert estimate["value"] == pytest.approx(python.value, rel=1e-9)
        assert estimate["spread"] == pytest.approx(python.spread, rel=1e-6, abs=1e-6)
        assert (estimate["standardError"], estimate["kind"]) == (0, "neutral")


@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize(
    ("name", "width", "depth"),
    [("tanh", 30, 20), ("tanh", 12, 60), ("gelu", 30, 15), ("sigmoid", 40, 10), ("elu", 9, 9)],
)
def test_solved_gain_agrees_with_that_of_python(javascript, name, width, depth, weights):
    estimate = javascript(
        "(settings) => gradwalkExplorer.gain(settings)",
        {"activation": name, "weights": weights, "width": width, "depth": depth, "seed": 1},
    )
    python = gw.solve_gain(name, width, depth, weights=weights, walks=1000)
    error = math.hypot(estimate["standardError"], python.standard_error)
    assert 0 < error < 0.01 * python.value
    assert abs(estimate["value"] - python.value) < 4 * error
    assert estimate["spread"] == pytest.approx(python.spread, rel=0.3)
    assert estimate["kind"] == python.kind


def test_the_gain_is_nan_where_there_is_none(javascript):
    settings = {"activation": "tanh", "weights": "gaussian", "width": 4, "depth": 200, "walks": 40}
    with pytest.raises(ValueError, match="no gain"):
        gw.solve_gain("tanh", 4, 200, walks=40)
    assert javascript("(settings) => Number.isNaN(gradwalkExplorer.gain(settings).value)", settings)


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_curve_crosses_zero_at_the_unbiased_gain_and_has_the_means_of_python(javascript, name):
    settings = {"activation": name, "weights": "gaussian", "width": 20, "depth": 30, "seed": 1}
    value, curve = javascript(
        "(settings) => { const estimate = gradwalkExplorer.gain(settings);"
        " return [estimate.value, gradwalkExplorer.curve(settings, estimate)]; }",
        settings,
    )
    middle = curve[len(curve) // 2]
    assert middle["gain"] == pytest.approx(value)
    assert middle["mean"] == 0
    assert all(left["mean"] < right["mean"] for left, right in pairwise(curve))
    for point in (curve[0], curve[-1]):
        python = python_walks(name, "gaussian", 20, 30, point["gain"], 2000)
        error = math.hypot(python.standard_error, point["spread"] / math.sqrt(200))
        assert abs(point["mean"] - python.mean) < 4 * error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "simulate: width must be a whole number of at least 1, got width=0"),
        ({"depth": 2.5}, "simulate: depth must be a whole number of at least 1, got depth=2.5"),
        ({"gain": -1}, "simulate: gain must be positive and finite, got gain=-1"),
        ({"activation": "rleu"}, 'simulate: unknown activation "rleu"'),
        ({"weights": "haar"}, 'simulate: unknown weights "haar"'),
        ({"activation": "hard_tanh", "weights": "orthogonal", "width": 1, "depth": 30, "gain": 2}, "was inactive"),
    ],
)
def test_invalid_input_is_reported_in_one_sentence(javascript, change, message):
    settings = {"activation": "relu", "width": 5, "depth": 5, "gain": 1, "walks": 3, "seed": 1} | change
    catch = "(settings) => { try { gradwalkExplorer.simulate(settings); } catch (error) { return error.message; } }"
    assert message in javascript(catch, settings)
