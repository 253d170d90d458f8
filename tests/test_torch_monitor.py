"""Monitor: the walk at every n-th step, in memory, as CSV, in TensorBoard, through Lightning, as a heat map."""

import csv
import math
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from helpers.torch_models import scaled_mlp  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch.monitor import Monitor  # noqa: E402
from gradwalk.torch.probe import probe  # noqa: E402


def net(depth=4, width=16, act=nn.Tanh):
    return scaled_mlp([width] * (depth + 1), act, 1.2)


X = torch.randn(8, 16, generator=torch.Generator().manual_seed(5))


def loss_of(output):
    return output.square().mean()


def train(model, monitor, steps, scale=1.0):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        (loss_of(model(X)) * scale).backward()
        monitor.step()
        if scale == 1.0:
            optimizer.step()


def test_it_records_what_probe_measures():
    for act in (nn.Tanh, lambda: nn.ReLU(inplace=True)):
        model = net(act=act)
        walk = probe(model, X, loss_of)
        with Monitor(model) as monitor:
            train(model, monitor, 1)
        assert monitor.records[0].log_norm == pytest.approx(walk.log_norm, abs=1e-5)
        assert monitor.records[0].spread == pytest.approx(walk.spread, abs=1e-5)
        assert monitor.records[0].layers == walk.layers
        assert monitor.records[0].directions == pytest.approx(walk.directions, rel=1e-4)


def test_it_records_no_directions_of_few_examples_and_of_images():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 5))
    with Monitor(model) as monitor:
        model(torch.randn(9, 1, 4, 4)).square().sum().backward()
        monitor.step()
    assert math.isnan(monitor.records[0].directions[0])
    assert 1 <= monitor.records[0].directions[1] <= 5
    with Monitor(model) as monitor:
        model(torch.randn(7, 1, 4, 4)).square().sum().backward()
        monitor.step()
    assert np.isnan(monitor.records[0].directions).all()


def test_every_third_step_is_kept_and_hooks_are_there_only_then():
    model = net()
    monitor = Monitor(model, every=3)
    hooked = []
    for _ in range(7):
        hooked.append(any(m._forward_hooks for m in model.modules()))
        loss_of(model(X)).backward()
        monitor.step()
    assert hooked == [True, False, False, True, False, False, True]
    assert [record.step for record in monitor.records] == [0, 3, 6]
    monitor.close()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_training_goes_the_same_way_with_a_monitor():
    one, other = net(), net()
    with Monitor(one, every=2) as monitor:
        train(one, monitor, 5)
    train(other, Monitor(net()), 5)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("scale", [2.0**-100, 65536.0])
def test_the_scale_of_the_loss_makes_no_difference(scale):
    records = []
    for each in (1.0, scale):
        model = net()
        with Monitor(model) as monitor:
            train(model, monitor, 1, scale=each)
        records.append(monitor.records[0].log_norm)
    assert records[1] == pytest.approx(records[0], abs=1e-5)


def test_it_works_under_autocast():
    model, plain = net(), net()
    with Monitor(model) as monitor, Monitor(plain) as exact:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model(X))
        loss.backward()
        monitor.step()
        train(plain, exact, 1)
    assert monitor.records[0].log_norm == pytest.approx(exact.records[0].log_norm, abs=0.05)


def test_a_validation_pass_between_and_a_step_without_backward_are_no_harm():
    model = net()
    with Monitor(model, every=1) as monitor:
        loss = loss_of(model(X))
        with torch.no_grad():
            model(X)
        loss.backward()
        assert monitor.step() is not None
        assert monitor.step() is None
    assert len(monitor.records) == 1


def test_csv_has_a_row_for_each_step_and_layer(tmp_path):
    model = net()
    with Monitor(model, every=2) as monitor:
        train(model, monitor, 4)
    monitor.to_csv(tmp_path / "walk.csv")
    with (tmp_path / "walk.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["directions"]) for row in rows] == pytest.approx(
        np.concatenate([record.directions for record in monitor.records])
    )
    assert [(int(row["step"]), int(row["layer"])) for row in rows] == [(s, d) for s in (0, 2) for d in (1, 2, 3, 4)]
    assert [float(row["log_norm"]) for row in rows[4:]] == monitor.records[1].log_norm.tolist()
    assert rows[1]["name"] == "2"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard.*")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:google.*")
def test_tensorboard_gets_the_walk(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    model = net()
    with SummaryWriter(str(tmp_path)) as writer, Monitor(model, every=2, writer=writer) as monitor:
        train(model, monitor, 3)
    events = EventAccumulator(str(tmp_path), size_guidance={"histograms": 0})
    events.Reload()
    final = events.Scalars("gradwalk/final")
    assert [event.step for event in final] == [0, 2]
    assert [event.value for event in final] == pytest.approx([r.log_norm[0] for r in monitor.records], abs=1e-5)
    assert [event.step for event in events.Histograms("gradwalk/log_norm")] == [0, 2]


@pytest.mark.filterwarnings("ignore")  # Lightning warns of its own dependencies, of missing workers and loggers
def test_lightning_trains_with_the_callback(tmp_path):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    from lightning.pytorch.loggers import CSVLogger

    from gradwalk.torch.lightning import MonitorCallback

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, index):
            return loss_of(self.net(batch))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    callback, module = MonitorCallback(every=2), Module()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[callback],
        logger=CSVLogger(str(tmp_path)),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, torch.utils.data.DataLoader(X.repeat(5, 1), batch_size=8))
    assert [record.step for record in callback.monitor.records] == [0, 2, 4]
    assert callback.monitor.records[0].layers[0] == "net.0"
    assert not any(m._forward_hooks for m in module.modules())
    with next(tmp_path.rglob("metrics.csv")).open() as file:
        rows = [row for row in csv.DictReader(file) if row.get("gradwalk/final")]
    assert float(rows[0]["gradwalk/final"]) == pytest.approx(callback.monitor.records[0].log_norm[0])


def test_the_heat_map_has_a_cell_for_each_record_and_layer():
    pytest.importorskip("matplotlib")
    model = net()
    with Monitor(model, every=2) as monitor:
        train(model, monitor, 6)
    mesh = monitor.plot().collections[0]
    values = np.asarray(mesh.get_array()).reshape(4, 3)
    assert values[:, 1] == pytest.approx(monitor.records[1].log_norm / math.log(10))
    assert mesh.norm.vmin == -mesh.norm.vmax


def test_bad_input_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="Monitor: every must be at least 1"):
        Monitor(net(), every=0)
    with pytest.raises(ValueError, match="Monitor: the model has no weight layer"):
        Monitor(nn.Tanh())
    with pytest.raises(TypeError, match="Monitor: model must be"):
        Monitor(len)
    with pytest.raises(ValueError, match="Monitor: there are no records"):
        Monitor(net()).plot()


LOADED = """
import sys

def show():
    print(*sorted({"lightning", "tensorboard", "matplotlib"} & set(sys.modules)))

import gradwalk.torch, gradwalk.torch.monitor, gradwalk.torch.probe, gradwalk.torch.calibrate
show()
import matplotlib
show()
"""


def test_the_monitor_alone_loads_neither_lightning_nor_tensorboard_nor_matplotlib():
    shown = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout
    assert shown == "\nmatplotlib\n"
