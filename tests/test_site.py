"""The documentation site: it is built without a warning, its search knows every public name, and it works offline."""

import html
import inspect
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread

import pytest
from filelock import FileLock
from helpers.accessibility import serious_violations

ROOT = Path(__file__).parents[1]
SIZES = {"desktop": (1400, 900), "tablet": (820, 1180), "phone": (390, 844)}
FIRST = 12  # results
SEARCHES = """async (texts) => {
  const parts = ["__input", "-result", "-result__list"];
  const [box, result, list] = parts.map((part) => document.querySelector(`.md-search${part}`));
  const anchors = {};
  for (const text of texts) {
    list.replaceChildren();
    const changes = { childList: true, subtree: true }; // the number of results, even if it is 0, and the results
    const shown = new Promise((resolve) => new MutationObserver(resolve).observe(result, changes));
    box.value = text;
    box.dispatchEvent(new Event("keyup"));
    await shown;
    anchors[text] = [...list.querySelectorAll(".md-search-result__link")].map((link) => link.hash.slice(1));
  }
  return anchors;
}"""
EXPLORER = """[getComputedStyle(document.getElementById("explorer")).color,
 document.getElementById("explorer-walks-picture").toDataURL()]"""
LOW = 10  # pixels, where only the width of a page counts: drawing takes time
PATIENCE = 120_000  # milliseconds, on a machine that does other things


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` does, by the first worker that needs it; a warning fails."""
    for package in ("latex2mathml", "material", "mkdocstrings_handlers.python", "typer"):
        pytest.importorskip(package)
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    workers = tmp_path_factory.getbasetemp()
    folder = (workers.parent if "PYTEST_XDIST_WORKER" in os.environ else workers) / "site"
    complete = folder.with_suffix(".complete")
    with FileLock(folder.with_suffix(".lock")):
        if not complete.exists():
            config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
            config.plugins.on_startup(command="build", dirty=False)
            build(config)
            complete.touch()
    return folder


@pytest.fixture(scope="module")
def index(site: Path) -> list[dict[str, str]]:
    return json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]


def words(text: str) -> str:
    """Return the letters and digits of a text, without its markup."""
    return "".join(re.findall(r"\w", html.unescape(re.sub(r"<[^<>]+>", "", text))))


@pytest.mark.parametrize("module", ["gradwalk", "gradwalk.torch", "gradwalk.jax", "gradwalk.keras"])
def test_every_public_name_is_a_heading_in_the_index_of_the_search(module: str, index: list[dict[str, str]]) -> None:
    located = {entry["location"].partition("#")[2]: entry for entry in index}
    if module != "gradwalk":
        pytest.importorskip(module.partition(".")[2])
    for name in import_module(module).__all__:
        entry = located[f"{module}.{name}"]
        assert name in entry["title"]
        first_line = inspect.getdoc(getattr(import_module(module), name)).partition("\n")[0]
        if name != "Block":  # a union of types, whose docstring is not there when it runs
            assert words(first_line) in words(entry["text"]), f"{module}.{name}"


def test_every_command_is_found(index: list[dict[str, str]]) -> None:
    titles = {entry["title"] for entry in index if entry["location"].startswith("commands.html")}
    expected = (
        "gain",
        "walk",
        "activations",
        "train",
        "reproduce",
        "data list",
        "data fetch",
        "sweep run",
        "sweep status",
    )
    assert titles >= {f"gradwalk {name}" for name in expected}


def test_arguments_results_errors_and_examples_have_their_sections(site: Path) -> None:
    page = (site / "api" / "gradwalk.html").read_text("utf-8")
    entry = page[page.index('id="gradwalk.simulate"') : page.index('id="gradwalk.Walks"')]
    for words in ("Parameters:", "Returns:", "Raises:", "Examples:", "ValueError"):
        assert words in entry


def test_formulas_are_typeset_and_no_page_names_a_server(site: Path) -> None:
    assert (site / "how-it-works.html").read_text("utf-8").count("<math") > 20
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert "arithmatex" not in page, path.name
        assert not re.findall(r'<(?:script|img|iframe)[^>]* src="https?:', page), path.name
        assert not re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect|preload)"[^>]* href="https?:', page), path.name


def test_the_comparison_of_initialisers_is_that_of_the_results(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = (ROOT / "docs" / "which-initialiser.md").read_text("utf-8")
    assert import_module("which_initialiser").comparison() in page


# In the browser


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}/"
    serving.shutdown()
    serving.server_close()


class Reader:
    """A browser window that keeps what goes wrong: messages, errors, and requests to other places."""

    def __init__(self, chromium: object, size: str, own: str = "file:", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = chromium.new_context(
            viewport={"width": width, "height": height}, is_mobile=size == "phone", color_scheme=scheme
        )
        self.page, self.messages = self.context.new_page(), []
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on("request", lambda request: self._requested(request.url, own))

    def _requested(self, url: str, own: str) -> None:
        if not url.startswith((own, "data:", "blob:", "about:")):
            self.messages.append(f"request: {url}")

    def search(self, words: str) -> list[str]:
        """Type words into the search, and return the anchors of what it finds, best first."""
        box, results = (self.page.locator(f".md-search{part}") for part in ("__input", "-result__link"))
        box.click()
        self.page.locator(".md-search-result__list").evaluate("list => list.replaceChildren()")
        box.fill(words[:-1])
        box.press(words[-1])  # the search listens to keys
        results.first.wait_for()
        return results.evaluate_all("links => links.map(link => link.hash.slice(1))")


@pytest.mark.parametrize(
    ("size", "scheme", "names"),
    [
        ("desktop", "light", ("which-initialiser", "api/jax")),
        ("phone", "dark", ("index", "how-it-works", "explorer")),
    ],
)
def test_pages_are_accessible(chromium: object, site: Path, size: str, scheme: str, names: tuple[str, ...]) -> None:
    """As far as axe-core can tell: prose with a picture, tables, formulas, the reference, the explorer."""
    reader = Reader(chromium, size, scheme=scheme)
    for name in names:
        reader.page.goto((site / f"{name}.html").as_uri())
        assert serious_violations(reader.page) == [], name
    reader.context.close()


def test_the_explorer_follows_the_switch_of_the_site(chromium: object, site: Path) -> None:
    reader = Reader(chromium, "desktop")
    reader.page.goto((site / "explorer.html").as_uri())
    reader.page.wait_for_selector("#explorer-result[aria-busy=false]")
    light = reader.page.evaluate(EXPLORER)
    reader.page.locator("label[for=__palette_1]").click()
    reader.page.wait_for_selector("[data-md-color-scheme=slate]", state="attached")
    dark = reader.page.evaluate(EXPLORER)
    assert (light[0], dark[0]) == ("rgb(27, 31, 36)", "rgb(230, 232, 235)")
    assert light[1] != dark[1]
    reader.context.close()


def test_every_page_fits_every_screen_and_nothing_goes_wrong(chromium: object, site: Path) -> None:
    reader = Reader(chromium, "desktop")
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":  # made for a server: its links start at the root
            continue
        for size, (width, _) in SIZES.items():  # from wide to narrow; widening moves the search into place slowly
            if size == "desktop":  # the page before is hidden: laying it out again takes time
                reader.page.evaluate("document.documentElement.style.display = 'none'")
            reader.page.set_viewport_size({"width": width, "height": LOW})
            if size == "desktop":
                reader.page.goto(path.as_uri())
            assert reader.page.evaluate("document.documentElement.scrollWidth") <= width, (path.name, size)
    assert reader.messages == []
    reader.context.close()


@pytest.fixture(scope="module")
def from_disk(chromium: object, site: Path) -> Iterator[Reader]:
    """One window for all searches from disk: its index takes a second to build."""
    reader = Reader(chromium, "desktop")
    reader.page.goto((site / "index.html").as_uri())
    yield reader
    reader.context.close()


def test_the_search_works_from_disk(from_disk: Reader) -> None:
    assert "gradwalk.torch.calibrate_" in from_disk.search("calibrate_")
    assert from_disk.messages == []


def test_the_search_works_served(chromium: object, server: str) -> None:
    reader = Reader(chromium, "desktop", server)
    reader.page.goto(server + "index.html")
    assert "gradwalk.torch.calibrate_" in reader.search("calibrate_")
    assert reader.messages == []
    reader.context.close()


@pytest.mark.parametrize("module", ["gradwalk", "gradwalk.torch"])
def test_the_search_finds_every_public_name_among_its_first_results(from_disk: Reader, module: str) -> None:
    if module == "gradwalk.torch":
        pytest.importorskip("torch")
    from_disk.page.locator(".md-search__input").click()
    found = from_disk.page.wait_for_function(SEARCHES, arg=import_module(module).__all__).json_value()
    for name in import_module(module).__all__:
        assert f"{module}.{name}" in found[name][:FIRST], name
    assert from_disk.messages == []
