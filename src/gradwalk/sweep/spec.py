"""What a sweep consists of: settings that are a value or a list of values, and the grid of runs that they span.

The keys are those of `gradwalk.train.Run`, whose checks they pass, and `rate`, which is rate_in and rate_out at once.
Each table `[[runs]]` is a grid of its own, in which its keys take the place of the common ones. TOML knows no None:
"none" stands for it, as in clip = "none".
"""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from gradwalk.train import Run, checked_run

RATE = "rate"  # of all layers: rate_in and rate_out at once
KEYS = (*Run.model_fields, RATE)
MOST_RUNS = 100_000
NONE = "none"

_IN_THE_PLACE_OF = {RATE: ("rate_in", "rate_out"), "width": ("params",), "params": ("width",)}

Settings = dict[str, list[Any]]


@dataclass(frozen=True)
class Spec:
    """A sweep: the settings that all runs share, and tables of others, each with the grid that they span.

    deepest, where it is not set, is the greatest depth of all (the paper's D_max).

    >>> spec = Spec.load("depth = [4, 8]\\nrate_in = 1e-3\\nruns = [{activation = 'tanh'}, {activation = 'relu'}]")
    >>> [(run.activation, run.depth, run.deepest) for run in spec.runs()]
    [('tanh', 4, 8), ('tanh', 8, None), ('relu', 4, 8), ('relu', 8, None)]
    """

    name: str | None = None
    common: Settings = field(default_factory=dict)
    tables: tuple[Settings, ...] = ()
    source: str = field(default="sweep", compare=False)  # how its errors begin

    @classmethod
    def load(cls, source: str | Path, overrides: Sequence[str] = ()) -> Spec:
        """Return the spec in a TOML file, or in a text of TOML, with `key=value` settings that prevail over it."""
        if not isinstance(source, Path) and any(sign in source for sign in "=\n"):
            return cls.parse(_parsed("sweep", source)).override(overrides)
        path = Path(source)
        where = f"sweep: {path.name}"
        return cls.parse({"name": path.stem} | _parsed(where, _text(where, path)), where).override(overrides)

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str = "sweep") -> Spec:
        """Return the spec that is written like a TOML file's content: `name`, `runs` (a list of tables) and settings.

        >>> Spec.parse({"depth": 4, "runs": [{"activation": "tanh"}, {"activation": "relu", "gain": [1.4, 1.5]}]}).count
        3
        """
        rest = dict(content)
        name, tables = rest.pop("name", None), rest.pop("runs", [])
        if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise ValueError(f"{where}: name must be a line of text, got name={name!r}")
        if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
            raise ValueError(f"{where}: runs must be tables, each under a line [[runs]]")
        spec = cls(name, _listed(where, rest), tuple(_listed(where, table) for table in tables), where)
        spec._check()
        return spec

    def override(self, settings: Sequence[str]) -> Spec:
        """Return the spec in which these `key=value` settings stand for all runs; the values are TOML or bare words."""
        if not settings:
            return self
        given = _listed("sweep", dict(map(_assignment, settings)))
        tables = tuple(_left(table, given) for table in self.tables)
        changed = replace(self, common=_left(self.common, given) | given, tables=tables)
        changed._check()
        return changed

    def runs(self) -> list[Run]:
        """Return the runs, each once, in the order of the spec: the last key varies fastest."""
        return list(self._runs)

    @cached_property
    def _runs(self) -> tuple[Run, ...]:
        deepest = max(depth for grid in self._grids() for depth in grid.get("depth", [_default("depth")]))
        found = (_run(self.source, settings, deepest) for grid in self._grids() for settings in _product(grid))
        return tuple(dict.fromkeys(found))

    @property
    def count(self) -> int:
        """The number of runs, those that are named twice included."""
        return sum(math.prod(map(len, grid.values())) for grid in self._grids())

    def toml(self) -> str:
        """Return the text of a TOML file that loads as this spec."""
        lines = [] if self.name is None else [f"name = {_value(self.name)}"]
        lines += _lines(self.common)
        for table in self.tables:
            lines += ["", "[[runs]]", *_lines(table)]
        return "\n".join(lines) + "\n"

    def _grids(self) -> list[Settings]:
        return [_left(self.common, table) | table for table in self.tables] or [self.common]

    def _check(self) -> None:
        if self.count > MOST_RUNS:
            raise ValueError(f"{self.source}: the grid has {self.count:,} runs, and {MOST_RUNS:,} is the most")
        self.runs()


def _text(where: str, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not a text: {error}") from None


def _parsed(where: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: not TOML: {error}") from None


def _listed(where: str, table: Mapping[str, Any]) -> Settings:
    """Return each setting as the list of its values, checked one by one."""
    found = {}
    for key, value in table.items():
        if key not in KEYS:
            raise ValueError(f"{where}: {key} is no setting{_hint(key)}")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError(f"{where}: {key} must have at least one value, got {key}=[]")
        found[key] = [_checked(where, key, each) for each in values]
    return found


def _checked(where: str, key: str, value: object) -> Any:
    """Return the value as a run has it; `deepest` is checked against the depth later, with each run."""
    kind = str(Run.model_fields["rate_in" if key == RATE else key].annotation)
    if value is None or (value == NONE and "None" in kind):
        value = None
    elif isinstance(value, bool) and "bool" not in kind:
        raise ValueError(f"{where}: {key} must not be true or false, got {key}={str(value).lower()}")
    settings = _rates({"depth": 2, key: value})
    return getattr(checked_run(where, **settings), "rate_in" if key == RATE else key)


def _left(settings: Settings, given: Settings) -> Settings:
    """Return the settings whose place none of those given takes."""
    taken = {each for key in given for each in (key, *_IN_THE_PLACE_OF.get(key, ()))}
    return {key: values for key, values in settings.items() if key not in taken}


def _rates(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with rate_in and rate_out where they have a rate of all layers."""
    if RATE not in settings:
        return settings
    rest = {key: value for key, value in settings.items() if key != RATE}
    return {"rate_in": settings[RATE], "rate_out": settings[RATE]} | rest


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, (*KEYS, "name", "runs"), n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(KEYS)}"


def _assignment(text: str) -> tuple[str, Any]:
    """Return key and value of `key=value`; what is no TOML value counts as a bare word, as in data=digits."""
    key, _, value = (part.strip() for part in text.partition("="))
    if not key or not value:
        raise ValueError(f"sweep: a setting is written key=value, got {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        if value[0] in "[{\"'":
            raise ValueError(f"sweep: {key} has a value that cannot be read, got {text!r}") from None
        return key, value


def _product(grid: Settings) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _run(where: str, settings: dict[str, Any], deepest: int) -> Run:
    """Return a run; `deepest` is left out where it changes nothing, so that specs of other depths share the run."""
    beside = [key for key in _IN_THE_PLACE_OF[RATE] if RATE in settings and key in settings]
    if beside:
        raise ValueError(f"{where}: rate stands for rate_in and rate_out, and cannot be beside {beside[0]}")
    run = checked_run(where, **{"deepest": deepest} | _rates(settings))
    if run.deepest == run.depth or run.rate_in == run.rate_out:
        run = run.model_copy(update={"deepest": None})
    return run


def _default(key: str) -> Any:
    return Run.model_fields[key].default


def _lines(settings: Settings) -> list[str]:
    return [f"{key} = {_value(values[0] if len(values) == 1 else values)}" for key, values in settings.items()]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if value is None:
        return f'"{NONE}"'
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
