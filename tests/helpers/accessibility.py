"""What axe-core finds wrong with a page."""

import pytest


def serious_violations(page: object) -> list[tuple[str, list[str]]]:
    """Return the rules that the page breaks seriously, each with the HTML of the elements that break it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    options = {"resultTypes": ["violations"]}  # nothing else is read
    violations = axe.Axe().run(page, options=options).response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
