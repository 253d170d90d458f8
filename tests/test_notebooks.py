"""The notebooks in examples/ run from top to bottom and print what they were saved with."""

import json
from pathlib import Path

import pytest
from helpers.shown import differences, torch_seed_restored

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict) -> str:
    """Return what a cell printed when it was saved."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_prints_what_it_was_saved_with(path: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    if "torch" in path.read_text("utf-8"):
        pytest.importorskip("torch")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with torch_seed_restored():
        for place, cell in enumerate(code_cells(path)):
            exec(compile("".join(cell["source"]), f"{path.name}-{place}", "exec"), namespace)
            assert differences(printed(cell), capsys.readouterr().out) == []
    pyplot.close("all")


def test_there_are_two_and_they_are_saved_with_their_outputs() -> None:
    assert len(NOTEBOOKS) == 2
    for path in NOTEBOOKS:
        cells = code_cells(path)
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run from the top"
        pictures = [output for cell in cells for output in cell["outputs"] if "image/png" in output.get("data", {})]
        assert len(pictures) >= 2
