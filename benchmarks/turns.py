"""The speed of a stack of 8 networks in this version and in another one, of which one runs at a time.

    python benchmarks/turns.py 512 88 --other OTHER/.venv/bin/python --seconds 300

OTHER is a clone at another commit with an environment of its own. Each version trains in a process of its own, on one
thread; they are stopped and continued in turns, so that a machine that becomes slower does so for both. Rates are the
steps of networks per second of processor time.
"""

import argparse
import math
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

NETWORKS, PIECE, PARTS = 8, 1.5, 12  # a turn takes that many seconds; the error is that of the mean of so many parts


def train_forever(depth: int, width: int) -> None:
    """Train the networks until the process is killed, and print steps and processor time at each report."""
    from gradwalk import data
    from gradwalk.train import Run, Watcher, train

    class Counter(Watcher):
        steps = 0

        def stepped(self, networks: int) -> None:
            self.steps += networks
            print(self.steps, time.process_time(), flush=True)

    params = 64 * width + (depth - 2) * width * width + 10 * width  # of digits
    settings = {"data": "digits", "depth": depth, "params": params, "gain": 1.1, "rate_in": 1e-4, "rate_out": 1e-4}
    runs = [Run(**settings, epochs=10**6, seed=seed) for seed in range(NETWORKS)]
    train(runs, data.load("digits"), threads=1, watcher=Counter())


def rates(log: Path) -> tuple[float, list[float]]:
    """Return the rate over all reports but the first ones, and those of parts of them."""
    reports = [tuple(map(float, line.split())) for line in log.read_text().splitlines() if len(line.split()) == 2][2:]
    cuts = reports[:: max(len(reports) // PARTS, 1)]
    both = [(reports[0], reports[-1]), *pairwise(cuts)]
    whole, *parts = ((end[0] - start[0]) / (end[1] - start[1]) for start, end in both)
    return whole, parts


def main() -> None:
    """Let both versions train in turns, and print their rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("depth", type=int)
    parser.add_argument("width", type=int)
    parser.add_argument("--other", help="the Python of the other version's environment")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each version (default: 300)")
    options = parser.parse_args()
    if options.other is None:
        train_forever(options.depth, options.width)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / name for name in ("ours", "other")]
        sides = []
        for python, log in zip((sys.executable, options.other), logs, strict=True):
            with log.open("w") as out:
                sides.append(
                    subprocess.Popen([python, __file__, str(options.depth), str(options.width)], stdout=out, cwd="/")
                )
            while log.read_text().count("\n") < 2:
                time.sleep(0.1)
            sides[-1].send_signal(signal.SIGSTOP)
        end = time.monotonic() + 2 * options.seconds
        while time.monotonic() < end:
            for side in random.sample(sides, 2):
                side.send_signal(signal.SIGCONT)
                time.sleep(PIECE)
                side.send_signal(signal.SIGSTOP)
        for side in sides:
            side.kill()
            side.wait()
        (ours, our_parts), (other, other_parts) = map(rates, logs)
    ratios = [one / two for one, two in zip(our_parts, other_parts, strict=False)]
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    shape = f"({options.depth}, {options.width})"
    print(f"{shape}: {ours:.2f} and {other:.2f} steps per second, {ours / other:.4f} ± {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
