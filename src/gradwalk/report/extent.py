"""How far an experiment went: what a table was trained on, and how that compares with the paper's own."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

import numpy as np

from gradwalk.data import full_size, title
from gradwalk.figures import TRAINED
from gradwalk.figures.table import Table
from gradwalk.figures.trained import spec_text

MNIST, TIMIT = "mnist", "TIMIT"
PAPERS_EPOCHS = 500

# A trained table with less than this tells that the code runs, and nothing about a claim.
LEAST_EXAMPLES, LEAST_EPOCHS = 5_000, 5


@dataclass(frozen=True)
class Extent:
    """The data of a trained table, how many examples there were, the epochs of its runs, and the parameter limit."""

    data: str
    examples: float
    epochs: float
    params: float

    @classmethod
    def of(cls, table: Table) -> Extent:
        """Return how far the runs of a table went; epochs: of the one that went farthest."""
        epochs = table["epoch"][~np.isnan(table["epoch"])]
        return cls(
            data=str(table["data"][0]),
            examples=float(table["train_examples"].max()),
            epochs=float(epochs.max(initial=0.0)),
            params=float(table["params"].max()),
        )

    def too_little(self, *data: str) -> str | None:
        """Return in words why this says nothing about a claim on such data, None where it may."""
        if self.data not in data:
            return f"trained on {title(self.data)}, not on {' or '.join(map(title, data))}"
        if self.examples < LEAST_EXAMPLES:
            return f"only {self.examples:,.0f} examples"
        if self.epochs < LEAST_EPOCHS:
            return f"only {self.epochs:.0f} epochs"
        return None


def reduced(name: str, table: Table) -> str:
    """Return in words by how much an experiment is smaller than the paper's; empty where it is not.

    The paper's parameters and epochs are those of the spec at scale "paper".
    """
    if name not in TRAINED:
        return ""
    found, paper = Extent.of(table), tomllib.loads(spec_text(name, "paper"))
    whole = full_size(found.data)
    less = []
    if whole is not None and found.examples < whole:
        less.append(f"{found.examples:,.0f} of {whole:,.0f} examples")
    if found.epochs < paper["epochs"]:
        less.append(f"{found.epochs:.0f} of {paper['epochs']} epochs")
    if found.params < paper["params"]:
        less.append(f"{_power(found.params)} of {_power(paper['params'])} parameters")
    return ", ".join(less)


def _power(number: float) -> str:
    return f"{number:.2g}".replace("e+0", "e")
