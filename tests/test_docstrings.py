"""Every public function documents its arguments, what it returns and what it raises, with an example that runs."""

import builtins
import dataclasses
import inspect
import re
from enum import Enum
from importlib import import_module

import pytest

MODULES = {"gradwalk": "numpy", "gradwalk.torch": "torch", "gradwalk.jax": "flax", "gradwalk.keras": "keras"}
SECTION = r"^{}:\n((?:    .*\n|\n)+)"


def public(kind):
    """Yield the public objects of a kind, under their full names."""
    for module, needed in MODULES.items():
        pytest.importorskip(needed)
        for name in import_module(module).__all__:
            item = getattr(import_module(module), name)
            if kind(item):
                yield f"{module}.{name}", item


def section(item, name):
    """Return the text of a section of a docstring, without its indentation; "" if there is none."""
    match = re.search(SECTION.format(name), inspect.getdoc(item) + "\n", re.MULTILINE)
    return inspect.cleandoc(match[1]) if match else ""


def entries(item, name):
    """Return the names that a section describes, in its order."""
    return re.findall(r"^(\w+): \S", section(item, name), re.MULTILINE)


def is_record(item):
    has_fields = dataclasses.is_dataclass(item) or hasattr(item, "_fields")
    return inspect.isclass(item) and has_fields and not issubclass(item, Enum)


def fields(record):
    return [each.name for each in dataclasses.fields(record)] if dataclasses.is_dataclass(record) else record._fields


def test_every_argument_of_a_public_function_is_documented_in_order():
    for name, function in public(inspect.isfunction):
        assert entries(function, "Args") == list(inspect.signature(function).parameters), name


def test_every_public_function_documents_what_it_returns_and_has_an_example():
    for name, function in public(inspect.isfunction):
        assert section(function, "Returns"), name
        assert "\n>>> " in inspect.getdoc(function), name


def test_what_is_raised_is_an_exception_that_exists():
    for name, function in public(inspect.isfunction):
        for error in entries(function, "Raises"):
            assert issubclass(getattr(builtins, error), Exception), f"{name}: {error}"


def test_every_field_of_a_public_record_is_documented():
    for name, record in public(is_record):
        assert set(fields(record)) <= set(entries(record, "Attributes")), name


def test_the_first_line_is_a_sentence():
    for name, item in public(lambda item: inspect.isfunction(item) or inspect.isclass(item)):
        first, _, rest = inspect.getdoc(item).partition("\n")
        assert first.endswith("."), name
        assert not rest.partition("\n")[0].strip(), name
