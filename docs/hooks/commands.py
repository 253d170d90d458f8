"""Write the command reference from the commands themselves, when the site is built."""

import html
from collections.abc import Iterator
from typing import Any

from typer import Context
from typer.main import get_command

from gradwalk.cli import app

PLACE = "COMMANDS"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the place that the page reserves for them."""
    return markdown.replace(PLACE, reference()) if PLACE in markdown.splitlines() else markdown


def reference() -> str:
    """Return the reference as Markdown: one section per command."""
    return "\n".join(sections(get_command(app()), "gradwalk"))


def sections(command: Any, name: str) -> Iterator[str]:
    """Yield the sections of a command and of its subcommands."""
    yield f"## {name}\n\n{usage(command, name)}\n{described(command)}\n{table(command)}"
    for word, subcommand in getattr(command, "commands", {}).items():
        if not subcommand.hidden:
            yield from sections(subcommand, f"{name} {word}")


def described(command: Any) -> str:
    """Return the help of a command, in which a paragraph that is one command becomes code, with those after it."""
    paragraphs = [paragraph.strip() for paragraph in (command.help or "").replace("\f", "").split("\n\n")]
    text = "\n\n".join(block(paragraph) if is_command(paragraph) else paragraph for paragraph in paragraphs)
    return text.replace("\n```\n\n```sh\n", "\n") + "\n"


def is_command(paragraph: str) -> bool:
    """Return whether a paragraph is a command in backticks."""
    return paragraph.startswith("`gradwalk") and paragraph.endswith("`") and paragraph.count("`") == 2


def block(paragraph: str) -> str:
    """Return a command as a block of code, on one line."""
    return f"```sh\n{' '.join(paragraph.strip('`').split())}\n```"


def usage(command: Any, name: str) -> str:
    """Return the line that shows how a command is typed."""
    context = Context(command, info_name=name)
    return f"```text\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```\n"


def table(command: Any) -> str:
    """Return the arguments and options as a table."""
    context = Context(command)
    rows = [record for each in command.params if (record := each.get_help_record(context))]
    lines = [f"| <code>{html.escape(name).replace('|', '&#124;')}</code> | {cell(text)} |" for name, text in rows]
    return "\n".join(["| argument or option | meaning |", "|---|---|", *lines, ""]) if rows else ""


def cell(text: str) -> str:
    """Return a text on one line, safe inside a table."""
    return " ".join(text.split()).replace("|", "\\|")
