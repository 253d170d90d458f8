"""Typeset formulas: `$...$` and `$$...$$` become MathML when the site is built; nothing is loaded to show them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

# Primes and bars as operators with the spaces of printed mathematics.
BETTER = {
    "<mi>&#x02032;</mi>": "<mo>&#x02032;</mo>",
    '<mo stretchy="false">&#x0007C;</mo>': '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>',
}
LOGARITHM = re.compile(r"<mi>ln</mi>(?!<mo)")  # of a symbol, from which a thin space sets it apart


def mathml(match: re.Match[str]) -> str:
    """Return the MathML of a formula that pymdownx.arithmatex has marked."""
    display = "block" if match[1] == "div" else "inline"
    formula = convert(html.unescape(match[2]), display=display)
    for converted, better in BETTER.items():
        formula = formula.replace(converted, better)
    return LOGARITHM.sub(r'<mi>ln</mi><mspace width="0.17em"/>', formula)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page."""
    return FORMULA.sub(mathml, content)
