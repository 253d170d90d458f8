"""Put the explorer of the report on its own page of the site, in the colours that are chosen there."""

import re
from typing import Any

from gradwalk.report.explorer import fragment

PLACE = "<p>EXPLORER</p>"
TITLE = re.compile(r"<h2(.*?)</h2>")  # of the section, which is a page here
COLOURS = re.compile(r"^\s*#explorer \{\n(.*?)\}", re.MULTILINE | re.DOTALL)  # the light ones, then the dark ones
REDRAW = """<script>
new MutationObserver(() => gradwalkExplorer.page.redraw())
  .observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
</script>"""


def on_page_content(content: str, **_: Any) -> str:
    """Replace the place that a page reserves for it."""
    if PLACE not in content:
        return content
    explorer = fragment()
    return content.replace(PLACE, TITLE.sub(r"<h1\1</h1>", explorer) + palettes(explorer) + REDRAW)


def palettes(explorer: str) -> str:
    """Return style rules by which the explorer follows the site's switch instead of the system's preference."""
    light, dark = COLOURS.findall(explorer)
    default = f"[data-md-color-scheme] #explorer {{ {light} color-scheme: light; }}"
    return f"<style>{default}\n[data-md-color-scheme=slate] #explorer {{ {dark} color-scheme: dark; }}</style>"
