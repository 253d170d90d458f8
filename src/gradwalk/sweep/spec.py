"""The specification of a sweep: settings with one value or a list of values, and the grid of runs they span.

The keys are those of `gradwalk.train.Run`, which validates them, and `rate`, which sets rate_in and rate_out at once.
Each `[[runs]]` table is a grid of its own, in which its keys override the common ones. TOML has no None: "none" stands
for it, as in clip = "none".
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any

import tomli_w

from gradwalk import checks
from gradwalk.sweep.fields import value_types
from gradwalk.train import Run, checked_run

RATE = "rate"  # sets rate_in and rate_out at once
KEYS = (*Run.model_fields, RATE)
MOST_RUNS = 100_000
NONE = "none"
_MARK = "\ufeff"  # with which some editors begin a file
_LARGEST_FILE = 10_000_000  # bytes
_LONGEST_KEY = 50

_REPLACES = {RATE: ("rate_in", "rate_out"), "width": ("params",), "params": ("width",)}

Settings = dict[str, list[Any]]


@dataclass(frozen=True)
class Spec:
    """A sweep: settings that all runs share, and tables of further settings, each of which spans a grid.

    Unless it is set, `deepest` (the paper's D_max) is the greatest depth of all runs.

    >>> spec = Spec.load("depth = [4, 8]\\nrate_in = 1e-3\\nruns = [{activation = 'tanh'}, {activation = 'relu'}]")
    >>> [(run.activation, run.depth, run.deepest) for run in spec.runs()]
    [('tanh', 4, 8), ('tanh', 8, None), ('relu', 4, 8), ('relu', 8, None)]
    """

    name: str | None = None
    common: Settings = field(default_factory=dict)
    tables: tuple[Settings, ...] = ()
    source: str = field(default="sweep", compare=False)  # the beginning of its error messages

    @classmethod
    def load(cls, source: str | Path, overrides: Sequence[str] = ()) -> Spec:
        """Return the spec in a TOML file or in TOML text, with `key=value` settings that override it."""
        if not isinstance(source, str | Path):
            raise TypeError(f"sweep: a spec is a path or a text, got {checks.shown(source)}")
        if not isinstance(source, Path) and any(sign in source for sign in "=\n"):
            return cls.parse(_parsed("sweep", source)).override(overrides)
        path = Path(source)
        where = f"sweep: {path.name.encode(errors='replace').decode()}"
        return cls.parse({"name": path.stem} | _parsed(where, _text(where, path)), where).override(overrides)

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str = "sweep") -> Spec:
        """Return the spec with the content of a TOML file: `name`, `runs` (a list of tables) and settings.

        >>> Spec.parse({"depth": 4, "runs": [{"activation": "tanh"}, {"activation": "relu", "gain": [1.4, 1.5]}]}).count
        3
        """
        if not isinstance(content, Mapping):
            raise TypeError(f"{where}: a spec is a table of settings, got {checks.shown(content)}")
        rest = dict(content)
        name, tables = rest.pop("name", None), rest.pop("runs", [])
        if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise ValueError(f"{where}: name must be one line of text, got name={name!r}")
        if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
            raise ValueError(f"{where}: runs must be tables, each written as [[runs]]")
        spec = cls(name, _listed(where, rest), tuple(_listed(where, table) for table in tables), where)
        spec._check()
        return spec

    def override(self, settings: Sequence[str]) -> Spec:
        """Return the spec with these `key=value` settings for all runs; the values are TOML or bare words."""
        if isinstance(settings, str) or not isinstance(settings, Sequence):
            raise TypeError(f"sweep: settings must be a list of texts key=value, got {checks.shown(settings)}")
        if not settings:
            return self
        given = _listed("sweep", dict(map(_assignment, settings)))
        tables = tuple(_without(table, given) for table in self.tables)
        changed = replace(self, common=_without(self.common, given) | given, tables=tables)
        changed._check()
        return changed

    def runs(self) -> list[Run]:
        """Return the distinct runs, in the order of the spec; the last key varies fastest."""
        return list(self._runs)

    @cached_property
    def _runs(self) -> tuple[Run, ...]:
        deepest = max(depth for grid in self._grids() for depth in grid.get("depth", [_default("depth")]))
        runs = (_run(self.source, settings, deepest) for grid in self._grids() for settings in _product(grid))
        return tuple(dict.fromkeys(runs))

    @property
    def count(self) -> int:
        """The number of runs, with repetitions."""
        return sum(math.prod(map(len, grid.values())) for grid in self._grids())

    def toml(self) -> str:
        """Return the text of a TOML file that loads as this spec."""
        content = {"name": self.name} if self.name is not None else {}
        tables = [_plain(table) for table in self.tables]
        return tomli_w.dumps(content | _plain(self.common) | ({"runs": tables} if tables else {}))

    def _grids(self) -> list[Settings]:
        return [_without(self.common, table) | table for table in self.tables] or [self.common]

    def _check(self) -> None:
        if self.count > MOST_RUNS:
            raise ValueError(f"{self.source}: the grid must have at most {MOST_RUNS:,} runs, got {self.count:,}")
        self.runs()


def _text(where: str, path: Path) -> str:
    try:
        size = path.stat().st_size
    except ValueError as error:  # a name that no file can have
        raise ValueError(f"{where}: not a path: {error}") from None
    if size > _LARGEST_FILE:
        raise ValueError(f"{where}: a spec must have at most {_LARGEST_FILE:,} bytes, got {size:,}")
    try:
        return path.read_text("utf-8-sig")  # some editors begin a file with a mark of its encoding
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 text: {error}") from None


def _parsed(where: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(_MARK))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{where}: not a spec: its tables or lists are nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python converts
        raise ValueError(f"{where}: not TOML: {error}") from None


def _listed(where: str, table: Mapping[str, Any]) -> Settings:
    """Return each setting as the list of its values, validated one by one."""
    settings = {}
    for key, value in table.items():
        if key in ("name", "runs"):
            raise ValueError(f"{where}: {key} must stand at the top of a spec, and once")
        if key not in KEYS:
            raise ValueError(f"{where}: there is no setting {key!r}{_hint(key)}")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError(f"{where}: {key} must have at least one value, got {key}=[]")
        settings[key] = [_checked(where, key, item) for item in values]
    return settings


def _checked(where: str, key: str, value: object) -> Any:
    """Return the value as a run holds it; `deepest` is checked against the depth later, with each run."""
    types = value_types(Run.model_fields["rate_in" if key == RATE else key].annotation)
    if value is None or (isinstance(value, str) and value == NONE and NoneType in types):
        value = None
    elif isinstance(value, bool) and bool not in types:
        raise ValueError(f"{where}: {key} must not be true or false, got {key}={str(value).lower()}")
    settings = _rates({"depth": 2, key: value})
    return getattr(checked_run(where, **settings), "rate_in" if key == RATE else key)


def _without(settings: Settings, given: Settings) -> Settings:
    """Return the settings that none of the given ones replaces."""
    replaced = {name for key in given for name in (key, *_REPLACES.get(key, ()))}
    return {key: values for key, values in settings.items() if key not in replaced}


def _rates(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with `rate` expanded to rate_in and rate_out."""
    if RATE not in settings:
        return settings
    rest = {key: value for key, value in settings.items() if key != RATE}
    return {"rate_in": settings[RATE], "rate_out": settings[RATE]} | rest


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key[:_LONGEST_KEY], (*KEYS, "name", "runs"), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(KEYS)}"


