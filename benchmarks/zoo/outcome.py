"""What the records of a case come to: medians, the ratio, pass or fail, and verdicts."""

import math
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from zoo.case import Case
from zoo.store import Key, Store
from zoo.training import Record

SEEDS = (0, 1, 2)
LIMIT = 1.1  # the largest ratio of losses that counts as no harm
TRAINS = 0.9  # of the first loss, below which a model is said to train
FAULTS = ("exploding", "vanishing", "broken")


@dataclass(frozen=True)
class Training:
    """The losses of a case from both initializations; error, warnings: of `init_`, of the first seed that has one."""

    parameters: int
    drawn: int
    left: int
    first: float
    own: tuple[float, ...]
    init: tuple[float, ...]
    error: str
    warnings: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The median loss after `init_` over that from the model's own initialization."""
        return statistics.median(self.init) / statistics.median(self.own) if self.init else float("nan")

    @property
    def spread(self) -> float:
        """The largest over the smallest loss of the seeds, from the model's own initialization."""
        return max(self.own) / min(self.own) if min(self.own) > 0 else float("inf")

    @property
    def passes(self) -> bool:
        """Whether `init_` does no harm; an error is not harm to the model, but no pass either."""
        return bool(self.init) and (self.ratio <= LIMIT or statistics.median(self.init) <= max(self.own))

    @property
    def trains(self) -> bool:
        """Whether the model trains from its own initialization."""
        return statistics.median(self.own) < TRAINS * self.first


@dataclass(frozen=True)
class Verdicts:
    """The status that `probe` gives in the model's own initialization, per seed, and with one layer scaled."""

    own: tuple[str, ...]
    scaled: dict[str, str]

    @property
    def calm(self) -> bool:
        """Whether no seed is called faulty in the model's own initialization."""
        return not any(status in (*FAULTS, "error") for status in self.own)

    @property
    def noticed(self) -> int:
        """How many of the scaled models are called faulty."""
        return sum(status in FAULTS for status in self.scaled.values())


@dataclass(frozen=True)
class Outcome:
    """What is known of a case, None where nothing is; a case under way has fewer seeds."""

    case: Case
    training: Training | None
    verdicts: Verdicts | None

    def numbers(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        case = {"model": self.case.name, "kind": self.case.kind, "package": self.case.release}
        if self.training:
            case |= {**asdict(self.training), "ratio": self.training.ratio, "spread": self.training.spread}
            case |= {"passes": self.training.passes, "trains": self.training.trains}
        if self.verdicts:
            case |= {"probe_own": self.verdicts.own, "probe_scaled": self.verdicts.scaled}
        return {name: _plain(value) for name, value in case.items()}


def _plain(value: Any) -> Any:
    """Return a value with None for numbers that are not finite, which JSON lacks."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def outcome(case: Case, store: Store) -> Outcome:
    """Return the outcome of a case from its records."""
    own, init, probe = (_records(case, store, what) for what in ("own", "init", "probe"))
    return Outcome(case, _training(own, init), _verdicts(probe))


def outcome_with_loss(case: Case, store: Store) -> Outcome:
    """Return the outcome of training after an `init_` that was given the loss."""
    own, init = (_records(case, store, what) for what in ("own", "loss"))
    return Outcome(case, _training(own, init), None)


def _records(case: Case, store: Store, what: str) -> list[Record | None]:
    return [store.get(Key.of(case, seed, what)) for seed in SEEDS]


def _training(own: list[Record | None], init: list[Record | None]) -> Training | None:
    pairs = [(a, b) for a, b in zip(own, init, strict=True) if a and b]
    if not pairs:
        return None
    before, after = zip(*pairs, strict=True)
    return Training(
        parameters=before[0]["parameters"],
        drawn=after[0].get("drawn", 0),
        left=after[0].get("left", 0),
        first=statistics.median(each["first"] for each in before),
        own=tuple(each["loss"] for each in before),
        init=tuple(each["loss"] for each in after if "loss" in each),
        error=next((each["error"] for each in after if "error" in each), ""),
        warnings=tuple(next((each["warnings"] for each in after if each.get("warnings")), ())),
    )


def _verdicts(probe: list[Record | None]) -> Verdicts | None:
    records = [each for each in probe if each]
    if not records:
        return None
    scaled = {place: each["status"] for place, each in records[0].items() if place != "own"}
    return Verdicts(tuple(each["own"]["status"] for each in records), scaled)
