"""Tries `init_` and `probe` on models written by others: does training suffer, and are the verdicts right?

Every model of `zoo/` is trained for 150 steps of Adam at 1e-3 from its package's own initialization and after
`gradwalk.torch.init_`, with three seeds and the same batches, on one thread; its loss is the mean over the last ten
steps. `probe` is asked about it in its own initialization and with the weight of its first, middle and last layer
multiplied by 1e4 and 1e-4. The outcome goes to results/models.md and results/models.json, that of the models in
zoo/blind.py, which were added after the rules had been settled, to results/models-blind.md and its JSON file. With
`--part loss` every model is trained after an `init_` that is given the loss on its example: results/outputs.md.

The packages are not among gradwalk's extras: several name older versions of what others need. They go, with exactly
these versions and without what they say they depend on, into an environment of their own; torchaudio must not be there,
since transformers would import it, and on a machine with a GPU torch should come from its index for CPUs:

    python -m venv zoo
    zoo/bin/pip install torch==2.13.0
    zoo/bin/pip install --no-deps -r benchmarks/zoo/requirements.txt
    PYTHONPATH=src zoo/bin/python benchmarks/models.py --store zoo/models.jsonl

Results are kept in the store, one line per model, seed and initialization, and not computed again while the code they
depend on is the same: the definition of the model and of its task and, but for the model's own initialization,
gradwalk. `--only vit resnet` and `--part init` select; `--page FILE` writes the tables elsewhere than to results/.
"""

import argparse
import json
import platform
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy
import scipy
import torch
from zoo import CASES, Case
from zoo.outcome import SEEDS, Outcome, outcome, outcome_with_loss
from zoo.page import page
from zoo.store import Key, Store, commit
from zoo.training import Record, probed, trained

_RESULTS = Path(__file__).parents[1] / "results"
_COMMAND = "PYTHONPATH=src python benchmarks/models.py --store models.jsonl"


def main() -> None:
    """Run what is missing of the experiment and write its tables."""
    options = _options()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the packages; those of gradwalk are recorded
    cases = [case for case in CASES.values() if _selected(case, options.only)]
    store = Store(options.store)
    for part in ("init", "probe") if options.part is None else (options.part,):
        for seed in SEEDS:
            for case in cases:
                _run(case, seed, part, store)
    if options.part == "loss":
        title = "Models written by others, initialised with a loss"
        outcomes = [outcome_with_loss(case, store) for case in CASES.values()]
        _write(outcomes, options.page or _RESULTS / "outputs.md", title, f"{_COMMAND} --part loss")
        return
    path = options.page or _RESULTS / "models.md"
    for is_blind, stem, title in ((False, path.stem, ""), (True, f"{path.stem}-blind", ", tried blind")):
        chosen = [outcome(case, store) for case in CASES.values() if (case.collection == "blind") is is_blind]
        _write(chosen, path.with_stem(stem), f"Models written by others{title}", _COMMAND)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="names, kinds or modules of models")
    parser.add_argument("--part", choices=("init", "probe", "loss"), help="one part of the experiment only")
    parser.add_argument("--store", type=Path, required=True, help="the file of records, outside the repository")
    parser.add_argument("--page", type=Path, help="where to write the tables, instead of results/models.md")
    return parser.parse_args()


def _selected(case: Case, patterns: list[str]) -> bool:
    return any(fnmatch(text, pattern) for text in (case.name, case.kind, case.collection) for pattern in patterns)


def _run(case: Case, seed: int, part: str, store: Store) -> None:
    jobs: dict[str, Callable[[], Record]]
    if part == "probe":
        jobs = {"probe": partial(probed, case, seed, scaled=seed == SEEDS[0])}
    else:
        jobs = {what: partial(trained, case, seed, what != "own", loss=what == "loss") for what in ("own", part)}
    for what, job in jobs.items():
        key = Key.of(case, seed, what)
        if store.get(key) is None:
            record = job()
            if what == part and record.get("drawn") == 0:  # the weights are as they were, and so is the training
                own = store.get(Key.of(case, seed, "own")) or {}
                record |= {name: own[name] for name in ("first", "loss", "step")}
            store.put(key, record)
            result = record.get("error") or record.get("loss", record.get("own"))
            print(f"{case.name} {what} {seed}: {result}", flush=True)


def _write(every: Sequence[Outcome], path: Path, title: str, command: str) -> None:
    """Write all that is in the store of these models for the current code, whichever were selected."""
    outcomes = [each for each in every if each.training or each.verdicts]
    if not outcomes:
        return
    outcomes.sort(key=lambda each: (each.case.kind, each.case.name))
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    details = ", ".join(f"{name} {value}" for name, value in facts.items())
    path.write_text(page(outcomes, f"# {title}\n\n`{command}`; {details}."))
    numbers = {"command": command, **facts, "models": [each.numbers() for each in outcomes]}
    path.with_suffix(".json").write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