def _assignment(text: str) -> tuple[str, Any]:
    """Return the key and the value of `key=value`."""
    if not isinstance(text, str):
        raise TypeError(f"sweep: a setting is written key=value, got {checks.shown(text)}")
    key, _, value = (part.strip() for part in text.partition("="))
    if not key or not value:
        raise ValueError(f"sweep: a setting is written key=value, got {text!r}")
    try:
        return key, parse_value(value)
    except (ValueError, RecursionError):
        name = " ".join(key.split())
        raise ValueError(f"sweep: {name} has an invalid value, got {checks.shown(text)}") from None


def parse_value(text: str) -> Any:
    """Return the value of a TOML expression; anything else is a bare word, as in data=digits.

    >>> parse_value("1e-3"), parse_value("[1, 2]"), parse_value("digits")
    (0.001, [1, 2], 'digits')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        if text[:1] in "[{\"'":
            raise
        return text


def _product(grid: Settings) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _run(where: str, settings: dict[str, Any], deepest: int) -> Run:
    """Return a run; `deepest` is None where it has no effect, so that specs of other depths share the run."""
    beside = [key for key in _REPLACES[RATE] if RATE in settings and key in settings]
    if beside:
        raise ValueError(f"{where}: rate sets rate_in and rate_out, and cannot be combined with {beside[0]}")
    run = checked_run(where, **{"deepest": deepest} | _rates(settings))
    if run.deepest == run.depth or run.rate_in == run.rate_out:
        run = run.model_copy(update={"deepest": None})
    return run


def _default(key: str) -> Any:
    return Run.model_fields[key].default


def _plain(settings: Settings) -> dict[str, Any]:
    """Return the settings as they are written in TOML."""
    listed = {key: [NONE if value is None else value for value in values] for key, values in settings.items()}
    return {key: values[0] if len(values) == 1 else values for key, values in listed.items()}
