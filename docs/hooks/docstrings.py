"""What the API reference reads differently: doctests, and functions that bear the name of their module."""

import textwrap
from typing import Any

from griffe import Alias, Extension, Module, Object


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


class Namesakes(Extension):
    """Shows the function where a package exports one that bears the name of its module, as `gradwalk.torch.probe`."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Let the names that packages export stand for what is imported."""
        for package in (pkg, *pkg.modules.values()):
            for name in package.exports or ():
                module = package.modules.get(str(name))
                if module is not None and str(name) in module.members:
                    package.members[str(name)] = Alias(str(name), module.members[str(name)], parent=package)
