"""The explorer responds to its controls, in Chromium."""

import math
import re

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.report.explorer import fragment, write_explorer

DESKTOP, PHONE, SMALL_PHONE = (1280, 900), (390, 844), (320, 600)
WIDTH, DEPTH = 20, 25
SMALL = f"#explorer?a=relu,gaussian,{WIDTH},{DEPTH},unbiased"  # for tests that claim nothing of the network's size
USUAL = "#explorer?a=relu,gaussian,100,200,unbiased"  # what the page shows without a link


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_explorer(tmp_path_factory.mktemp("explorer") / "explorer.html")


class Window:
    """A browser window with the explorer, and what goes wrong in it: messages, errors and network requests."""

    def __init__(self, chromium, file, size=DESKTOP, scheme="light", link="", **more):
        self.context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **more)
        self.context.set_default_timeout(60_000)
        self.page, self.problems = self.context.new_page(), []
        self.page.on("request", self._requested)
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.goto(file.as_uri() + link)
        settle(self.page)

    def _requested(self, request):
        if not request.url.startswith(("file:", "data:")):
            self.problems.append(request.url)


@pytest.fixture
def open_page(chromium, file):
    """Return a function that opens the explorer in a new window; what goes wrong in it fails the test."""
    windows = []

    def open_explorer(*arguments, **more):
        windows.append(Window(chromium, file, *arguments, **more))
        return windows[-1].page

    yield open_explorer
    for window in windows:
        window.context.close()
    assert [window.problems for window in windows] == [[] for _ in windows]


@pytest.fixture(scope="module")
def shared(chromium, file):
    window = Window(chromium, file, link=SMALL)
    assert not window.problems
    yield window
    window.context.close()


@pytest.fixture
def explore(shared):
    """Return a function that shows the networks of a link in the window that tests share, without loading anew.

    A new window takes ten times as long as a small network.
    """

    def show(link=SMALL):
        shared.page.emulate_media(color_scheme="light")
        shared.page.evaluate(
            "(link) => { document.activeElement.blur(); gradwalkExplorer.page.open(gradwalkExplorer.choiceOf(link)); }",
            link,
        )
        settle(shared.page)
        return shared.page

    shared.problems.clear()
    yield show
    assert not shared.problems


@pytest.fixture
def load(shared, file):
    """Return a function that loads the explorer anew in the window that tests share: a new window has a new process."""

    def reload(link=""):
        shared.page.emulate_media(color_scheme="light")
        shared.page.goto("about:blank")  # another link alone would not load the page
        shared.page.goto(file.as_uri() + link)
        settle(shared.page)
        return shared.page

    shared.problems.clear()
    yield reload
    assert not shared.problems


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


def numbers(page):
    """Return the cells of the table of numbers: network, gain, mean, spread, vanishing, exploding."""
    return page.evaluate(
        "[...document.querySelectorAll('#explorer-numbers tbody tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.innerText))"
    )


def network(page, place=0):
    return page.evaluate("(place) => gradwalkExplorer.page.choice.networks[place]", place)


def mean_of(page, place=0):
    """Return the mean and its standard error that the table shows."""
    shown = numbers(page)[place][2].split("theory")[0].replace("−", "-")
    return tuple(float(part) for part in shown.split(" ± "))


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


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_a_slider_changes_the_numbers_and_the_picture(explore, open_page, size, scheme):
    page = explore() if size == DESKTOP else open_page(size, scheme, SMALL)
    for name, key in (
        ("width", "ArrowLeft"),
        ("depth", "ArrowRight"),
        ("gain-slider", "ArrowRight"),
        ("walks", "Home"),
    ):
        before = [text(page, number) for number in ("result", "numbers")], picture(page)
        press(page, name, key, times=3)
        after = [text(page, number) for number in ("result", "numbers")], picture(page)
        assert before[0] != after[0], name
        assert before[1] != after[1], name
    shown = page.evaluate(
        "(() => { const page = gradwalkExplorer.page, { walks, seed } = page.choice;"
        " return gradwalkExplorer.simulate({ ...page.network, walks, seed }).mean.toFixed(2); })()"
    )
    assert numbers(page)[0][2].startswith(shown.replace("-", "−") + " ±")


