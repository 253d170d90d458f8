"""Verdicts follow from the numbers in the tables, and so do the errata."""

import re

import pytest
from helpers.report_tables import (
    ENCODER,
    LITTLE,
    MADE,
    MNIST_ORDER,
    PHONES,
    PIXELS,
    REVERSED,
    by_depth,
    by_epoch,
    by_gain,
    by_slope,
    gains,
    trained,
    walks,
)

import gradwalk
from gradwalk.figures import FIGURES, Table, fig1
from gradwalk.report import CLAIMS, errata, page
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, UNDECIDED, Claim, Tables

PAPERS = [claim for claim in CLAIMS if claim.in_paper]


def order(errors: dict[int, float | None] | None = None, **more: object) -> Table:
    """Return Figure 4A with the paper's order of depths, but for these errors."""
    return by_depth("fig4a", MNIST_ORDER | (errors or {}), **more)


def encoder(errors: dict[int, float | None] | None = None, **more: object) -> Table:
    """Return Figure 4B with errors that bear the paper out, but for these."""
    return by_depth("fig4b", ENCODER | (errors or {}), **PIXELS | more)


def phones(errors: dict[int, float | None] | None = None, data: str = "TIMIT", **more: object) -> Table:
    """Return Figure 4D with errors that bear the paper out, but for these."""
    return by_depth("fig4d", PHONES | (errors or {}), data=data, **more)


def relu_by_depth(bests: dict[int, float | None]) -> Table:
    """Return Figure 3 with the best g of ReLU by depth, None where all g are as good, and tanh as in the paper."""

    def error(activation: str, depth: int, gain: float, **_: object) -> float:
        best = 1.2 if activation == "tanh" else bests[depth]
        return 0.1 if best is None else 0.001 + 0.1 * abs(gain - best)

    grid = {"activation": ["tanh", "relu"], "depth": list(bests), "gain": [1.0, 1.2, 1.5, 1.8]}
    return trained("fig3", error, **grid)


