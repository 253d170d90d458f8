"""Training a case from one initialization, and probing it: each returns a record that fits in a line of JSON."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from zoo.case import Batch, Case

STEPS = 150
RATE = 1e-3
LAST = 10  # steps whose mean loss counts
FACTORS = (1e4, 1e-4)
Record = dict[str, Any]


def built(case: Case, seed: int) -> nn.Module:
    """Return the model of a case as its package initialises it, ready to train."""
    torch.manual_seed(seed)
    return case.build().train()


def batches(case: Case, seed: int) -> Iterator[Batch]:
    """Yield the batches of a seed, the same for every initialization."""
    generator = torch.Generator().manual_seed(1000 + seed)
    while True:
        yield case.task.draw(generator)


def trained(case: Case, seed: int, initialised: bool, only: Sequence[str] | None = None, loss: bool = False) -> Record:
    """Return the losses of a model trained from its own initialization, or after `init_` unless that drew nothing.

    only: the names of the layers that `init_` draws, all of them whether it would leave them alone or not. loss:
    whether it is given the loss on its example.
    """
    model = built(case, seed)
    record = _initialised(case, seed, model, only, loss) if initialised else {}
    record["parameters"] = sum(p.numel() for p in model.parameters())
    if "error" not in record and record.get("drawn") != 0:
        record |= _train(case, seed, model)
    return record


def _train(case: Case, seed: int, model: nn.Module) -> Record:
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    losses: list[float] = []
    torch.manual_seed(seed)
    start = time.process_time()
    for batch, _ in zip(batches(case, seed), range(STEPS), strict=False):
        loss = case.task.loss(model(*batch.inputs), batch.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not torch.isfinite(loss):
            break
    complete = len(losses) == STEPS
    last = sum(losses[-LAST:]) / LAST if complete else float("inf")
    return {"first": losses[0], "loss": last, "step": (time.process_time() - start) / len(losses)}


def _initialised(case: Case, seed: int, model: nn.Module, only: Sequence[str] | None, loss: bool) -> Record:
    """Initialise a model in place and return what `init_` did, warned of or raised."""
    from gradwalk.torch import init_

    example, target = next(batches(case, seed))
    loss_fn = (lambda output: case.task.loss(output, target)) if loss else None
    generator = torch.Generator().manual_seed(seed)
    with _caught() as messages:
        start = time.process_time()
        try:
            report = init_(model, example=example, only=only, loss_fn=loss_fn, generator=generator)
        except Exception as error:  # whatever it is, it is the result
            return {"error": f"{type(error).__name__}: {error}"}
        seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "drawn": len(report.drawn),
        "left": len(report.rows) - len(report.drawn),
        "warnings": messages,
        "report": str(report),
    }


@contextmanager
def _caught() -> Iterator[list[str]]:
    """Collect the warnings that gradwalk gives."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += [str(each.message) for each in caught if "gradwalk" in type(each.message).__module__]


def probed(case: Case, seed: int, scaled: bool) -> Record:
    """Return the status that `probe` gives a model in its own initialization and, if asked, with one layer scaled."""
    model = built(case, seed)
    record: Record = {"own": _status(case, seed, model)}
    if not scaled:
        return record
    for place, name in _places(case, seed, model).items():
        weight = model.get_submodule(name).weight
        kept = weight.detach().clone()
        for factor in FACTORS:
            with torch.no_grad():
                weight.copy_(kept * factor)
            record[f"{place} x {factor:g}"] = {"layer": name, **_status(case, seed, model)}
        with torch.no_grad():
            weight.copy_(kept)
    return record


def _status(case: Case, seed: int, model: nn.Module) -> Record:
    from gradwalk.torch import probe

    batch = next(batches(case, seed))
    torch.manual_seed(seed)
    try:
        walk = probe(model, batch.inputs, lambda output: case.task.loss(output, batch.target))
        return {"status": str(walk.status), "verdict": str(walk.verdict)}
    except Exception as error:  # whatever it is, it is the result
        return {"status": "error", "verdict": f"{type(error).__name__}: {error}"}


def _places(case: Case, seed: int, model: nn.Module) -> dict[str, str]:
    """Return the first, the middle and the last of the layers that can be scaled, in the order they run."""
    names = _scalable(case, seed, model)
    return {"first": names[0], "middle": names[len(names) // 2], "last": names[-1]} if names else {}


def _scalable(case: Case, seed: int, model: nn.Module) -> list[str]:
    """Return the layers with a weight matrix of their own that is not zero and has a gradient, as they run."""
    order: list[nn.Module] = []
    handles = [each.register_forward_hook(lambda each, *_: order.append(each)) for each in model.modules()]
    batch = next(batches(case, seed))
    torch.manual_seed(seed)
    case.task.loss(model(*batch.inputs), batch.target).backward()
    for handle in handles:
        handle.remove()
    names = {module: name for name, module in model.named_modules()}
    ran = [each for each in dict.fromkeys(order) if _has_matrix(each) and _uses(model, each.weight) == 1]
    moved = [names[each] for each in ran if each.weight.grad is not None and each.weight.grad.any()]
    model.zero_grad()
    return moved


def _has_matrix(module: nn.Module) -> bool:
    weight = module._parameters.get("weight")
    if weight is None or weight.ndim < 2 or isinstance(module, nn.Embedding) or "parametrizations" in module._modules:
        return False
    return bool(weight.detach().any())


def _uses(model: nn.Module, weight: torch.Tensor) -> int:
    return sum(p is weight for module in model.modules() for p in module._parameters.values())