def test_nothing_is_wider_than_the_screen(open_page):
    page = open_page(SMALL_PHONE, link=SMALL)
    page.select_option("#explorer-activation", "gelu")
    settle(page)
    for size in (SMALL_PHONE, DESKTOP, PHONE):  # narrow at first, and made narrower
        page.set_viewport_size({"width": size[0], "height": size[1]})
        wide = page.evaluate(
            "[...document.querySelectorAll('#explorer *')].filter((node) => node.getBoundingClientRect().right >"
            " document.documentElement.clientWidth + 0.5).map((node) => node.id || node.tagName)"
        )
        assert wide == [], size
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], size


def test_picture_follows_the_colour_scheme(explore):
    page = explore()
    light = picture(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "(light) => document.getElementById('explorer-walks-picture').toDataURL() !== light", arg=light
    )


def test_the_gain_follows_the_activation(explore):
    page = explore("#explorer?a=relu,gaussian,100,30,unbiased")
    assert text(page, "prediction") == f"{gw.gain('relu', 100):.5f}"
    press(page, "width", "ArrowLeft", times=7)
    press(page, "depth", "ArrowLeft")
    assert (text(page, "width-value"), text(page, "depth-value")) == ("20", "25")
    page.select_option("#explorer-activation", "tanh")
    settle(page)
    value, error = map(float, text(page, "prediction").split(" ± "))
    python = gw.solve_gain("tanh", 20, 25)
    assert abs(value - python.value) < 4 * math.hypot(error, python.standard_error) + 1e-4
    assert float(page.input_value("#explorer-gain")) == pytest.approx(value, abs=1e-4)
    mean, error = mean_of(page)
    assert abs(mean) < 4 * error + 0.01


def test_a_gain_of_ones_own_lasts_until_the_activation_changes(explore):
    page = explore()
    page.fill("#explorer-gain", "1.5")
    settle(page)
    press(page, "depth", "ArrowLeft")
    assert page.input_value("#explorer-gain") == "1.5"
    page.select_option("#explorer-activation", "linear")
    settle(page)
    assert float(page.input_value("#explorer-gain")) == pytest.approx(gw.gain("linear", WIDTH), abs=1e-5)
    assert page.get_attribute("#explorer-unbiased", "aria-pressed") == "true"


@pytest.mark.parametrize(("rule", "gain"), [("he", math.sqrt(2)), ("xavier", 1.0), ("torch", math.sqrt(1 / 3))])
def test_a_button_sets_the_gain_of_a_known_initialiser(explore, rule, gain):
    page = explore()
    page.click(f"#explorer-{rule}")
    settle(page)
    assert float(page.input_value("#explorer-gain")) == pytest.approx(gain, abs=1e-5)
    expected = DEPTH * math.log(gain / gw.gain("relu", WIDTH))
    mean, error = mean_of(page)
    assert abs(mean - expected) < 4 * error
    press(page, "width", "ArrowLeft")  # a rule holds for every network
    assert float(page.input_value("#explorer-gain")) == pytest.approx(gain, abs=1e-5)


@pytest.mark.parametrize("depth", [5, 200, 1000])
def test_the_slider_is_centred_on_the_unbiased_gain_and_spans_the_same_drift_at_every_depth(explore, depth):
    page = explore(f"#explorer?a=relu,gaussian,{WIDTH},{depth},unbiased&walks=20")
    assert page.input_value("#explorer-gain-slider") == "0"
    press(page, "gain-slider", "ArrowRight")
    gain = network(page)["gain"]
    assert depth * math.log(gain / gw.gain("relu", WIDTH)) == pytest.approx(math.log(1000) / 100, rel=1e-2)
    press(page, "gain-slider", "End")
    assert depth * math.log(network(page)["gain"] / gw.gain("relu", WIDTH)) == pytest.approx(math.log(1000), rel=1e-2)
    press(page, "gain-slider", "PageDown", times=5)
    assert page.input_value("#explorer-gain-slider") == "0"
    assert network(page)["rule"] == "unbiased"


