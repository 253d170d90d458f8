"""The explorer computes in the browser what the Python sampler computes, and answers its controls.

The numbers are asked of Node, where it is installed, and of Chromium; the page itself of Chromium.
"""

import json
import math
import re
import shutil
import subprocess
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import gradwalk as gw
from gradwalk import activations
from gradwalk.report.explorer import fragment, script
from gradwalk.theory import kind, step

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
DESKTOP, PHONE = (1280, 900), (390, 844)
NAMES = list(activations._FAMILIES)  # the built-in ones: other tests register more
NEUTRAL = ["linear", "relu", "leaky_relu"]
BOTH = ["gaussian", "orthogonal"]
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>explorer</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
</head><body>{}</body></html>"""


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(PAGE.format(fragment()), encoding="utf-8")
    return path


@pytest.fixture
def open_page(chromium, file):
    """Return a function that opens the explorer; what it asks of the network and any complaint fail the test."""
    contexts, asked, complaints = [], [], []

    def opened(size=DESKTOP, scheme="light"):
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        settle(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
    assert all(url.startswith(("file:", "data:")) for url in asked)


@pytest.fixture(scope="module", params=["node", "chromium"])
def javascript(request, tmp_path_factory):
    """Return a function that calls a JavaScript function with an argument where the explorer's script has run."""
    if request.param == "node":
        return in_node(tmp_path_factory.mktemp("node"))
    page = request.getfixturevalue("chromium").new_page()
    page.add_script_tag(content=script().replace("typeof document", "typeof noDocument"))

    def call(function, argument=None):  # as text, because Chromium hands long lists over one number at a time
        return json.loads(page.evaluate(f"(given) => JSON.stringify(({function})(given) ?? null)", argument))

    return call


def in_node(folder):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    library = folder / "explorer.js"
    library.write_text(script(), encoding="utf-8")

    def call(function, argument=None):
        code = f"require({json.dumps(str(library))}); const given = JSON.parse(require('fs').readFileSync(0));"
        code += f"process.stdout.write(JSON.stringify(({function})(given) ?? null));"
        asked = json.dumps(argument)
        done = subprocess.run([node, "-e", code], input=asked, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def settle(page):
    page.wait_for_function("document.getElementById('explorer-result').getAttribute('aria-busy') === 'false'")


def text(page, name):
    return page.inner_text(f"#explorer-{name}")


def picture(page, name="walks-picture"):
    return page.evaluate("(id) => document.getElementById(id).toDataURL()", f"explorer-{name}")


def press(page, name, key, times=1):
    page.focus(f"#explorer-{name}")
    for _ in range(times):
        page.keyboard.press(key)
    settle(page)


def make_small(page):
    """Set width 20 and depth 25, at which a gain is solved for in no time."""
    press(page, "width", "ArrowLeft", times=7)
    press(page, "depth", "ArrowLeft", times=9)
    assert (text(page, "width-value"), text(page, "depth-value")) == ("20", "25")


def assert_same_law(left, right):
    """Assert that two samples agree by Kolmogorov and Smirnov and in their mean."""
    left, right = np.asarray(left), np.asarray(right)
    if max(left.std(), right.std()) < 1e-4:  # no walk at all, up to the rounding of single precision
        assert left.mean() == pytest.approx(right.mean(), abs=1e-5)
        return
    assert stats.ks_2samp(left, right).pvalue > 0.01
    error = math.hypot(left.std() / math.sqrt(len(left)), right.std() / math.sqrt(len(right)))
    assert abs(left.mean() - right.mean()) < 4 * error


@lru_cache(maxsize=64)
def python_walks(name, weights, width, depth, gain, walks):
    return gw.simulate(name, width, depth, gain=gain, walks=walks, rng=80 + width, weights=weights)


# The numbers


@pytest.mark.parametrize(("width", "depth"), [(2, 8), (5, 30), (12, 60), (60, 20)])
@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "gelu"])
def test_walks_have_the_law_of_the_python_sampler(javascript, name, weights, width, depth):
    settings = {"activation": name, "weights": weights, "width": width, "depth": depth, "gain": 1.3, "walks": 2000}
    middle = depth // 2
    half, whole = javascript(
        "([settings, at]) => { const { logNorm, finals } = gradwalkExplorer.simulate({ ...settings, seed: 5 });"
        " return [logNorm.map((row) => row[at]), finals]; }",
        [settings, middle],
    )
    python = python_walks(name, weights, width, depth, 1.3, 2000)
    assert_same_law(half, python.log_norm[:, middle])
    assert_same_law(whole, python.final)


