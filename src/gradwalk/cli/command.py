"""Commands whose flags show no type in their help, and whose errors name options instead of arguments of functions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from typer.core import TyperCommand, TyperGroup

import gradwalk

_PHRASES = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "a whole number is needed",
    "Input should be a valid number, unable to parse string as a number": "a number is needed",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
}


class Command(TyperCommand):
    """A command of gradwalk."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; flags without a type."""
        return [_without_type(param) for param in super().get_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of a function is raised in the terms of the command line."""
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError) as error:
            raise ValueError(self._in_options(error)) from error
        except FileNotFoundError as error:
            if error.filename is not None:
                raise
            raise FileNotFoundError(self._in_options(error)) from error

    def _in_options(self, error: Exception) -> str:
        return in_options(str(error), {param.name: _typed(param) for param in self.params if param.name})


class Group(TyperGroup):
    """A group of commands of gradwalk."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; flags without a type."""
        return [_without_type(param) for param in super().get_params(ctx)]


def in_options(message: str, options: Mapping[str, str]) -> str:
    """Return the message of a function with its arguments as options, and a suggestion for a misspelt value.

    >>> in_options("gain: width must be at least 1, got width=0", {"width": "--width"})
    '--width must be at least 1, got --width 0'
    >>> in_options("reproduce: scale must be 'quick' or 'laptop', got scale='lptop'", {"scale": "--scale"})
    "--scale must be 'quick' or 'laptop', got --scale 'lptop'; did you mean 'laptop'?"
    """
    words = _without_function(message)
    for phrase, plain in _PHRASES.items():
        words = words.replace(phrase, plain)
    for name, option in options.items():
        words = re.sub(rf"\bpass {name}=", f"pass {option}", words)
        words = re.sub(rf"\b{name}=(?=\S)", f"{option} ", words)
        words = re.sub(rf"(?<![\w-]){name}(?= must | is missing| is for | sets )", option, words)
        if "_" in name:  # no English word
            words = re.sub(rf"(?<![\w-]){name}\b", option, words)
    return suggested(words)


def suggested(message: str) -> str:
    """Return a message with the nearest of the values that it lists, if the value it quotes last is close to one.

    >>> suggested("Invalid value for '--weights': 'gausian' is not one of 'gaussian', 'orthogonal'.")
    "Invalid value for '--weights': 'gausian' is not one of 'gaussian', 'orthogonal'; did you mean 'gaussian'?"
    """
    if "did you mean" in message.lower():
        return message
    refused = re.search(r"'(?P<value>[^']*)' is not one of (?P<choices>.*)", message)
    listed = refused or re.search(r"must be (?P<choices>.*), got .*'(?P<value>[^']*)'$", message)
    if listed is None:
        return message
    value, choices = listed["value"], listed["choices"]
    close = difflib.get_close_matches(value.lower(), _quoted(choices), n=1)
    return f"{message.rstrip('.')}; did you mean '{close[0]}'?" if close else message


def _quoted(text: str) -> Iterable[str]:
    return re.findall(r"['\"]([^'\"]+)['\"]", text)


def _without_function(message: str) -> str:
    """Return a message without the names of functions and modules of gradwalk that it begins with."""
    while (first := re.match(r"(\w+): ", message)) and _is_ours(first[1]):
        message = message[first.end() :]
    return message


def _is_ours(name: str) -> bool:
    return name in (*gradwalk.__all__, "fetch", "plot", "walk") or find_spec(f"gradwalk.{name}") is not None


def _typed(param: Any) -> str:
    """Return a parameter as it is typed: its longest option, or the name of an argument."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name.upper())


def _without_type(param: Any) -> Any:
    if getattr(param, "is_flag", False):
        param.display_type_rich = lambda ctx: None
    return param