def test_two_networks_are_drawn_over_each_other(explore):
    page = explore()
    alone = picture(page)
    page.click("#explorer-network-b")
    settle(page)
    assert len(numbers(page)) == 2
    assert picture(page) != alone
    page.select_option("#explorer-activation", "linear")
    settle(page)
    assert [row[0] for row in numbers(page)] == ["A: relu", "B: linear"]
    assert text(page, "result").count("typical gradient") == 2
    page.click("#explorer-network-a")
    assert page.input_value("#explorer-activation") == "relu"
    page.click("#explorer-remove")
    settle(page)
    assert len(numbers(page)) == 1
    assert picture(page) == alone


def test_a_link_opens_the_same_networks(load):
    link = "#explorer?a=tanh,orthogonal,20,25,unbiased&b=relu,gaussian,50,30,1.4&walks=20&seed=7"
    page = load(link)
    assert [row[0] for row in numbers(page)] == ["A: tanh", "B: relu"]
    assert page.input_value("#explorer-seed") == "7"
    page.click("#explorer-network-b")
    assert page.input_value("#explorer-gain") == "1.4"
    assert page.evaluate("gradwalkExplorer.linkOf(gradwalkExplorer.page.choice)") == link


@pytest.mark.parametrize("link", ["#explorer?a=nope,x,1e9,-3,999&walks=0&seed=1.5", "#explorer?", "#explorer?a=,,,,"])
def test_a_link_that_cannot_be_used_opens_a_network(load, link):
    page = load(link)
    assert "typical gradient" in text(page, "result")
    assert page.input_value("#explorer-seed") == "1"