@pytest.mark.parametrize("weights", BOTH)
@pytest.mark.parametrize("name", ["tanh", "erf", "hard_tanh", "gelu"])
def test_saturated_layers_do_not_underflow(javascript, name, weights):
    settings = {"activation": name, "weights": weights, "width": 3, "depth": 20, "gain": 30, "walks": 2000, "seed": 2}
    finals = javascript("(settings) => gradwalkExplorer.simulate(settings).finals", settings)
    assert_same_law(finals, python_walks(name, weights, 3, 20, 30.0, 2000).final)


@pytest.mark.parametrize(("name", "gain"), [("linear", 3.0), ("relu", 0.5), ("leaky_relu", 0.5)])
def test_a_signal_may_leave_all_scales(javascript, name, gain):
    """Far past what floating point holds, where only logarithms are carried."""
    depth, expected = 1000, step(name, 5)
    settings = {"activation": name, "width": 5, "depth": depth, "gain": gain, "walks": 100, "seed": 3}
    found = javascript(
        "(s) => { const { mean, spread } = gradwalkExplorer.simulate(s); return { mean, spread }; }", settings
    )
    mean = depth * (expected.drift / 2 + math.log(gain))
    spread = math.sqrt(depth * expected.variance) / 2
    assert abs(mean) > 800
    assert abs(found["mean"] - mean) < 4 * spread / 10
    assert found["spread"] == pytest.approx(spread, rel=4 / math.sqrt(200))


def test_dead_layers_are_drawn_anew_and_counted(javascript):
    settings = {"activation": "relu", "width": 4, "depth": 30, "gain": 1, "walks": 2000, "seed": 4}
    share = 2.0**-4 / (1 - 2.0**-4)  # how often a layer is drawn in vain before one is alive
    expected = 30 * 2000 * share
    dead = javascript("(settings) => gradwalkExplorer.simulate(settings).dead", settings)
    assert abs(dead - expected) < 4 * math.sqrt(expected * (1 + share))


def test_a_walk_is_the_same_whichever_others_are_drawn(javascript):
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
    found = javascript(
        "(settings) => { const r = gradwalkExplorer.simulate(settings);"
        " return { ...r, logNorm: r.logNorm.map((row) => Array.from(row)) }; }",
        {"activation": "relu", "width": 6, "depth": 900, "gain": 1.7, "walks": 37, "seed": 1},
    )
    walks, finals = np.array(found["logNorm"]), np.array(found["finals"])
    assert found["travelled"][0] == 0
    assert found["travelled"][-1] == 900
    assert len(found["travelled"]) == walks.shape[1] <= 401
    np.testing.assert_array_equal(walks[:, -1], finals)
    np.testing.assert_allclose(found["band"]["low"], np.quantile(walks, 0.05, axis=0))
    np.testing.assert_allclose(found["band"]["high"], np.quantile(walks, 0.95, axis=0))
    np.testing.assert_allclose(found["band"]["mean"], walks.mean(axis=0), atol=1e-12)
    assert found["mean"] == pytest.approx(finals.mean())
    assert found["spread"] == pytest.approx(finals.std(ddof=1))
    assert found["standardError"] == pytest.approx(finals.std(ddof=1) / math.sqrt(37))
    assert found["vanished"] == np.mean(finals < -math.log(10))
    assert found["exploded"] == np.mean(finals > math.log(10))


