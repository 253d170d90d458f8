"""The command line. Invalid input is reported in one line on stderr, with exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, NoReturn

import gradwalk
from gradwalk.cli.show import fail, fail_interrupted
from gradwalk.interrupts import Interrupts

if TYPE_CHECKING or find_spec("typer") is not None:  # main() reports what to install
    import typer

_EXTRAS = {"torch": "torch", "ray": "ray", "pyarrow": "parquet", "jax": "jax", "keras": "keras"}
_TRACEBACK = "GRADWALK_TRACEBACK"
_NEEDED = ("typer", "rich", "matplotlib", "jinja2")
_COMMANDS = {  # the module and the function of each command, or the function that returns the commands of a group
    "gain": "gain.gain",
    "walk": "walk.walk",
    "train": "train.train",
    "reproduce": "reproduce.reproduce",
    "explorer": "explorer.explorer",
    "directions": "directions.directions",
    "advise": "directions.advise",
    "activations": "gain.list_activations",
    "data": "data.data_commands",
    "sweep": "sweep.sweep_commands",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with 0, with 2 after invalid input, or with 130 after Ctrl-C."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        fail(f"the command line needs {' and '.join(missing)}: pip install 'gradwalk[experiments]'")
    interrupts = Interrupts()
    if arguments is None:  # a program of its own, which need not restore the handlers
        interrupts.install()
        _run(None)
    with interrupts.caught():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> NoReturn:
    """Run a command and exit; every error that a user can cause is one line."""
    try:
        words = sys.argv[1:] if arguments is None else arguments
        status = app(words)(args=arguments, prog_name="gradwalk", standalone_mode=False)
    except (ValueError, TypeError) as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        fail(_missing_extra(error))
    except OSError as error:
        fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        fail_interrupted("interrupted")
    except Exception as error:
        if isinstance(error, typer.Abort):
            fail_interrupted("interrupted")
        fail(*_message(error))
    if status == 130:  # Typer's status after Ctrl-C
        fail_interrupted("interrupted")
    sys.exit(status if isinstance(status, int) else 0)


def _missing_extra(error: ModuleNotFoundError) -> str:
    """Return what to install for a module that is missing."""
    if "pip install" in str(error):
        return str(error)
    top = (error.name or "").split(".")[0]
    return f"this needs {top}: pip install 'gradwalk[{_EXTRAS.get(top, 'experiments')}]'"


def _message(error: Exception) -> tuple[str, int]:
    """Return the message of a usage error, or that of an error that should not have happened, and the exit code."""
    from gradwalk.cli.command import in_options

    if hasattr(error, "format_message"):  # usage errors of Typer, of whichever click it bundles
        return in_options(error.format_message(), {}), 2
    if os.environ.get(_TRACEBACK):
        raise error
    what = f"{type(error).__name__}: {error}"
    return f"an error that should not happen, {what}; set {_TRACEBACK}=1 to see where, and please report it", 1


def app(words: Sequence[str] = ()) -> typer.Typer:
    """Return the Typer application with all commands, or with the only one that a command line needs.

    words: of the command line. To import the modules of the other commands would take a quarter of a second.
    """
    from gradwalk.cli.command import Command, Group

    build = typer.Typer(name="gradwalk", cls=Group, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    build.callback(invoke_without_command=True)(root)
    first = words[0] if words else None
    for name in [first] if first in _COMMANDS else _COMMANDS:
        module, function = _COMMANDS[name].split(".")
        command = getattr(import_module(f"gradwalk.cli.{module}"), function)
        if function.endswith("_commands"):
            build.add_typer(command(), name=name)
        else:
            build.command(name, cls=Command)(command)
    return build


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Initial weights that keep gradients alive in very deep networks.

    Examples:

    `gradwalk gain relu --width 100`

    `gradwalk walk tanh --width 100 --depth 200 --out walk.png`

    `gradwalk train --data digits --depth 64 --params 1e5 --epochs 5 --out digits-64`

    `gradwalk reproduce fig1 --out figures`

    `gradwalk explorer --out explorer.html`
    """
    if version:
        print(f"gradwalk {gradwalk.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
