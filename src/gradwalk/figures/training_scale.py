"""How much was trained for a table, and how that compares with the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradwalk.data import full_size, title
from gradwalk.figures import provenance
from gradwalk.figures.outcomes import RUN, Line, clipping, endings, listed
from gradwalk.figures.table import Table


@dataclass(frozen=True)
class TrainingScale:
    """How much was trained for a table.

    data: the name of the data set. examples: to train on. epochs: of the longest run; a run that makes no more mistakes
    may stop before. params: the parameter limit. rate_left: the share of the learning rates that is left at the end of
    the longest run.
    """

    data: str
    examples: float
    epochs: float
    params: float
    rate_left: float

    @classmethod
    def of(cls, table: Table) -> TrainingScale:
        """Return how much was trained for a table."""
        frame = table.frame
        return cls(
            data=str(frame["data"].iloc[0]),
            examples=float(frame["train_examples"].max()),
            epochs=float(frame["epochs"].max()),
            params=float(frame["params"].max()),
            rate_left=float((frame["decay"] ** frame["epochs"]).min()),
        )

    def reduction(self, paper: Mapping[str, Any]) -> str:
        """Return in words by how much this is smaller than the paper's spec; empty if it is not."""
        parts = []
        all_examples = full_size(self.data) if self.data == paper["data"] else None
        if all_examples and self.examples < all_examples:
            parts.append(f"{self.examples:,.0f} of {all_examples:,.0f} examples")
        if self.epochs < paper["epochs"]:
            parts.append(f"{self.epochs:.0f} of {paper['epochs']} epochs")
        if self.params < paper["params"]:
            parts.append(f"{_power(self.params)} of {_power(paper['params'])} parameters")
        return ", ".join(parts)

    @property
    def sentence(self) -> str:
        """What the figure shows here: the data, the number of examples and the epochs."""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs:.0f} epochs"
        return f"Here: {title(self.data)}, {self.examples:,.0f} examples, {epochs}."


def what_was_trained(table: Table, reduction: str | None) -> list[Line]:
    """Return what a trained table is based on, one line per fact.

    reduction: by how much it is smaller than the paper's, empty if it is not, None if the paper has no such figure.
    """
    frame, scale = table.frame, TrainingScale.of(table)
    label = table.made.get("scale", "unknown")
    return [
        ("scale", label if reduction is None else f"{label}: {reduction or 'the paper’s own'}"),
        ("data", _data(table, scale)),
        ("runs", endings(frame.drop_duplicates(list(RUN)))),
        ("epochs", f"{scale.epochs:.0f}"),
        *([] if frame["params"].isna().all() else [("parameter limit", listed(frame["params"], ",.0f"))]),
        ("depths", f"{listed(frame['depth'])}, widest layers {_widths(table)}"),
        ("g", listed(frame["gain"])),
        ("λ in, λ out", f"{listed(frame['rate_in'])}; {listed(frame['rate_out'])}"),
        ("weights", ", ".join(sorted(set(frame["weights"])))),
        ("optimizer", ", ".join(sorted(set(frame["optimizer"])))),
        ("clipped", _clipped(table)),
        ("seeds", listed(frame["seed"])),
        *provenance.lines(table),
    ]


def _data(table: Table, scale: TrainingScale) -> str:
    held_out, all_examples = table.frame["test_examples"].max(), full_size(scale.data)
    share = f" of {all_examples:,}" if all_examples and scale.examples < all_examples else ""
    note = f". {table.made['note']}" if "note" in table.made else ""
    return f"{title(scale.data)}: {scale.examples:,.0f}{share} to train on, {held_out:,.0f} held out{note}"


def _clipped(table: Table) -> str:
    limits = listed(table.frame["clip"])
    return f"gradients longer than {limits}: {clipping(table.frame)}" if limits else "no limit"


def _widths(table: Table) -> str:
    narrow, wide = table.frame["width"].min(), table.frame["width"].max()
    return f"{wide:.0f}" if narrow == wide else f"{wide:.0f} to {narrow:.0f}"


def _power(number: float) -> str:
    return f"{number:.2g}".replace("e+0", "e")
