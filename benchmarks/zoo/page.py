"""The tables of the experiment as Markdown."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from setting import number

from zoo.outcome import LIMIT, Outcome, Training, Verdicts


def page(outcomes: Sequence[Outcome], heading: str) -> str:
    """Return the page with both tables below a heading."""
    trained = [(each, each.training) for each in outcomes if each.training]
    probed = [(each, each.verdicts) for each in outcomes if each.verdicts]
    parts = [heading]
    if trained:
        parts += [_training_summary([training for _, training in trained]), _training_table(trained), _errors(trained)]
    if probed:
        parts += [_probe_summary([verdicts for _, verdicts in probed]), _probe_table(probed)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _training_summary(trainings: Sequence[Training]) -> str:
    passed = sum(each.passes for each in trainings)
    better = sum(each.ratio < 1 / LIMIT for each in trainings)
    return (
        f"## Training after `init_`\n\n{passed} of {len(trainings)} models pass: the median loss after `init_` is at "
        f"most {LIMIT:g} times that from the model's own initialization, or no larger than that of its worst seed. "
        f"{better} are better by more than that factor."
    )


def _training_table(trained: Sequence[tuple[Outcome, Training]]) -> str:
    about = ("kind", "model", "package", "parameters", "drawn", "left alone", "seeds")
    losses = ("first loss", "own", "after `init_`", "ratio", "spread", "outcome")
    return _table([*about, *losses], (_training_row(each, training) for each, training in trained))


def _training_row(each: Outcome, training: Training) -> list[str]:
    after = number(statistics.median(training.init)) if training.init else "error"
    counts = [f"{training.parameters:,}", str(training.drawn), str(training.left), str(len(training.own))]
    losses = [number(training.first), number(statistics.median(training.own)), after]
    ratios = [f"{training.ratio:.3g}", f"{training.spread:.2f}"]
    return [each.case.kind, each.case.name, each.case.release, *counts, *losses, *ratios, _outcome(training)]


def _outcome(training: Training) -> str:
    if not training.init:
        return "error"
    words = "pass" if training.passes else "FAIL"
    words += ", better" if training.ratio < 1 / LIMIT else ""
    return words if training.trains else f"{words} (own does not train)"


def _errors(trained: Sequence[tuple[Outcome, Training]]) -> str:
    lines = [f"- {each.case.name}: {training.error}" for each, training in trained if training.error]
    lines += [f"- {each.case.name}: warning: {text}" for each, training in trained for text in training.warnings]
    return "Errors and warnings of `init_`:\n\n" + "\n".join(line.replace("\n", " ") for line in lines) if lines else ""


def _probe_summary(all_verdicts: Sequence[Verdicts]) -> str:
    calm = sum(each.calm for each in all_verdicts)
    noticed, scaled = sum(each.noticed for each in all_verdicts), sum(len(each.scaled) for each in all_verdicts)
    return (
        f"## Verdicts of `probe`\n\n{calm} of {len(all_verdicts)} models are not called faulty in their own "
        f"initialization, with any seed. With one layer multiplied by 1e4 or 1e-4, {noticed} of {scaled} are."
    )


def _probe_table(probed: Sequence[tuple[Outcome, Verdicts]]) -> str:
    places = list(dict.fromkeys(place for _, verdicts in probed for place in verdicts.scaled))
    rows = (_probe_row(each, verdicts, places) for each, verdicts in probed)
    return _table(["kind", "model", "own initialization", *places], rows)


def _probe_row(each: Outcome, verdicts: Verdicts, places: Sequence[str]) -> list[str]:
    own = ", ".join(f"{status} {count}" for status, count in Counter(verdicts.own).items())
    return [each.case.kind, each.case.name, own, *(verdicts.scaled.get(place, "") for place in places)]
