"""Flip random bits of checkpoints, of a store and of archives: the numbers must stay right, or an error must be told.

    python stress/flips.py [--flips 200] [--seed 0]

Each flip is of one bit of an intact file. "told" counts flips that were reported by an error or a warning, "harmless"
those after which every number was the same and nothing was reported, as in unused parts of a file, and "SILENT" those
that changed a number, or lost an example, without a word. The exit code is 1 if there is a silent one.
"""

import argparse
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.interrupt import InterruptAt
from helpers.small_sweep import WITH_DIVERGED, numbers
from helpers.toy_speech import pack, sample_files, tape

from gradwalk.data import Datasets, corpus, timit
from gradwalk.sweep import Spec, Store, run_sweep, status
from gradwalk.sweep.folder import STORE
from gradwalk.train import Outcome, Run, train

# Enough epochs that an interrupt in the first is noticed before the last.
RUN = Run(data="digits", examples=200, depth=4, params=2e3, epochs=100, measure_every=25, gain=1.1, optimizer="adam")
DATASETS = Datasets()
Outcomes = Counter[str]


def flipped(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one random bit changed."""
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def judged(attempt: Callable[[], Any], expected: Any) -> str:
    """Return how an attempt to read a flipped file ended: "told", "harmless" or "SILENT"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = attempt()
        except (ValueError, OSError) as error:
            return "told" if "\n" not in str(error) and str(error) else "SILENT"
    if result != expected:
        return "SILENT"
    return "told" if caught else "harmless"


def untimed(outcome: Outcome) -> Any:
    """Return what a run measured, without the seconds."""
    return [replace(epoch, seconds=0.0) for epoch in outcome.epochs]


def checkpoints(flips: int, chance: random.Random, folder: Path) -> Outcomes:
    """Flip bits of a checkpoint in the middle of an epoch, and train on from it."""
    data = DATASETS.load("digits", 200)
    expected = untimed(train([RUN], data, threads=1)[0])
    with suppress(KeyboardInterrupt):
        train([RUN], data, threads=1, folder=folder, watcher=InterruptAt(3))
    (path,) = folder.glob("*.safetensors")
    content = path.read_bytes()
    outcomes: Outcomes = Counter()
    for _ in range(flips):
        path.write_bytes(flipped(content, chance))
        outcomes[judged(lambda: untimed(train([RUN], data, threads=1, folder=folder)[0]), expected)] += 1
    return outcomes


def stores(flips: int, chance: random.Random, folder: Path) -> Outcomes:
    """Flip bits of a store, and look at its status, its results and what a resumed sweep returns."""
    spec = Spec.load(WITH_DIVERGED)
    trained = numbers(run_sweep(spec, folder / "whole", datasets=DATASETS).results)
    with Store(folder / "whole") as store:
        table, now = numbers(store.results()), status(folder / "whole")
    content = (folder / "whole" / STORE).read_bytes()
    outcomes: Outcomes = Counter()

    def look(at: Path) -> Any:
        seen = status(at)
        with Store(at) as store:
            return (seen.counts, seen.epochs_done, seen.best and seen.best.identity), numbers(store.results())

    for number in range(flips):
        bad = folder / f"{number}"
        bad.mkdir()
        (bad / STORE).write_bytes(flipped(content, chance))
        expected = (now.counts, now.epochs_done, now.best and now.best.identity), table
        seen = judged_store(lambda bad=bad: look(bad), expected)
        resumed = judged(lambda bad=bad: numbers(run_sweep(spec, bad, datasets=DATASETS).results), trained)
        outcomes["SILENT" if "SILENT" in (seen, resumed) else seen] += 1
        shutil.rmtree(bad)
    return outcomes


def judged_store(look: Callable[[], Any], expected: Any) -> str:
    """Return how a look at a store ended; one that leaves runs out has told so if it warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _, table = seen = look()
        except (ValueError, OSError) as error:
            return "told" if "\n" not in str(error) and str(error) else "SILENT"
    if caught and all(expected[1].get(identity) == row for identity, row in table.items()):
        return "told"
    return "harmless" if seen == expected else "SILENT"


def archives(flips: int, chance: random.Random, folder: Path) -> Outcomes:
    """Flip bits of a gzipped tar archive and of a zip archive, and read the corpus in them."""
    outcomes: Outcomes = Counter()
    whole = [tape(folder / "timit.tar.gz", sample_files()), pack(folder / "timit.zip", sample_files())]
    contents = {path: (path.read_bytes(), list(corpus.files(path))) for path in whole}
    timit._convert(whole[0], "mfcc")  # it is a corpus that can be used
    for number in range(flips):
        path = whole[number % len(whole)]
        content, expected = contents[path]
        path.write_bytes(flipped(content, chance))
        outcomes[judged(lambda path=path: list(corpus.files(path)), expected)] += 1
    return outcomes


KINDS: dict[str, Callable[[int, random.Random, Path], Outcomes]] = {
    "checkpoints": checkpoints,
    "stores": stores,
    "archives": archives,
}


def main() -> int:
    """Flip bits of each kind of file, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    silent = 0
    print(f"{'':12} {'flips':>6} {'told':>6} {'harmless':>9} {'SILENT':>7}")
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            outcomes = kind(given.flips, random.Random(given.seed), Path(folder))
        silent += outcomes["SILENT"]
        counts = (sum(outcomes.values()), outcomes["told"], outcomes["harmless"], outcomes["SILENT"])
        print("{:12} {:6} {:6} {:9} {:7}".format(name, *counts), flush=True)
    return min(silent, 1)


if __name__ == "__main__":
    sys.exit(main())
