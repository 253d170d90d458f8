"""Complete the API reference: a public name that its page does not mention is added at the end of the page.

A page of the reference names its module in its front matter; `__all__` of the module is read from the source.
"""

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.pages import Page

SOURCE = Path(__file__).parents[2] / "src"


def public_names(module: str) -> list[str]:
    """Return `__all__` of a module, without importing it."""
    tree = ast.parse((SOURCE / module.replace(".", "/") / "__init__.py").read_text("utf-8"))
    (value,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and _name(node) == "__all__")
    return list(ast.literal_eval(value))


def _name(node: ast.Assign) -> str:
    return getattr(node.targets[0], "id", "")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Add the names that are missing from a page."""
    module = page.meta.get("module")
    if module is None:
        return markdown
    entries = [f"::: {module}.{name}" for name in public_names(module)]
    missing = [entry for entry in entries if entry not in markdown.splitlines()]
    return "\n\n".join([markdown, *["## More"] * bool(missing), *missing])