def test_activations_are_those_of_gradwalk(javascript):
    grid = [*np.linspace(-30, 30, 1201), -1e-3, 1e-3, 0.46874, -0.46876]
    found = javascript(
        "(grid) => Object.entries(gradwalkExplorer.activations).map(([name, { kind, f, derivative, rise }]) =>"
        " [name, kind, grid.map(f), grid.map((a) => derivative(a)), grid.map((a) => (rise ?? derivative)(a, f(a)))])",
        grid,
    )
    assert [name for name, *_ in found] == NAMES
    for name, its_kind, f, derivative, rise in found:
        python = gw.activation(name)
        assert its_kind == kind(name)
        np.testing.assert_allclose(f, python.f(np.array(grid)), rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(derivative, python.derivative(np.array(grid)), rtol=1e-12, atol=1e-15, err_msg=name)
        np.testing.assert_allclose(rise, python.derivative(np.array(grid)), rtol=1e-12, atol=1e-12, err_msg=name)


def test_special_functions_are_those_of_scipy(javascript):
    halves, grid = np.arange(1, 400) / 2, np.linspace(-26, 26, 2001)
    found = javascript(
        "([halves, grid]) => { const { digamma, trigamma, erf, normalShare } = gradwalkExplorer;"
        " return [halves.map(digamma), halves.map(trigamma), grid.map(erf), grid.map(normalShare)]; }",
        [halves.tolist(), grid.tolist()],
    )
    np.testing.assert_allclose(found[0], special.digamma(halves), rtol=1e-13)
    np.testing.assert_allclose(found[1], special.polygamma(1, halves), rtol=1e-13)
    np.testing.assert_allclose(found[2], special.erf(grid), rtol=1e-14)
    np.testing.assert_allclose(found[3], special.ndtr(grid), rtol=1e-12)


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
    found = javascript(
        "([rest, widths]) => widths.map((width) => gradwalkExplorer.gain({ ...rest, width }))",
        [{"activation": name, "weights": weights, "depth": 50}, widths],
    )
    for width, estimate in zip(widths, found, strict=True):
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


def test_where_no_gain_will_do_there_is_none(javascript):
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
    ("change", "said"),
    [
        ({"width": 0}, "simulate: width must be a whole number of at least 1, got width=0"),
        ({"depth": 2.5}, "simulate: depth must be a whole number of at least 1, got depth=2.5"),
        ({"gain": -1}, "simulate: gain must be positive and finite, got gain=-1"),
        ({"activation": "rleu"}, 'simulate: unknown activation "rleu"'),
        ({"weights": "haar"}, 'simulate: unknown weights "haar"'),
        ({"activation": "hard_tanh", "weights": "orthogonal", "width": 1, "depth": 30, "gain": 2}, "were dead"),
    ],
)
def test_bad_input_gets_one_sentence(javascript, change, said):
    settings = {"activation": "relu", "width": 5, "depth": 5, "gain": 1, "walks": 3, "seed": 1} | change
    catch = "(settings) => { try { gradwalkExplorer.simulate(settings); } catch (error) { return error.message; } }"
    assert said in javascript(catch, settings)


# The page


def test_fragment_is_one_section_that_fetches_nothing():
    html = fragment()
    assert len(re.findall(r"<section\b", html)) == len(re.findall("</section>", html)) == 1
    assert len(re.findall("</script", html)) == len(re.findall("</style", html)) == 1
    assert not re.findall(r"https?://|\bsrc=|\bhref=|@import|url\(|\bimport\b.*\bfrom\b|\bfetch\(|XMLHttpRequest", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(each.startswith("explorer") for each in ids)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    selectors = re.findall(r"^\s*([^@\s/*}][^{};]*)\{", style, re.MULTILINE)
    assert len(selectors) > 20
    assert all(
        part.strip().startswith("#explorer") for selector in selectors for part in re.split(r",(?![^(]*\))", selector)
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_slider_changes_the_numbers_and_the_picture(open_page, size, scheme):
    page = open_page(size, scheme)
    for name, key in (
        ("width", "ArrowLeft"),
        ("depth", "ArrowRight"),
        ("gain-slider", "ArrowRight"),
        ("walks", "Home"),
    ):
        before = [text(page, each) for each in ("result", "mean", "spread")], picture(page)
        press(page, name, key, times=3)
        after = [text(page, each) for each in ("result", "mean", "spread")], picture(page)
        assert before[0] != after[0], name
        assert before[1] != after[1], name
    shown = page.evaluate("gradwalkExplorer.simulate(gradwalkExplorer.page.settings()).mean.toFixed(2)")
    assert text(page, "mean").startswith(shown.replace("-", "−") + " ±")


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (320, 600)], ids=["desktop", "phone", "small phone"])
def test_nothing_is_wider_than_the_screen(open_page, size):
    page = open_page(size)
    make_small(page)
    page.select_option("#explorer-activation", "gelu")
    settle(page)
    wide = page.evaluate(
        "[...document.querySelectorAll('#explorer *')].filter((each) => each.getBoundingClientRect().right >"
        " document.documentElement.clientWidth + 0.5).map((each) => each.id || each.tagName)"
    )
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_picture_follows_the_colour_scheme(open_page):
    page = open_page()
    light = picture(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "(light) => document.getElementById('explorer-walks-picture').toDataURL() !== light", arg=light
    )