# A claim, tables for which it holds, and the verdict for other tables.
CASES = [
    ("C1", {"fig1": walks(end=0.03)}, {HOLDS: {"fig1": walks(end=-0.09)}, FAILS: {"fig1": walks(end=0.5)}}),
    ("C1", {"fig1": walks()}, {IN_PART: {"fig1": walks(end=0.14)}}),
    ("C2", {"fig1": walks()}, {FAILS: {"fig1": walks(slope=4.0, power=-0.5, bend=2.0)}}),
    ("C2", {"fig1": walks(slope=1.05)}, {IN_PART: {"fig1": walks(slope=1.15)}}),
    ("C2", {"fig1": walks(power=-0.95)}, {IN_PART: {"fig1": walks(power=-0.8)}}),
    ("C2", {"fig1": walks(bend=1.01)}, {IN_PART: {"fig1": walks(bend=1.3)}}),
    ("C3", {"fig2": gains(off=0.002)}, {IN_PART: {"fig2": gains(off=0.0045)}, FAILS: {"fig2": gains(off=0.01)}}),
    ("C4", {"fig2": gains(tanh=lambda width: 1.1 + 1 / width)}, {FAILS: {"fig2": gains(tanh=lambda width: 1.35)}}),
    ("C4", {"fig2": gains()}, {IN_PART: {"fig2": gains(tanh=lambda width: 1.08 + 5 / width)}}),
    ("C4", {"fig2": gains()}, {FAILS: {"fig2": gains(tanh=lambda width: 1.004)}}),
    ("C4", {"fig2": gains()}, {FAILS: {"fig2": gains(relu=1.15)}}),
    ("C5", {"fig2": gains(wide=(1, 1, 2))}, {IN_PART: {"fig2": gains(wide=(1, 3, 2))}}),
    ("C5", {"fig2": gains()}, {FAILS: {"fig2": gains(wide=(3, 2, 1))}}),
    ("C6", {"fig3": by_gain(1.1, 1.4)}, {IN_PART: {"fig3": by_gain(1.2, 1.2)}, FAILS: {"fig3": by_gain(1.0, 1.8)}}),
    ("C6", {"fig3": by_gain(1.4, 1.55)}, {IN_PART: {"fig3": by_gain(1.6, 1.5)}}),
    # of the depths that tell, which are more than half, most are inside
    (
        "C6",
        {"fig3": relu_by_depth({8: 1.2, 16: None, 32: 1.5, 64: 1.5})},
        {
            IN_PART: {"fig3": relu_by_depth({8: 1.2, 16: None, 32: 1.5, 64: 1.2})},
            UNDECIDED: {"fig3": relu_by_depth({8: 1.2, 16: None, 32: 1.5, 64: None})},
        },
    ),
    ("C7", {"fig4a": by_depth("fig4a", MNIST_ORDER)}, {FAILS: {"fig4a": by_depth("fig4a", REVERSED)}}),
    (
        "C7",
        {"fig4a": by_depth("fig4a", MNIST_ORDER)},
        {IN_PART: {"fig4a": by_depth("fig4a", MNIST_ORDER | {2: 0.003})}},
    ),
    (
        "C7",
        {"fig4a": by_depth("fig4a", MNIST_ORDER | {128: None})},
        {IN_PART: {"fig4a": by_depth("fig4a", MNIST_ORDER | {32: None})}},
    ),
    # at a zero that others reach too, and at differences of a few mistakes, nothing is decided
    ("C7", {"fig4a": order()}, {UNDECIDED: {"fig4a": order({2: 0.0, 4: 0.0})}}),
    ("C7", {"fig4a": order({2: 0.0})}, {UNDECIDED: {"fig4a": order({2: 0.0, 16: 0.0, 32: 0.0})}}),
    ("C7", {"fig4a": order({16: 0.00201})}, {UNDECIDED: {"fig4a": order({4: 0.00215})}}),
    # with a tenth of the parameters, D = 7 and 15 stand for 16 and 32
    (
        "C7",
        {"fig4a": by_depth("fig4a", {2: 0.001, 7: 0.002, 15: 0.002, 30: 0.004}, share=0.1)},
        {FAILS: {"fig4a": by_depth("fig4a", {2: 0.003, 7: 0.004, 15: 0.004, 30: 0.001}, share=0.1)}},
    ),
    (
        "C8",
        {"fig4b": encoder()},
        {IN_PART: {"fig4b": encoder({128: 0.2})}, FAILS: {"fig4b": encoder({16: 0.04, 128: 0.2})}},
    ),
    ("C8", {"fig4b": encoder()}, {UNDECIDED: {"fig4b": encoder({16: 0.052})}}),  # too close to call
    ("C8", {"fig4b": encoder(epochs=60, decay=0.96)}, {IN_PART: {"fig4b": encoder({128: 0.2}, epochs=60, decay=0.96)}}),
    ("C8", {"fig4b": encoder(epochs=60)}, {UNDECIDED: {"fig4b": encoder({128: 0.2}, epochs=60)}}),  # still learning
    (
        "C8",
        {"fig4b": by_depth("fig4b", {4: 0.05, 60: 0.1}, share=0.1, **PIXELS)},
        {UNDECIDED: {"fig4b": by_depth("fig4b", {4: 0.05, 128: 0.1}, share=0.1, **PIXELS)}},
    ),
    ("C9", {"fig4c": by_epoch(50)}, {IN_PART: {"fig4c": by_epoch(120)}, FAILS: {"fig4c": by_epoch(400)}}),
    ("C9", {"fig4c": by_epoch(75, epochs=20)}, {UNDECIDED: {"fig4c": by_epoch(400, epochs=20)}}),
    ("C9", {"fig4c": by_epoch(20)}, {UNDECIDED: {"fig4c": by_epoch(20, examples=10_000)}}),
    ("C9", {"fig4c": by_epoch(20)}, {UNDECIDED: {"fig4c": by_epoch(20, width=[50])}}),
    ("C9", {"fig4c": by_epoch(20)}, {UNDECIDED: {"fig4c": by_epoch(20, depth=[500])}}),
    ("C9", {"fig4c": by_epoch(20)}, {UNDECIDED: {"fig4c": by_epoch(20, weights=["orthogonal"])}}),
    (
        "C10",
        {"fig4d": phones()},
        {
            HOLDS: {"fig4d": phones({32: 0.0095})},
            IN_PART: {"fig4d": phones({32: 0.02})},
            FAILS: {"fig4d": phones({32: 0.02, 4: 0.005})},
            UNDECIDED: {"fig4d": phones({4: 0.0, 16: 0.0, 32: 0.0})},
        },
    ),
    # a tie counts only if no other depth is as good
    ("C10", {"fig4d": phones()}, {FAILS: {"fig4d": phones({4: 0.005})}, UNDECIDED: {"fig4d": phones({4: 0.0101})}}),
    ("C10", {"fig4d": phones(data="TIMIT sample")}, {UNDECIDED: {"fig4d": phones(data="mnist")}}),
    (
        "C11",
        {"fig4a": by_slope("fig4a", 64, 0.4, 0.1), "fig4c": by_slope("fig4c", 1000, 0.4, 0.1)},
        {
            IN_PART: {"fig4a": by_slope("fig4a", 64, 0.4, 0.1), "fig4c": by_slope("fig4c", 1000, 0.15, 0.1)},
            FAILS: {"fig4a": by_slope("fig4a", 64, 0.15, 0.1), "fig4d": by_slope("fig4d", 32, 0.1, 0.2, data="TIMIT")},
            UNDECIDED: {"fig4a": by_slope("fig4a", 16, 0.4, 0.1)},
        },
    ),
    # where equal rates are good enough; where nothing learned, or only from orthogonal weights
    ("C11", {"fig4a": by_slope("fig4a", 64, 0.03, 0.01)}, {FAILS: {"fig4a": by_slope("fig4a", 64, 0.009, 0.001)}}),
    ("C11", {"fig4b": by_slope("fig4b", 64, 0.4, 0.1)}, {UNDECIDED: {"fig4b": by_slope("fig4b", 64, 0.9, 0.8)}}),
    ("C11", {"fig4a": by_slope("fig4a", 64, 0.4, 0.1)}, {UNDECIDED: {"fig4a": by_slope("fig4a", 64, None, 0.1)}}),
    ("C11", {"fig4a": by_slope("fig4a", 64, 0.4, 0.1)}, {UNDECIDED: {"fig4a": by_slope("fig4a", 64, None, None)}}),
    (
        "C11",
        {"fig4c": by_slope("fig4c", 1000, 0.4, 0.1)},
        {UNDECIDED: {"fig4c": by_slope("fig4c", 1000, 0.4, 0.1, weights=["orthogonal"])}},
    ),
    # no fair comparison: few levels, fewer equal ones, few initial weights, equal rates at the end of their grid
    *(
        (
            "C11",
            {"fig4a": by_slope("fig4a", 64, 0.4, 0.1)},
            {UNDECIDED: {"fig4a": by_slope("fig4a", 64, 0.4, 0.1, **few)}},
        )
        for few in ({"levels": 2}, {"equal_levels": 3}, {"seeds": 2}, {"best": 0}, {"noise": 0.9})
    ),
    # where better unequal rates may lie beyond the grid, an advantage is not refuted, unless equal ones are good enough
    *(
        (
            "C11",
            {"fig4a": by_slope("fig4a", 64, 0.4, 0.1)},
            {
                UNDECIDED: {"fig4a": by_slope("fig4a", 64, 0.15, 0.1, best=end)},
                FAILS: {"fig4a": by_slope("fig4a", 64, 0.009, 0.001, best=end)},
            },
        )
        for end in (0, 3)
    ),
    # while they learn, an advantage can be shown, but not refuted
    (
        "C11",
        {"fig4a": by_slope("fig4a", 64, 0.4, 0.1, epochs=40)},
        {UNDECIDED: {"fig4a": by_slope("fig4a", 64, 0.15, 0.1, epochs=40)}},
    ),
    (
        "C11",
        {"fig4a": by_slope("fig4a", 16, 0.4, 0.1, share=0.1)},
        {FAILS: {"fig4a": by_slope("fig4a", 16, 0.15, 0.1, share=0.1, epochs=40, decay=0.94)}},
    ),
    (
        "C12",
        {"fig3": by_gain(1.25, slope=0.05, least=0.0)},
        {
            HOLDS: {"fig3": by_gain(slope=0.01, least=0.0)},  # that g = 1 gets there too refutes nothing
            IN_PART: {"fig3": by_gain(1.25, relu=1.0, slope=0.05, least=0.0)},
            FAILS: {"fig3": by_gain(tanh=1.0, relu=1.0, slope=0.1, least=0.0)},
            UNDECIDED: {"fig3": by_gain(tanh=1.0, relu=1.0, slope=0.1, least=0.0, epochs=20)},
        },
    ),
    (
        "C12",
        {"fig3": by_gain(1.25, slope=0.05, least=0.0), "fig4a": by_depth("fig4a", MNIST_ORDER)},
        {IN_PART: {"fig3": by_gain(1.25, slope=0.05, least=0.0), "fig4a": by_depth("fig4a", {2: 0.0, 64: 0.5})}},
    ),
    ("C6", {"fig3": by_gain()}, {UNDECIDED: {"fig3": by_gain(slope=0.0)}}),  # all g are as good
    ("C6", {"fig3": by_gain(examples=10_000)}, {UNDECIDED: {"fig3": by_gain(slope=0.003, examples=10_000)}}),
]


