"""The explorer responds to its controls, in Chromium."""

import math
import re

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.report.explorer import fragment

DESKTOP, PHONE = (1280, 900), (390, 844)
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>explorer</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
</head><body>{}</body></html>"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(PAGE.format(fragment()), encoding="utf-8")
    return path


@pytest.fixture
def open_page(chromium, file):
    """Return a function that opens the explorer; network requests and console messages fail the test."""
    contexts, requests, messages = [], [], []

    def open_explorer(size=DESKTOP, scheme="light"):
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(file.as_uri())
        settle(page)
        return page

    yield open_explorer
    for context in contexts:
        context.close()
    assert not messages
    assert all(url.startswith(("file:", "data:")) for url in requests)


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
    """Set width 20 and depth 25, at which solving for the gain is fast."""
    press(page, "width", "ArrowLeft", times=7)
    press(page, "depth", "ArrowLeft", times=9)
    assert (text(page, "width-value"), text(page, "depth-value")) == ("20", "25")


def test_fragment_is_one_section_that_fetches_nothing():
    html = fragment()
    assert len(re.findall(r"<section\b", html)) == len(re.findall("</section>", html)) == 1
    assert len(re.findall("</script", html)) == len(re.findall("</style", html)) == 1
    assert not re.findall(r"https?://|\bsrc=|\bhref=|@import|url\(|\bimport\b.*\bfrom\b|\bfetch\(|XMLHttpRequest", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(name.startswith("explorer") for name in ids)
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
    numbers = ("result", "mean", "spread")
    for name, key in (
        ("width", "ArrowLeft"),
        ("depth", "ArrowRight"),
        ("gain-slider", "ArrowRight"),
        ("walks", "Home"),
    ):
        before = [text(page, number) for number in numbers], picture(page)
        press(page, name, key, times=3)
        after = [text(page, number) for number in numbers], picture(page)
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
        "[...document.querySelectorAll('#explorer *')].filter((node) => node.getBoundingClientRect().right >"
        " document.documentElement.clientWidth + 0.5).map((node) => node.id || node.tagName)"
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


def test_the_button_sets_the_unbiased_gain(open_page):
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


def test_unsteady_activations_are_labelled(open_page):
    page = open_page()
    make_small(page)
    assert "unsteady" not in text(page, "note")
    page.select_option("#explorer-activation", "silu")
    settle(page)
    assert "silu is unsteady" in text(page, "note")
    assert "grows with depth" in text(page, "note")


def test_the_page_reports_that_there_is_no_unbiased_gain(open_page):
    page = open_page()
    press(page, "width", "Home")
    page.select_option("#explorer-activation", "tanh")
    settle(page)
    assert text(page, "prediction") == "none"
    assert "No gain makes the walk of 200 tanh layers of 2 units unbiased" in text(page, "note")
    assert page.is_disabled("#explorer-unbiased")
    assert page.is_hidden("#explorer-curve-figure")


def test_a_gain_beyond_the_slider_extends_it(open_page):
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
    ("name", "value", "message"),
    [("gain", "", "gain must be"), ("gain", "1000", "gain must be"), ("seed", "-1", "seed must be")],
)
def test_an_invalid_number_is_reported(open_page, name, value, message):
    page = open_page()
    page.fill(f"#explorer-{name}", value)
    settle(page)
    assert message in text(page, "result")
    page.fill(f"#explorer-{name}", "1")
    settle(page)
    assert "typical gradient" in text(page, "result")


def test_a_long_job_neither_freezes_the_page_nor_delays_the_next(open_page):
    page = open_page()
    page.evaluate(
        "() => { window.texts = []; new MutationObserver(() => window.texts.push(document.getElementById("
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
    texts = page.evaluate("window.texts")
    assert any(shown.startswith("400 walks of 2 layers") for shown in texts)
    assert not any(shown.startswith("400 walks of 1000 layers") for shown in texts)  # the long job was abandoned
    gaps = page.evaluate("window.gaps")
    assert len(gaps) > 10
    assert np.median(gaps) < 100  # milliseconds; the work comes in slices of 10


def test_every_control_has_a_name_and_is_reached_by_keyboard(open_page):
    page = open_page()
    controls = page.evaluate(
        "[...document.querySelectorAll('#explorer :is(input, select, button)')].map((node) => ({ id: node.id,"
        " name: node.labels?.[0]?.textContent || node.getAttribute('aria-label') || node.textContent }))"
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