def test_link_and_python_are_copied(open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.click("#explorer-copy-link")
    page.wait_for_function("document.getElementById('explorer-copied').textContent.startsWith('Copied')")
    assert page.evaluate("navigator.clipboard.readText()").endswith(
        "explorer.html#explorer?a=relu,gaussian,100,200,unbiased&walks=60&seed=1"
    )
    page.click("#explorer-copy-python")
    page.wait_for_function("document.getElementById('explorer-copied').textContent.includes('Python')")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#explorer-python")


def test_the_python_code_samples_the_same_networks(explore):
    page = explore("#explorer?a=tanh,orthogonal,20,25,unbiased&b=relu,gaussian,50,30,he&walks=20&seed=7")
    code = page.text_content("#explorer-python")
    names = {}
    exec(code.replace("b.plot(ax=a.plot())", ""), names)
    assert (names["a"].depth, names["b"].depth) == (25, 30)
    for place, name in enumerate("ab"):
        mean, error = mean_of(page, place)
        assert abs(names[name].mean - mean) < 4 * math.hypot(error, names[name].standard_error) + 0.01


def test_the_walks_are_read_at_a_layer(load):
    page = load(SMALL)
    assert page.is_hidden("#explorer-readout")
    box = page.locator("#explorer-walks-picture").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "layers back" in text(page, "readout")
    page.mouse.move(box["x"], box["y"] - 50)
    assert page.is_hidden("#explorer-readout")
    press(page, "walks-picture", "End")
    mean = numbers(page)[0][2].split(" ± ")[0]
    assert text(page, "readout").startswith(f"{DEPTH} layers back")
    assert mean in text(page, "readout")
    assert mean in page.get_attribute("#explorer-walks-picture", "aria-valuetext")
    press(page, "walks-picture", "Home")
    assert page.get_attribute("#explorer-walks-picture", "aria-valuenow") == "0"


def test_a_finger_reads_the_walks(open_page):
    page = open_page(PHONE, link=SMALL, has_touch=True)
    picture_box = page.locator("#explorer-walks-picture")
    picture_box.scroll_into_view_if_needed()
    box = picture_box.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    assert "layers back" in text(page, "readout")


def test_unsteady_activations_are_labelled(explore):
    page = explore()
    assert "unsteady" not in text(page, "note")
    page.select_option("#explorer-activation", "silu")
    settle(page)
    assert "silu is unsteady" in text(page, "note")
    assert "grows with depth" in text(page, "note")


def test_the_page_reports_that_there_is_no_unbiased_gain(explore):
    page = explore(USUAL)
    press(page, "width", "Home")
    page.select_option("#explorer-activation", "tanh")
    settle(page)
    assert text(page, "prediction") == "none"
    assert "No gain makes the walk of 200 tanh layers of 2 units unbiased" in text(page, "note")
    assert page.is_disabled("#explorer-unbiased")
    assert page.is_hidden("#explorer-curve-figure")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("gain", "", "gain must be"), ("gain", "1000", "gain must be"), ("seed", "-1", "seed must be")],
)
def test_an_invalid_number_is_reported(explore, name, value, message):
    page = explore()
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
    page.select_option("#explorer-activation", "tanh")
    page.evaluate(
        "() => { for (const name of ['width', 'depth', 'walks']) { const slider ="
        " document.getElementById(`explorer-${name}`); slider.value = slider.max;"
        " slider.dispatchEvent(new Event('input')); } }"
    )
    page.wait_for_function("/^\\d+ of 400 walks/.test(document.getElementById('explorer-progress').textContent)")
    assert page.get_attribute("#explorer-result", "aria-busy") == "true"
    page.keyboard.press("Tab")
    page.evaluate(
        "() => { for (const name of ['width', 'depth']) { const slider = document.getElementById(`explorer-${name}`);"
        " slider.value = 0; slider.dispatchEvent(new Event('input')); } }"
    )
    settle(page)
    assert "over 2 layers" in text(page, "result")
    texts = page.evaluate("window.texts")
    assert any(shown.startswith("400 walks through 2 layers") for shown in texts)
    assert not any(shown.startswith("400 walks through 1000 layers") for shown in texts)  # the long job was abandoned
    gaps = page.evaluate("window.gaps")
    assert len(gaps) > 10
    assert np.median(gaps) < 100  # milliseconds; the work comes in slices of 10


def test_every_control_has_a_name_and_is_reached_by_keyboard(load):
    page = load()
    controls = page.evaluate(
        "[...document.querySelectorAll('#explorer :is(input, select, button, canvas[tabindex])')]"
        ".filter((node) => node.checkVisibility()).map((node) => ({ id: node.id, name:"
        " node.labels?.[0]?.textContent || node.getAttribute('aria-label') || node.textContent }))"
    )
    assert len(controls) == 17
    assert all(control["name"].strip() for control in controls)
    reached = []
    for _ in controls:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached == [control["id"] for control in controls]
    assert page.get_attribute("#explorer-result", "aria-live") == "polite"
    described = page.get_attribute("#explorer-walks-picture", "aria-describedby")
    assert "typical gradient" in page.inner_text(f"#{described}")
    assert page.get_attribute("#explorer-depth", "aria-valuetext") == "200"


def test_the_angle_of_two_gradients_has_a_picture_and_a_number_for_each_network(explore):
    page = explore(USUAL)
    assert re.fullmatch(r"1\.\d directions of 100 pass\.", text(page, "directions"))
    before = picture(page, "angles-picture")
    page.select_option("#explorer-activation", "linear")
    page.select_option("#explorer-weights", "orthogonal")
    settle(page)
    (passing,) = re.findall(r"(\d+\.\d) directions of 100 pass\.", text(page, "directions"))
    assert float(passing) > 50  # all 100, up to the noise of 60 pairs
    assert picture(page, "angles-picture") != before
    page.click("#explorer-network-b")
    settle(page)
    assert re.match(r"A: \d+\.\d directions of 100 pass\. B: ", text(page, "directions"))
