"""What results/README.md says of models written by others is what the tables beside it hold."""

import json
import re
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"


def found():
    """Return the findings of the README, their line breaks as spaces."""
    readme = (RESULTS / "README.md").read_text("utf-8")
    return " ".join(readme.partition("## What was found")[2].partition("\n## ")[0].split())


FAULTY = {"exploding", "vanishing", "broken"}


def by_others(name):
    """The models of a table: all of them, those called faulty as they are, and the statuses of the others scaled."""
    models = json.loads((RESULTS / f"{name}.json").read_text())["models"]
    faulty = {model["model"] for model in models if FAULTY & set(model["probe_own"])}
    scaled = [status for model in models if model["model"] not in faulty for status in model["probe_scaled"].values()]
    return models, faulty, [status in FAULTY for status in scaled]


def test_models_by_others_came_out_as_the_readme_has_it():
    findings = found()
    models, faulty, scaled = by_others("models")
    assert all(model["passes"] for model in models)
    assert f"On {len(models)} models written by others" in findings
    assert not faulty
    assert f"{sum(scaled)} of {len(scaled)}" in findings


def test_models_tried_blind_came_out_as_the_readme_has_it():
    findings = found()
    models, faulty, scaled = by_others("models-blind")
    assert all(model["passes"] for model in models)
    assert sum(model["ratio"] < 1 / 1.1 for model in models) == 6
    assert f"A blind test on {len(models)} others" in findings
    assert faulty == {"silu-chain", "tanh-chain"}
    assert all(scaled)
    assert f"all {len(scaled)} with one layer" in findings


def test_verdicts_on_weights_in_classes_of_their_own_came_out_as_the_readme_has_it():
    findings = found()
    models, faulty, scaled = by_others("verdicts")
    assert (len(models), faulty, all(scaled)) == (73, set(), True)
    assert f"all {len(scaled)} of {len(scaled)}" in findings
    _, faulty, scaled = by_others("verdicts-blind")
    assert faulty == {"silu-chain", "tanh-chain"}
    assert all(scaled)


def test_models_initialised_with_a_loss_came_out_as_the_documents_have_it():
    models = {model["model"]: model for model in json.loads((RESULTS / "outputs.json").read_text())["models"]}
    better = [name for name, model in models.items() if model["ratio"] < 1 / 1.1]
    worse = {name: round(model["ratio"], 2) for name, model in models.items() if not model["passes"]}
    assert (len(models), len(better), worse) == (107, 22, {"mobilenet-v2": 1.21, "resnet": 1.13})
    without = [model for name in ("models", "models-blind") for model in by_others(name)[0]]
    assert sum(model["ratio"] < 1 / 1.1 for model in without) == 12
    assert {model["model"] for model in without} == set(models)
    for text in (found(), (RESULTS.parent / "docs" / "torch.md").read_text("utf-8")):
        words = " ".join(text.split())
        assert re.search("22 of all 107 are better by more than 10 %|Of 107 models by others, 22 train better", words)
        assert re.search("MobileNetV2 (ends )?at 1.21 (times its loss )?and ResNet at 1.13", words)
