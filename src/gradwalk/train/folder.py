"""The folder of a training: what was asked for, what it was made with, what came out, and the networks.

config.json      the runs, each by all that determines its result
versions.json    versions and machine
metrics.csv      a row a run and epoch
networks/        a trained network each, as safetensors
checkpoints/     where each run stands, or stood at its end
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gradwalk.data import Dataset
from gradwalk.files import write_atomic
from gradwalk.nets.export import save_network, sequential
from gradwalk.train.checkpoint import Epoch, checkpoint_path, save_state
from gradwalk.train.part import Outcome
from gradwalk.train.run import Run
from gradwalk.versions import machine, versions

_COLUMNS = ("run", *(field.name for field in fields(Epoch)))


class TrainingFolder:
    """A folder for some runs; opened again with the same runs it is gone on with, with others it is refused."""

    def __init__(self, path: Path, runs: Sequence[Run]) -> None:
        self.path, self.runs = path, list(runs)
        asked = {"runs": [run.model_dump() for run in runs]}
        config = path / "config.json"
        if config.exists():
            if _read(config) != asked:
                raise ValueError(
                    f"train: {path} holds another training; choose another folder with --out, or remove it"
                )
        else:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            write_atomic(config, json.dumps(asked, indent=1) + "\n")
        self._metrics = self._measured_before()
        write_atomic(path / "versions.json", json.dumps(versions() | machine(), indent=1) + "\n")

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    def save_end(self, outcome: Outcome, data: Dataset) -> None:
        """Write how a run ended: its last state, and its network unless it diverged."""
        identity = outcome.run.identity(data)
        save_state(checkpoint_path(self.checkpoints, identity), identity, outcome.state)
        if outcome.diverged is None:
            activations = outcome.run.architecture(data).activations
            network = sequential(outcome.state.weights, outcome.state.biases, activations)
            number = self.runs.index(outcome.run) + 1
            save_network(network, activations, self.path / "networks" / f"{number}.safetensors")

    def record(self, run: Run, epoch: Epoch) -> None:
        """Add what was measured to metrics.csv; an epoch that was repeated after an interruption replaces itself."""
        self._metrics[self.runs.index(run) + 1, epoch.epoch] = epoch
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(_COLUMNS)
        table.writerows((number, *each.row) for (number, _), each in sorted(self._metrics.items()))
        write_atomic(self.path / "metrics.csv", text.getvalue())

    def _measured_before(self) -> dict[tuple[int, int], Epoch]:
        path = self.path / "metrics.csv"
        if not path.exists():
            return {}
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        epochs = [(int(row.pop("run")), _epoch(row)) for row in rows]
        return {(number, epoch.epoch): epoch for number, epoch in epochs}


def _epoch(row: dict[str, str]) -> Epoch:
    numbers: dict[str, Any] = {each.name: each.type(row[each.name]) for each in fields(Epoch) if callable(each.type)}
    return Epoch(**numbers)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"train: {path} is damaged ({error}); remove it") from None
