"""The explorer: the exact sampler in the browser, with sliders, as a section of a page or a page of its own.

`special.js`, `random.js`, `activations.js`, `neutral.js`, `sampler.js`, `pairs.js` and `gain.js` repeat the mathematics
of gradwalk in JavaScript; the others are the page. They share one scope and are loaded in the order of `SCRIPTS`. There
is nothing to build and nothing to fetch. Tests compare the numbers with those of the Python sampler, in Node and in
Chromium.
"""

from importlib.resources import files
from pathlib import Path

from gradwalk.files import write_atomic

SCRIPTS = (
    "special.js",
    "random.js",
    "activations.js",
    "neutral.js",
    "sampler.js",
    "pairs.js",
    "gain.js",
    "choice.js",
    "words.js",
    "plots.js",
    "predictions.js",
    "readout.js",
    "explorer.js",
)


def write_explorer(path: str | Path) -> Path:
    """Write the explorer as a page of its own, which opens from disk without a network, and return its path."""
    target = Path(path)
    write_atomic(target, _text("alone.html").replace("{explorer}", fragment()))
    return target


def fragment() -> str:
    """Return the explorer as one <section> that includes its style and its script.

    >>> fragment().startswith('<section id="explorer"'), "src=" in fragment()
    (True, False)
    """
    style, controls = _text("explorer.css"), _text("explorer.html")
    return (
        '<section id="explorer" aria-labelledby="explorer-title">\n'
        f"<style>\n{style}</style>\n{controls}<script>\n{script()}</script>\n</section>\n"
    )


def script() -> str:
    """Return the JavaScript, which defines `gradwalkExplorer` and, in a browser, starts the section.

    >>> "globalThis.gradwalkExplorer" in script()
    True
    """
    return "(() => {\n'use strict';\n" + "\n".join(map(_text, SCRIPTS)) + "})();\n"


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