def test_button_takes_the_unbiased_gain(open_page):
    page = open_page()
    assert text(page, "prediction") == f"{gw.gain('relu', 100):.5f}"
    make_small(page)
    page.select_option("#explorer-activation", "tanh")
    settle(page)
    value, error = map(float, text(page, "prediction").split(" ± "))
    python = gw.solve_gain("tanh", 20, 25)
    assert abs(value - python.value) < 4 * math.hypot(error, python.standard_error) + 1e-4
    page.click("#explorer-unbiased")
    settle(page)
    assert float(page.input_value("#explorer-gain")) == pytest.approx(value, abs=1e-4)
    mean, error = (float(part.replace("−", "-")) for part in text(page, "mean").split(" ± "))
    assert abs(mean) < 4 * error + 0.01


def test_unsteady_activations_are_named_as_such(open_page):
    page = open_page()
    make_small(page)
    assert "unsteady" not in text(page, "note")
    page.select_option("#explorer-activation", "silu")
    settle(page)
    assert "silu is unsteady" in text(page, "note")
    assert "grows with depth" in text(page, "note")


def test_where_no_gain_will_do_the_page_says_so(open_page):
    page = open_page()
    press(page, "width", "Home")
    page.select_option("#explorer-activation", "tanh")
    settle(page)
    assert text(page, "prediction") == "none"
    assert "No gain makes the walk of 200 tanh layers of 2 units unbiased" in text(page, "note")
    assert page.is_disabled("#explorer-unbiased")
    assert page.is_hidden("#explorer-curve-figure")


def test_a_gain_beyond_the_slider_moves_its_end(open_page):
    page = open_page()
    make_small(page)
    page.select_option("#explorer-activation", "sigmoid")
    settle(page)
    value = float(text(page, "prediction").split()[0])
    assert value > 3
    page.click("#explorer-unbiased")
    settle(page)
    assert float(page.input_value("#explorer-gain-slider")) == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("gain", "", "gain must be"), ("gain", "1000", "gain must be"), ("seed", "-1", "seed must be")],
)
def test_a_number_that_cannot_be_is_told(open_page, name, value, said):
    page = open_page()
    page.fill(f"#explorer-{name}", value)
    settle(page)
    assert said in text(page, "result")
    page.fill(f"#explorer-{name}", "1")
    settle(page)
    assert "typical gradient" in text(page, "result")


def test_a_long_job_neither_freezes_the_page_nor_holds_up_the_next(open_page):
    page = open_page()
    page.evaluate(
        "() => { window.told = []; new MutationObserver(() => window.told.push(document.getElementById("
        "'explorer-progress').textContent)).observe(document.getElementById('explorer-progress'), { childList: true });"
        " window.gaps = []; let last = performance.now(); setInterval(() => {"
        " const now = performance.now(); window.gaps.push(now - last); last = now; }, 5); }"
    )
    page.evaluate(
        "() => { for (const name of ['width', 'depth', 'walks']) { const slider ="
        " document.getElementById(`explorer-${name}`); slider.value = slider.max;"
        " slider.dispatchEvent(new Event('input')); } }"
    )
    page.wait_for_function("/^\\d+ of 400 walks/.test(document.getElementById('explorer-progress').textContent)")
    assert page.get_attribute("#explorer-result", "aria-busy") == "true"
    page.keyboard.press("Tab")
    page.evaluate(
        "() => { const depth = document.getElementById('explorer-depth'); depth.value = 0;"
        " const width = document.getElementById('explorer-width'); width.value = 0;"
        " depth.dispatchEvent(new Event('input')); }"
    )
    settle(page)
    assert "over 2 layers" in text(page, "result")
    told = page.evaluate("window.told")
    assert any(each.startswith("400 walks of 2 layers") for each in told)
    assert not any(each.startswith("400 walks of 1000 layers") for each in told)  # the long job was given up
    gaps = page.evaluate("window.gaps")
    assert len(gaps) > 10
    assert np.median(gaps) < 100  # milliseconds; the work comes in slices of 10


def test_every_control_has_a_name_and_is_reached_by_keyboard(open_page):
    page = open_page()
    controls = page.evaluate(
        "[...document.querySelectorAll('#explorer :is(input, select, button)')].map((each) => ({ id: each.id,"
        " name: each.labels?.[0]?.textContent || each.getAttribute('aria-label') || each.textContent }))"
    )
    assert len(controls) == 9
    assert all(control["name"].strip() for control in controls)
    reached = []
    for _ in controls:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached == [control["id"] for control in controls]
    assert page.get_attribute("#explorer-result", "aria-live") == "polite"
    assert "typical gradient" in page.get_attribute("#explorer-walks-picture", "aria-label")
    assert page.get_attribute("#explorer-depth", "aria-valuetext") == "200"
