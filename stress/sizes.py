"""Measure how a large sweep is planned, summarised and exported: seconds and peak memory of each command.

    python stress/sizes.py [--runs 20000] [--epochs 50]

The store is written here, with made-up numbers; the plan is one without measurements of speed. The bytecode of all
modules is there before anything is measured, as it is in an installed package. On a busy machine the processor time is
the figure to compare.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gradwalk.sweep import Ending, Entry, Spec
from gradwalk.sweep.writer import Writer
from gradwalk.train import Epoch, Run

SPEC = 'data = "digits"\ndepth = [3, 4]\nparams = 2e3\ngain = {gains}\nseed = {seeds}\n'
PLAN = "import sys; from pathlib import Path; from gradwalk.sweep import Spec, plan\n"
PLAN += "plan(Spec.load(Path(sys.argv[1])), measure=False)"
IMPORTS = "import gradwalk.sweep"
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
LAUNCH = "from gradwalk.cli import main; main()"


def measured(name: str, code: str, *words: object) -> None:
    """Run Python code in a process of its own, and print its seconds and its peak memory."""
    start = time.perf_counter()
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | BYTECODE)
    _, status, usage = os.wait4(process.pid, 0)
    seconds, processor = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    print(f"{name:28} {seconds:7.2f} s {processor:7.2f} s processor {usage.ru_maxrss / 1000:7.0f} MB", flush=True)
    if status:
        raise SystemExit(f"{name} failed")


def write_store(folder: Path, runs: int, epochs: int) -> None:
    """Write a store of runs with made-up epochs."""
    history = tuple(
        Epoch(number, 1.0 / number, 100 - number, 1.1 / number, 101 - number, 0, 0.1) for number in range(1, epochs + 1)
    )
    entries = [
        Entry(f"{seed:020x}", Run(data="digits", depth=3, params=2e3, seed=seed), 2000, 1442, 355)
        for seed in range(runs)
    ]
    with Writer(folder) as writer:
        writer.enlist(entries)
        writer.ended(Ending(entry.identity, history, None, 1.0, "here") for entry in entries)


def main() -> None:
    """Write the store and the spec, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, spec = Path(name), Path(name) / "spec.toml"
        gains, seeds = [1 + place / 100 for place in range(100)], list(range(max(given.runs // 200, 1)))
        spec.write_text(SPEC.format(gains=gains, seeds=seeds))
        print(f"a plan of {Spec.load(spec).count:,} runs; a store of {given.runs:,} runs of {given.epochs:,} epochs")
        BYTECODE["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        subprocess.run([sys.executable, "-c", PLAN, spec], env=os.environ | BYTECODE, check=True)
        measured("imports alone", IMPORTS)
        measured("plan", PLAN, spec)
        write_store(folder / "store", given.runs, given.epochs)
        measured("status", LAUNCH, "sweep", "status", folder / "store")
        measured("export, runs", LAUNCH, "sweep", "export", folder / "store", "--to", folder / "runs.csv")
        measured(
            "export, epochs", LAUNCH, "sweep", "export", folder / "store", "--to", folder / "epochs.csv", "--epochs"
        )
        measured(
            "export, epochs, Parquet",
            LAUNCH,
            "sweep",
            "export",
            folder / "store",
            "--to",
            folder / "epochs.parquet",
            "--epochs",
        )


if __name__ == "__main__":
    main()
