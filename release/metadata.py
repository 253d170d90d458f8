"""What the metadata of a build says beyond pyproject.toml: the README with links that work on a package index.

A package index shows the README without the files beside it. GRADWALK_URL, the address of the repository, makes its
links absolute and becomes the project's URLs. Without it they become plain text, since a dead link is worse than none.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^]]*)\]\((?!https?:)([^)]+)\)\n*")
LINK = re.compile(r"\[([^]]+)\]\((?!https?:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Fills in the fields that pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README, and the URLs if the address of the repository is known."""
        address = os.environ.get("GRADWALK_URL", "").rstrip("/")
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": on_an_index(text, address)}
        metadata["urls"] = urls(address) if address else {}


def urls(address: str) -> dict[str, str]:
    """Return the links in the margin of a package index page."""
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/HEAD/docs/index.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def on_an_index(text: str, address: str) -> str:
    """Return a README whose pictures and links do not need the files beside it."""
    if not address:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    text = PICTURE.sub(rf"![\1]({address}/raw/HEAD/\2)\n\n", text)
    return LINK.sub(rf"[\1]({address}/blob/HEAD/\2)", text)
