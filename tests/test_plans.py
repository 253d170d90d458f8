"""gradwalk.plans: what an initialization would do, as text, as HTML and as columns."""

import pytest

from gradwalk.plans import LayerRole, LeftAlone, Plan, PlanRow

DRAWN = PlanRow("a", (8, 4), LayerRole.CHAIN, "linear", 0.02, 0.5, 1.0, 0.0, True)
SCALED = PlanRow("b", (4, 8), LayerRole.BRANCH, "relu", 0.1, 0.05, 0.14, -2.3, False, notes=("branch: 1/sqrt(2)",))
KEPT = PlanRow("c<d>", (2, 4), LayerRole.HEAD, "?", 0.0, None, None, None, False, reason="zero on purpose")
PLAN = Plan((DRAWN, SCALED, KEPT), (LeftAlone("n", "LayerNorm", "a norm"),), ("Nothing else.",))


def test_a_plan_prints_its_rows_with_footnotes_within_100_columns():
    lines = str(PLAN).splitlines()
    assert lines[0].split() == ["layer", "shape", "role", "reads", "std", "now", "std", "gain", "drift"]
    assert lines[1].split() == ["a", "8x4", "chain", "linear", "0.02", "0.5", "1.0000", "0"]
    assert lines[2].split()[-2:] == ["~-2.3", "[1]"]
    assert lines[3].split() == ["c<d>", "2x4", "head", "?", "0", "-", "-", "[2]"]
    assert lines[4:6] == ["[1] branch: 1/sqrt(2)", "[2] left alone: zero on purpose"]
    assert lines[-2:] == ["left alone: n (LayerNorm): a norm", "Nothing else."]
    long = Plan((DRAWN._replace(name="x" * 200, notes=("y " * 100,)),))
    assert max(map(len, str(long).splitlines())) <= 100


def test_a_plan_in_a_notebook_is_a_table_of_escaped_cells():
    page = PLAN._repr_html_()
    assert page.count("<tr>") == 4
    assert "<td>c&lt;d&gt;</td>" in page
    assert "<p>[2] left alone: zero on purpose</p>" in page


def test_rows_are_found_by_name_and_given_as_columns():
    assert PLAN.row("b") is SCALED
    assert PLAN.drawn == (DRAWN, SCALED)
    assert repr(PLAN) == "<Plan: 2 of 3 weight layers drawn>"
    assert PLAN.columns()["role"] == ["chain", "branch", "head"]
    with pytest.raises(KeyError, match="e"):
        PLAN.row("e")
