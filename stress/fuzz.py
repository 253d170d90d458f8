"""Call the public functions and the command line with random arguments: each answer is right, or one sentence.

    python stress/fuzz.py [--calls 100000] [--first 0] [--seed 0]

A finding is an answer that is wrong, an exception of another class than ValueError, TypeError, OSError or
ModuleNotFoundError, a message of more than one line or without the name of what raised it, a call of more than 20
seconds of processor time, or one that takes more than 1 GB. Each call depends on the seed and its number alone, so that
`--first NUMBER --calls 1` repeats one of them, and parts of a run can be made in several processes. The exit code is 1
if there is a finding.
"""

import argparse
import contextlib
import io
import os
import random
import re
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing import values as v
from fuzzing.targets import FOLDER, TARGETS, Target

from gradwalk import cli
from gradwalk.activations import FAMILIES

SECONDS, BYTES = 20.0, 1_000_000_000
DOCUMENTED = (ValueError, TypeError, OSError, ModuleNotFoundError)
# What raised it, and what must hold; or what the operating system says of a file.
SENTENCE = re.compile(r"[\w<>][^\n:]{0,80}: [^\n]+|\[Errno \d+\] [^\n]+")
COMMANDS = 0.05  # share of the calls that are command lines

WORDS: dict[str, tuple[str, ...]] = {
    "gain": (
        "relu",
        "tanh",
        "gelu*2",
        "--width",
        "--depth",
        "--weights",
        "orthogonal",
        "--formula",
        "paper",
        "--json",
        "5",
        "8,4",
        "0",
    ),
    "walk": (
        "relu",
        "linear",
        "--width",
        "--depth",
        "--gain",
        "--walks",
        "--json",
        "4",
        "7",
        "1.2",
        "--method",
        "dense",
    ),
    "directions": ("relu", "linear@0.5", "--width", "--depth", "--networks", "--gain", "--json", "4", "9", "nan", "0"),
    "advise": ("relu", "leaky_relu(0.2)", "--width", "--depth", "--directions", "--json", "4", "9", "-1", "2.5"),
    "activations": ("--help", "x"),
    "data": ("list", "where", "fetch", "cifar", "--from", "/nowhere", ""),
    "train": (
        "--device",
        "foo",
        "--data",
        "digits",
        "--depth",
        "3",
        "--params",
        "--gain",
        "1.0,1.1",
        "--optimizer",
        "adam(",
        "--out",
        "",
    ),
    "sweep": (
        "status",
        "export",
        "plot",
        str(FOLDER / "damaged"),
        str(FOLDER),
        "--to",
        "x.xls",
        "--out",
        "x.gif",
        "--json",
    ),
    "reproduce": ("fig9", "--print-spec", "--scale", "huge", "fig3", "--out", ""),
}


# Nothing is to be trained.
NOTHING = {"train": ["--device", "foo"], "sweep": ["--device", "foo"], "reproduce": ["--scale", "none"]}


class Slow(BaseException):
    """A call took too long."""


def main() -> int:
    """Make the calls, print the findings as they come and the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.calls)
    outcomes = fuzz(numbers, given.seed)
    print(", ".join(f"{name}: {count}" for name, count in outcomes.most_common()))
    print(f"{len(numbers):,} calls, {outcomes['finding']:,} findings, seed {given.seed}")
    return min(outcomes["finding"], 1)


def fuzz(numbers: Any, seed: int) -> Counter[str]:
    """Make these calls, and return how many were answered, refused, or a finding."""
    FOLDER.mkdir(exist_ok=True)
    os.chdir(FOLDER)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    for done, number in enumerate(numbers):
        finding = call(number, seed, outcomes)
        if finding is not None:
            outcomes["finding"] += 1
            print(f"call {number}: {finding}"[:600], flush=True)
        if done and done % 5000 == 0:
            print(f"{done:,} calls in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return outcomes


def call(number: int, seed: int, outcomes: Counter[str]) -> str | None:
    """Make one call, and return what is wrong with its answer."""
    chance = random.Random(f"{seed}:{number}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    described, finding = command(chance, outcomes) if chance.random() < COMMANDS else function(chance, outcomes)
    if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > BYTES:
        finding = "took more than 1 GB"
    return finding and f"{described} {finding}"


def function(chance: random.Random, outcomes: Counter[str]) -> tuple[str, str | None]:
    """Call a function with random arguments; return the call in words, and what is wrong with its answer."""
    (target,) = chance.choices(TARGETS, [target.weight for target in TARGETS])
    odd = 0.0 if target.typed else chance.choice((0.0, 0.1, 0.5))
    makers = {
        name: chance.choice(v.ODD) if chance.random() < odd else maker for name, maker in target.arguments.items()
    }
    arguments = {name: maker(chance) for name, maker in makers.items()}
    described = f"{target.name}({', '.join(f'{name}={brief(value)}' for name, value in arguments.items())})"
    known = set(FAMILIES.registered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described, answer(target, arguments, outcomes)
        finally:
            for name in set(FAMILIES.registered) - known:  # so that no call depends on those before it
                FAMILIES.remove(name)


def answer(target: Target, arguments: dict[str, Any], outcomes: Counter[str]) -> str | None:
    """Call a function, and return what is wrong with its answer."""
    try:
        with limited():
            result = target.call(**arguments)
    except Slow:
        return f"took more than {SECONDS:.0f} s"
    except DOCUMENTED as error:
        outcomes["refused"] += 1
        message = str(error)
        return None if SENTENCE.fullmatch(message) else f"raised {type(error).__name__}: {message!r}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    try:
        target.check(arguments, result)
    except Exception as error:
        return f"is wrong, {type(error).__name__}: {error}"
    outcomes["answered"] += 1
    return None


def command(chance: random.Random, outcomes: Counter[str]) -> tuple[str, str | None]:
    """Run a command line of random words; return it, and what is wrong with how it ended."""
    name = chance.choice(list(WORDS))
    words = [v.mutated(v.one_of(*WORDS[name]))(chance) for _ in range(chance.randint(0, 6))]
    words += NOTHING.get(name, [])
    output, errors = io.StringIO(), io.StringIO()
    described = f"gradwalk {' '.join(map(repr, [name, *words]))}"
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), limited():
            cli.main([name, *words])
    except Slow:
        return described, f"took more than {SECONDS:.0f} s"
    except SystemExit as ended:
        outcomes[f"exit {ended.code}"] += 1
        lines = errors.getvalue().splitlines()
        told = ended.code != 2 or (len(lines) == 1 and lines[0].startswith("gradwalk: ") and lines[0].isprintable())
        return described, None if ended.code in (0, 1, 2) and told else f"ended with {ended.code}, {lines}"
    except Exception as error:
        return described, f"raised {type(error).__name__}: {error}"
    return described, "did not exit"


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `Slow` in what takes more processor time than it may."""

    def stop(*_: object) -> None:
        raise Slow

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def brief(value: object) -> str:
    """Return a value in a few characters."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a huge {type(value).__name__}"
    return text if len(text) < 60 else f"{text[:50]}...{len(text)}"


if __name__ == "__main__":
    sys.exit(main())
