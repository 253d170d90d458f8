"""What the API reference makes of docstrings: doctests, which end a docstring here, become its section of examples."""

import textwrap
from typing import Any

from griffe import Extension, Object


def with_examples(docstring: str) -> str:
    """Return the docstring with its doctests in a section of their own."""
    text, prompt, doctests = docstring.partition("\n>>> ")
    if not prompt:
        return docstring
    return f"{text}\nExamples:\n{textwrap.indent('>>> ' + doctests, '    ')}"


class Doctests(Extension):
    """Moves the doctests of all objects into sections."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = with_examples(obj.docstring.value)
