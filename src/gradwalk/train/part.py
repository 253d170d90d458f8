"""A part of the runs, trained in one thread as one stack: the loop over epochs and minibatches."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradwalk.data import Dataset, Examples
from gradwalk.nets.losses import CrossEntropy, SquaredError
from gradwalk.nets.stack import Stack
from gradwalk.train.checkpoint import Epoch, State, checkpoint_path, save_state
from gradwalk.train.run import Run

Event = Callable[[Any], Any]  # calls a method of the Watcher it is given


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run: Run
    state: State

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """What was measured, an epoch each."""
        return tuple(self.state.history)

    @property
    def diverged(self) -> int | None:
        """The epoch in which the loss ceased to be finite, or None."""
        return self.state.diverged

    @property
    def last(self) -> Epoch | None:
        """The last epoch that was finished."""
        return self.state.history[-1] if self.state.history else None


@dataclass
class Member:
    """A run on its way: its place among the runs that were asked for, its identity, its state.

    layers: the weights (in, out) and biases that it begins with or goes on from, layer by layer, to be taken once.
    """

    place: int
    run: Run
    identity: str
    state: State
    layers: Iterator[tuple[torch.Tensor, torch.Tensor]]


class Part:
    """Runs that stand at the same epoch and step, to be trained to their ends."""

    def __init__(
        self,
        members: list[Member],
        data: Dataset,
        *,
        device: str,
        folder: Path | None,
        save_every: float,
        report: Callable[[Event], None],
        stop: threading.Event,
    ) -> None:
        self.members, self.data, self.device, self.folder = members, data, device, folder
        self.save_every, self.report, self.stop = save_every, report, stop
        self.outcomes: dict[int, Outcome] = {}

    def train(self) -> dict[int, Outcome]:
        """Train until every run has ended or `stop` is set, and return the outcomes by the runs' places."""
        torch.set_flush_denormal(True)  # of this thread: a gradient that vanishes would else take 100 times as long
        with torch.no_grad(), np.errstate(all="ignore"):  # what is not finite is seen in the loss
            self._stack_up()
            self._drop(self._done())  # from a checkpoint of their end
            while self.members and not self.stop.is_set():
                self._epoch()
            if self.members:
                self.save()
        return self.outcomes

    def save(self) -> None:
        """Write a checkpoint of each run."""
        if self.folder is None:
            return
        self._bring_states_up_to_date()
        for member in self.members:
            save_state(checkpoint_path(self.folder, member.identity), member.identity, member.state)
        self._saved = time.monotonic()

    def _stack_up(self) -> None:
        run = self.members[0].run
        loss = CrossEntropy() if run.task == "classify" else SquaredError()
        self.stack = Stack(_stacked(self.members), run.architecture(self.data).activations, loss, run.batch)
        for member in self.members:
            member.state.weights, member.state.biases = [], []  # the stack has them now
        self._saved = time.monotonic()
        self._settle()

    def _settle(self) -> None:
        """Gather what the members' steps need: rates (layers, networks), the limits of clipping, and counters."""
        runs = [each.run for each in self.members]
        self.steps, self.clipped = self.members[0].state.steps, [each.state.clipped for each in self.members]
        done = self.members[0].state.epochs
        rates = np.stack([run.rates() * run.decay**done for run in runs], axis=1)
        self.rates = torch.tensor(rates, dtype=torch.float32, device=self.device)
        self.bias_factor = torch.tensor([run.bias_rate for run in runs], device=self.device)
        limits = [np.inf if run.clip is None else run.clip for run in runs]
        self.limit = torch.tensor(limits, dtype=torch.float32, device=self.device) if min(limits) < np.inf else None

    def _epoch(self) -> None:
        """Take the epoch's remaining steps, measure, and let go of the runs that have ended."""
        started = time.monotonic()
        for rows in self._minibatches():
            self._step(rows)
            if self.stop.is_set() or not self.members:
                self._clock(started)
                return
            if self.folder is not None and time.monotonic() - self._saved > self.save_every:
                started = self._clock(started)
                self.save()
        self._clock(started)
        self._measure()

    def _minibatches(self) -> Iterator[Any]:
        run, count = self.members[0].run, len(self.data.train)
        order = np.random.default_rng([run.data_seed, self.members[0].state.epochs]).permutation(count)
        for start in range(self.steps * run.batch, count, run.batch):
            yield order[start : start + run.batch]

    def _step(self, rows: Any) -> None:
        x, target = self._batch(self.data.train, rows)
        loss = self.stack.gradient(x, target)
        rates = self.rates
        if self.limit is not None:
            shorten = (self.limit / self.stack.gradient_norm()).clamp_max(1.0)
            rates = rates * shorten
            for place in (shorten < 1).nonzero().flatten().tolist():
                self.clipped[place] += 1
        self.stack.update(rates, rates * self.bias_factor)
        self.steps += 1
        self.report(methodcaller("stepped", len(self.members)))
        finite = loss.isfinite()
        if not finite.all():
            self._diverge([place for place, good in enumerate(finite.tolist()) if not good])

    def _measure(self) -> None:
        """Measure both splits at the end of an epoch; diverged runs and those at their end leave the stack."""
        figures = [self._evaluate(split) for split in (self.data.train, self.data.test)]
        self._bring_states_up_to_date()
        for place, member in enumerate(self.members):
            state = member.state
            (train_loss, train_mistakes), (test_loss, test_mistakes) = (
                (float(loss[place]), int(mistakes[place])) for loss, mistakes in figures
            )
            spent = state.seconds - sum(each.seconds for each in state.history)
            state.epochs, state.steps, state.clipped, clipped = state.epochs + 1, 0, 0, state.clipped
            if np.isfinite(train_loss):
                measured = (train_loss, train_mistakes, test_loss, test_mistakes, clipped, spent)
                state.history.append(Epoch(state.epochs, *measured))
                self.report(methodcaller("epoch_ended", member.run, state.history[-1]))
            else:
                state.diverged = state.epochs
        self._settle()
        self._drop(self._done())

    def _evaluate(self, split: Examples) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each network's mean loss and number of mistakes over a whole split."""
        loss = mistakes = torch.zeros(len(self.members), dtype=torch.float64, device=self.device)
        batch = self.members[0].run.batch
        for start in range(0, len(split), batch):
            x, target = self._batch(split, np.arange(start, min(start + batch, len(split))))
            more_loss, more_mistakes = self.stack.loss.sums(self.stack.outputs(x), target)
            loss, mistakes = loss + more_loss, mistakes + more_mistakes
        return loss / max(len(split), 1), mistakes

    def _batch(self, split: Examples, rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor(split.inputs(rows), device=self.device)  # a copy at torch's own alignment, see Stack
        if self.members[0].run.task == "reconstruct":
            return x, x
        return x, torch.from_numpy(split.labels[rows]).to(self.device)

    def _done(self) -> list[int]:
        return [place for place, member in enumerate(self.members) if _is_done(member)]

    def _diverge(self, places: Sequence[int]) -> None:
        for place in places:
            self.members[place].state.diverged = self.members[place].state.epochs + 1
        self._drop(places)

    def _drop(self, places: Sequence[int]) -> None:
        """Take runs out of the stack and tell that they ended; the others do not notice."""
        if not places:
            return
        self._bring_states_up_to_date()
        for place in places:
            member = self.members[place]
            state = member.state
            if len(places) < len(self.members):  # else the stack is left to them
                state.weights, state.biases = [w.clone() for w in state.weights], [b.clone() for b in state.biases]
            self.outcomes[member.place] = Outcome(member.run, state)
            self.report(methodcaller("ended", self.outcomes[member.place]))
        left = [place for place in range(len(self.members)) if place not in places]
        self.members = [self.members[place] for place in left]
        if left:
            self.stack.keep(left)
            self._settle()

    def _bring_states_up_to_date(self) -> None:
        for place, member in enumerate(self.members):
            member.state.weights, member.state.biases = self.stack.network(place)
            member.state.steps, member.state.clipped = self.steps, self.clipped[place]

    def _clock(self, started: float) -> float:
        now = time.monotonic()
        for member in self.members:
            member.state.seconds += now - started
        return now


def _stacked(members: Sequence[Member]) -> Iterator[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    for together in zip(*(member.layers for member in members), strict=True):
        yield [weight for weight, _ in together], [bias for _, bias in together]


def _is_done(member: Member) -> bool:
    state, run = member.state, member.run
    flawless = run.stop_at_zero and run.task == "classify" and any(each.train_mistakes == 0 for each in state.history)
    return state.diverged is not None or state.epochs >= run.epochs or flawless
