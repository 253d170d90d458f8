"""Turn the notebooks of examples/notebooks into pages of the site, with the outputs that they were saved with."""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
SOURCE = "*This page is a notebook: `examples/notebooks/{}`.*"


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each notebook."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page(path)))
    return files


def page(path: Path) -> str:
    """Return a notebook as Markdown."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n\n".join([*map(cell_text, cells), SOURCE.format(path.name)])


def cell_text(cell: dict[str, Any]) -> str:
    """Return a cell with its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(output_text, cell["outputs"])])


def output_text(output: dict[str, Any]) -> str:
    """Return an output: a picture, a table of HTML, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![Output of the cell above](data:image/png;base64,{''.join(data['image/png']).replace(chr(10), '')})"
    if "text/html" in data:
        return "".join(data["text/html"])
    return f"```text\n{''.join(output.get('text') or data.get('text/plain', '')).rstrip()}\n```"
