"""What axe-core finds wrong with a page."""

import pytest


def serious_violations(page: object, parts: list[str] | None = None) -> list[tuple[str, list[str]]]:
    """Return the rules that a page, or its parts, breaks seriously, each with the HTML of what breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    # Nothing else is read, and "region" is never serious.
    options = {"resultTypes": ["violations"], "rules": {"region": {"enabled": False}}}
    violations = axe.Axe().run(page, parts, options).response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