@pytest.mark.parametrize(("claim", "good", "others"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_verdict_is_what_the_numbers_say(claim: str, good: dict[str, Table], others: dict) -> None:
    assert CLAIMS[claim].finding(good).verdict == HOLDS
    for verdict, tables in others.items():
        assert CLAIMS[claim].finding(tables).verdict == verdict


def test_every_claim_has_numbers_that_hold_and_numbers_that_fail() -> None:
    assert [claim.name for claim in PAPERS] == [f"C{number}" for number in range(1, 13)]
    for claim in PAPERS:
        verdicts = {verdict for name, _, others in CASES if name == claim.name for verdict in others}
        assert {FAILS, IN_PART} <= verdicts, claim.name
        assert UNDECIDED in verdicts | {UNDECIDED for name, _ in TOO_LITTLE if name == claim.name}, claim.name


@pytest.mark.parametrize("claim", list(CLAIMS), ids=lambda claim: claim.name)
def test_a_claim_without_its_figures_was_not_run(claim: Claim) -> None:
    finding = claim.finding({})
    assert finding.verdict == NOT_RUN
    assert re.search("was not run|none was run", finding.came_out)
    assert set(claim.figures) <= set(FIGURES.names)


@pytest.fixture(scope="module")
def small() -> dict[str, Table]:
    """Every trained figure at scale smoke, with numbers that would bear out each claim."""
    return {
        "fig3": by_gain(1.25, slope=0.05, least=0.0, **LITTLE),
        "fig4a": by_depth("fig4a", MNIST_ORDER, **LITTLE),
        "fig4b": by_depth("fig4b", ENCODER, **LITTLE),
        "fig4c": by_epoch(5, **{**LITTLE, "epochs": 3}),
        "fig4d": by_depth("fig4d", PHONES, data="TIMIT sample", examples=1000, epochs=2),
    }


@pytest.mark.parametrize("claim", PAPERS[5:], ids=lambda claim: claim.name)
def test_smoke_decides_no_claim_about_training_but_its_numbers_are_shown(claim: Claim, small: Tables) -> None:
    finding = claim.finding(small)
    assert finding.verdict == UNDECIDED
    assert re.search(r"trained on digits, not on MNIST|only 1,000 examples", finding.came_out)
    assert re.search(r"\d %|\d at D = |mistakes", finding.came_out)


TOO_LITTLE = [
    ("C6", {"fig3": by_gain(examples=4_999)}),
    ("C6", {"fig3": by_gain(epochs=4)}),
    ("C6", {"fig3": trained("fig3", lambda **_: 0.1, activation=["tanh", "relu"], gain=[1.2, 1.3, 1.45, 1.5])}),
    ("C6", {"fig3": trained("fig3", lambda **_: 0.1, activation=["tanh", "relu"], gain=[1.2, 1.45, 1.8])}),
    ("C7", {"fig4a": by_depth("fig4a", {2: 0.001, 16: 0.002, 128: 0.01})}),
    ("C7", {"fig4a": by_depth("fig4a", {2: 0.001, 16: 0.002, 32: 0.002})}),
    ("C7", {"fig4a": by_depth("fig4a", {depth: 20 * e for depth, e in MNIST_ORDER.items()}, epochs=8)}),
    ("C7", {"fig4a": by_depth("fig4a", MNIST_ORDER | {32: 0.02}, epochs=8)}),
    ("C8", {"fig4b": by_depth("fig4b", {4: 0.05, 64: 0.08}, **PIXELS)}),
    ("C8", {"fig4b": encoder(scaling="dimension")}),
    ("C8", {"fig4b": encoder(pca=0.04)}),  # D = 4 is worse than PCA, after 500 epochs
    ("C10", {"fig4d": phones({32: 0.4}, epochs=8)}),
    ("C12", {"fig3": trained("fig3", lambda **_: 0.0, activation=["tanh", "relu"], depth=[4], gain=[1.2, 1.5])}),
    ("C1", {"fig1": walks(depth=100)}),
    ("C2", {"fig1": walks(depth=100)}),
    ("C3", {"fig2": Table(gains().frame, gains().facts | {"depth": 20.0})}),
    ("C4", {"fig2": Table(gains().frame, gains().facts | {"depth": 20.0})}),
    ("C5", {"fig2": Table(gains().frame, gains().facts | {"depth": 20.0})}),
]


@pytest.mark.parametrize(("claim", "tables"), TOO_LITTLE)
def test_too_little_is_undecided_and_the_reason_is_given(claim: str, tables: dict[str, Table]) -> None:
    finding = CLAIMS[claim].finding(tables)
    assert finding.verdict == UNDECIDED
    assert re.search(r" \(.+\)\.$", finding.came_out)


def test_fewer_epochs_can_confirm_and_their_verdict_carries_the_scale() -> None:
    reduced = by_gain(examples=10_000, epochs=8)
    row = page.claim_rows({"fig3": reduced})[5]
    assert row.finding.verdict == HOLDS
    assert row.reduced == "10,000 of 60,000 examples, 8 of 500 epochs"
    assert page.claim_rows({"fig3": by_gain()})[5].reduced == ""
    assert page.claim_rows({"fig3": by_gain(epochs=4)})[5].reduced == ""  # without a verdict there is no scale


def test_a_table_without_other_widths_leaves_a_part_of_c2_open() -> None:
    whole = walks()
    partial = Table(whole.frame, {name: fact for name, fact in whole.facts.items() if "_" not in name})
    finding = CLAIMS["C2"].finding({"fig1": partial})
    assert finding.verdict == IN_PART
    assert "other widths not run" in finding.came_out


def test_simulated_walks_have_a_variance_that_scales_as_1_over_n() -> None:
    computed = fig1.compute(1, width=100, depth=100, walks=400, shown=2)
    finding = CLAIMS["C2"].finding({"fig1": computed})
    power = float(re.search(r"scales as N\^(\S+)\.", finding.came_out)[1])
    assert power == pytest.approx(-1, abs=0.12)  # 3 standard errors of 400 walks at 5 widths


def test_what_came_out_names_its_numbers() -> None:
    assert (
        CLAIMS["C1"]
        .finding({"fig1": walks(end=0.03)})
        .came_out.startswith("+0.030 ± 0.025 after 500 layers, 4,000 walks")
    )
    came_out = CLAIMS["C7"].finding({"fig4a": by_depth("fig4a", MNIST_ORDER)}).came_out
    assert "0.10 % (60 mistakes) at D = 2, 0.40 % (240 mistakes) at D = 4" in came_out
    assert (
        "50 from Gaussian weights, within 500 epochs; D = 1000, N = 249"
        in CLAIMS["C9"].finding({"fig4c": by_epoch(50)}).came_out
    )


# Errata


def test_equal_rates_alone_decide_nothing_about_the_schedule() -> None:
    rows = by_slope("fig4a", 64, 0.03, 0.01)
    even = Table.of(rows.frame[rows["rate_in"] == rows["rate_out"]], made=MADE)
    finding = CLAIMS["C11"].finding({"fig4a": even})
    assert finding.verdict == UNDECIDED
    assert "D = 64: 3.00 % with equal rates, none with unequal" in finding.came_out


def test_errata_are_numbered_and_their_numbers_are_computed() -> None:
    found = {erratum.name: erratum for erratum in errata.errata()}
    assert list(found) == [f"E{number}" for number in range(1, 13)]
    assert "0.02020 for ln z, 0.00505 for ln |δ|, 0.00500 printed" in found["E1"].checked
    assert "-0.69565 = −ln 2 − 2.50/N" in found["E2"].checked
    for number in ("3,994,694", "N = 1229 with 4,000,405", "D = 512 gives 88", "D = 1000 gives 249"):
        assert number in found["E6"].checked
    assert "an increase of 9" in found["E7"].checked
    assert "597 588 ... 48 39 30 39 48 ... 588 597 784" in found["E7"].correct
    assert "16,732,774 parameters" in found["E7"].checked
    assert "[9816, 30, 9816, 784]" in found["E7"].checked
    assert "exact -0.10332, first order -0.10000, second order -0.10333" in found["E11"].checked


def test_errata_follow_the_theory(monkeypatch) -> None:
    monkeypatch.setattr(errata, "step", lambda *_, **__: gradwalk.Step(-1.0, 8.0))
    first, second = errata.errata()[:2]
    assert "8.00000 for ln z, 2.00000 for ln |δ|" in first.checked
    assert "-1.00000 = −ln 2 − 306.85/N" in second.checked


def test_distances_are_those_of_the_gains() -> None:
    six, ten, *_ = errata.distances()
    assert (six.printed, six.exact) == (gradwalk.gain("relu", 6, formula="paper"), gradwalk.gain("relu", 6))
    assert six.drift == pytest.approx(65.3, abs=0.1)
    assert ten.drift == pytest.approx(4.2, abs=0.05)


def test_every_erratum_stands_beside_a_claim() -> None:
    named = {name for claim in CLAIMS for name in claim.errata}
    assert named == {erratum.name for erratum in errata.errata()}
