"""The page in Chromium, opened from disk: every panel is drawn, nothing is fetched, nothing goes wrong."""

from collections.abc import Iterator

import pytest
from helpers.accessibility import serious_violations
from helpers.report_tables import every_figure

from gradwalk.figures import FIGURES, Table
from gradwalk.report import CLAIMS, errata, write_page

SIZES = {"desktop": (1400, 900), "tablet": (820, 1180), "phone": (390, 844)}
# The layout depends on the size, the colours on the scheme.
SCREENS = [("desktop", "dark"), ("tablet", "light"), ("phone", "dark")]
DESKTOP = pytest.mark.parametrize("opened", SCREENS[:1], indirect=True, ids="-".join)
DRAWN = """plots => plots.map((plot) => {
  const box = plot.querySelector(".plot-container")?.getBoundingClientRect();
  const counts = ["svg.main-svg", ".scatterlayer .trace"].map((part) => plot.querySelectorAll(part).length);
  return [...counts, box?.width, box?.height];
})"""
MISFITS = """event => {
  window.dispatchEvent(new Event(event));
  const boxes = [...document.querySelectorAll(".plot")].map((plot) =>
    [plot, plot.querySelector("svg.main-svg")].map((node) => node.getBoundingClientRect()));
  return boxes.filter(([plot]) => plot.width).map(([plot, drawn]) => [plot.width, drawn.width])
    .filter(([plot, drawn]) => Math.abs(plot - drawn) > 1);
}"""
PATIENCE = 120_000  # milliseconds, on a machine that does other things


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return every_figure()


@pytest.fixture(scope="module")
def address(tmp_path_factory, tables) -> str:
    folder = tmp_path_factory.mktemp("report")
    for name in tables:
        (folder / f"{name}.png").write_bytes(b"")
    return write_page(folder, tables).as_uri()


class Opened:
    """A page that has been drawn, with its console messages, errors and network requests."""

    def __init__(self, chromium: object, address: str, size: str, scheme: str) -> None:
        width, height = SIZES[size]
        phone = size == "phone"
        self.context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=phone, is_mobile=phone
        )
        self.page, self.messages = self.context.new_page(), []
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on("request", self._requested)
        self.page.goto(address)
        self.drawn(scheme)

    def drawn(self, scheme: str) -> None:
        self.page.wait_for_function(f"document.documentElement.dataset.drawn === '{scheme}'")

    def _requested(self, request: object) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.messages.append(f"request: {request.url}")


@pytest.fixture(scope="module", params=SCREENS, ids="-".join)
def opened(request, chromium: object, address: str) -> Iterator[Opened]:
    one = Opened(chromium, address, *request.param)
    yield one
    one.context.close()


def test_every_figure_is_drawn(opened: Opened, tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        plots = opened.page.locator(f"#{name} .plot").evaluate_all(DRAWN)
        assert len(plots) == len(FIGURES[name].panels(table))
        for pictures, traces, width, height in plots:
            assert pictures > 0
            assert traces > 0
            assert width > 200
            assert height > 200


def test_the_tables_are_complete(opened: Opened) -> None:
    page = opened.page
    claims = sum(claim.in_paper for claim in CLAIMS)
    assert page.locator("table.claims tbody tr").count() == claims
    assert page.locator("table.claims tbody .verdict").count() == claims
    assert page.locator("table.errata tbody tr").count() == len(errata.errata())
    assert page.locator("#C6 .verdict").inner_text() == "holds"
    assert page.locator("#C12 .verdict").inner_text() == "holds in part"


def test_the_page_is_no_wider_than_the_screen(opened: Opened) -> None:
    assert opened.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert opened.page.evaluate("document.body.scrollWidth <= document.documentElement.clientWidth")


@DESKTOP  # a phone has no pointer that hovers
def test_a_point_shows_its_run(opened: Opened) -> None:
    plot = opened.page.locator("#fig3-1")
    plot.scroll_into_view_if_needed()
    point = plot.locator(".scatterlayer .trace").first.locator(".point").first.bounding_box()
    opened.page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    hover = plot.locator(".hoverlayer .hovertext")
    hover.wait_for()
    for words in ("tanh, g = ", "D = 4", "λ in 0.01, λ out 0.01", "training error", "mistakes"):
        assert words in hover.text_content()


def test_the_explorer_responds_to_a_slider(opened: Opened) -> None:
    page = opened.page
    explorer = page.locator("#explorer")
    explorer.scroll_into_view_if_needed()
    slider = explorer.locator("input[type=range]").first
    before = explorer.inner_text()
    slider.evaluate(
        "slider => { slider.value = slider.min; slider.dispatchEvent(new Event('input', {bubbles: true}));"
        " slider.dispatchEvent(new Event('change', {bubbles: true})); }"
    )
    page.wait_for_function("before => document.querySelector('#explorer').innerText !== before", arg=before)
    assert explorer.locator("svg, canvas").count() > 0


def test_the_page_is_accessible(opened: Opened) -> None:
    """As far as axe-core can tell, with everything that is collapsed shown."""
    opened.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert serious_violations(opened.page) == []


def test_plots_add_no_tab_stops_and_nothing_covers_them(opened: Opened) -> None:
    stops = "[...document.querySelectorAll('.plot *')].filter((node) => node.tabIndex >= 0).length"
    assert opened.page.evaluate(stops) == 0
    assert opened.page.locator(".modebar-btn").count() == 0


@DESKTOP
def test_paper_shows_what_is_collapsed_in_light_colours(opened: Opened) -> None:
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
    for event in ("beforeprint", "afterprint", "beforeprint"):
        assert page.evaluate(MISFITS, event) == []  # at once: a printer does not wait
    assert page.locator("details:not([open])").count() == 0
    assert brightness(colours(opened)[1]) < 80
    widths = page.locator(".plot").evaluate_all("plots => plots.map((plot) => plot.getBoundingClientRect().width)")
    assert widths
    assert max(widths) < 720
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert brightness(colours(opened)[1]) > 180


def test_there_are_no_messages_and_no_requests(opened: Opened) -> None:
    opened.page.wait_for_timeout(200)
    assert opened.messages == []


@DESKTOP
def test_page_and_panels_follow_the_theme(opened: Opened) -> None:
    ground, ink = colours(opened)
    assert brightness(ground) < 60
    assert brightness(ink) > 180
    opened.page.emulate_media(color_scheme="light")
    opened.drawn("light")
    ground, ink = colours(opened)
    assert brightness(ground) > 200
    assert brightness(ink) < 80
    opened.page.emulate_media(color_scheme="dark")
    opened.drawn("dark")
    assert opened.messages == []


def colours(one: Opened) -> list[str]:
    """Return the page's background, and the colour of a panel's ticks."""
    return one.page.evaluate(
        "[getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('#fig2-1 .xtick text')).fill]"
    )


def brightness(colour: str) -> float:
    numbers = [float(each) for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(numbers) / 3


def test_without_scripts_the_printable_figures_are_shown(
    chromium: object, address: str, tables: dict[str, Table]
) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("noscript img").count() == len(tables)
    context.close()
