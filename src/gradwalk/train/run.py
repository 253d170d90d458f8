"""A run: one optimization, given by everything that determines its result."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gradwalk import activations, checks
from gradwalk.activations import Array
from gradwalk.data import DATASETS, Dataset, Scaling
from gradwalk.nets.gains import Gains, default_gains
from gradwalk.nets.initialisers import INITIALISERS, Initialiser
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.widths import autoencoder_widths, classifier_widths
from gradwalk.train.rates import RATE_RANGE, depth_rates

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _not_too_small(rate: float) -> float:
    if rate < RATE_RANGE[0]:
        raise ValueError(f"must be at least {RATE_RANGE[0]:g}")
    return rate


Rate = Annotated[float, Field(gt=0, le=RATE_RANGE[1], allow_inf_nan=False), AfterValidator(_not_too_small)]
LARGEST_SEED = 2**63 - 1
DEEPEST = 1_000_000  # layers of a network that is trained


class Architecture(NamedTuple):
    """The widths of a network, input first, and the activation of each layer of weights."""

    widths: tuple[int, ...]
    activations: tuple[str, ...]


class Run(BaseModel):
    """One network, its data and how it is trained.

    weights: the name of an initialiser; "gaussian" and "orthogonal" weights are scaled by the gains, others have a
    scale of their own and take no gain. width: of all hidden layers; if it is given, `params`, the parameter limit of
    the paper's rule, is None. gain: of all layers that read an activation; None for the unbiased gain. gain_in: of the
    first layer (g_1); None for `gain`. gain_out: of the last layer (g_D); None for `gain`. deepest: D_max of the
    learning rates over depth. bias_rate: the learning rate of the biases relative to that of the weights; 0 freezes
    them. optimizer: its name, with parameters in parentheses as in "adam(beta2=0.99)". weight_decay: as in torch.optim,
    an L2 term of the gradient, or decoupled for "adamw". decay: factor of all learning rates after each epoch. clip:
    the largest norm of the gradient of all parameters together; longer gradients are scaled down to it. measure_every:
    both splits are measured after every so many epochs, and after the last; `stop_at_zero` looks only then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = "mnist"
    examples: int | None = Field(None, ge=1, le=checks.WIDEST)
    scaling: Scaling = "dimension"
    task: Literal["classify", "reconstruct"] = "classify"
    activation: str = "tanh"
    weights: str = "gaussian"
    depth: int = Field(64, ge=2, le=DEEPEST)
    params: Positive | None = 4e6
    width: int | None = Field(None, ge=1, le=checks.WIDEST)
    gain: Positive | None = None
    gain_in: Positive | None = 1.0
    gain_out: Positive | None = None
    rate_in: Rate = 0.01
    rate_out: Rate = 0.01
    deepest: int | None = Field(None, le=DEEPEST)
    bias_rate: float = Field(1.0, ge=0, allow_inf_nan=False)
    optimizer: str = "sgd"
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    decay: float = Field(0.995, gt=0, le=1)
    batch: int = Field(100, ge=1, le=checks.WIDEST)
    clip: Positive | None = 10.0
    epochs: int = Field(20, ge=1, le=checks.WIDEST)
    measure_every: int = Field(1, ge=1, le=checks.WIDEST)
    stop_at_zero: bool = False
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    data_seed: int = Field(0, ge=0, le=LARGEST_SEED)

    @model_validator(mode="before")
    @classmethod
    def _width_or_params(cls, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("width") is None:
            if given.get("params", 0) is None:
                raise ValueError("params must be a number if no width is given, got params=None")
            return given
        if given.get("params") is not None:
            raise ValueError(
                f"only one of width and params can be given, got width={given['width']!r} and "
                f"params={given['params']!r}"
            )
        if given.get("task") == "reconstruct":
            raise ValueError(
                "width must be None for task='reconstruct', whose widths follow from params, "
                f"got width={given['width']!r}"
            )
        return given | {"params": None}

    @field_validator("data")
    @classmethod
    def _known_data(cls, name: str) -> str:
        return DATASETS.find(name, "run").name

    @field_validator("weights")
    @classmethod
    def _known_weights(cls, name: str) -> str:
        return INITIALISERS.find(name, "run").name

    @field_validator("optimizer")
    @classmethod
    def _known_optimizer(cls, text: str) -> str:
        return str(parse_optimizer(text, "run"))

    @field_validator("activation")
    @classmethod
    def _known_activation(cls, name: str) -> str:
        return activations.activation(name).name

    @model_validator(mode="after")
    def _deep_enough(self) -> Run:
        if self.deepest is not None and self.deepest < self.depth:
            raise ValueError(f"deepest must be at least the depth {self.depth}, got deepest={self.deepest}")
        return self

    @model_validator(mode="after")
    def _gains_only_where_taken(self) -> Run:
        for name in () if self.initialiser.takes_gain else ("gain", "gain_in", "gain_out"):
            value = getattr(self, name)
            if value != Run.model_fields[name].default:
                raise ValueError(
                    f"{name} cannot be set for weights={self.weights!r}, which have a scale of their own, "
                    f"got {name}={value}"
                )
        return self

    @property
    def initialiser(self) -> Initialiser:
        """The initialiser that draws the weights."""
        return INITIALISERS.find(self.weights, "run")

    def architecture(self, data: Dataset) -> Architecture:
        """Return widths and activations: of the given width, or by the paper's rule for the parameter limit."""
        inputs = data.train.width
        if self.task == "classify":
            widths = self._classifier_widths(inputs, data.classes)
            return Architecture(widths, (self.activation,) * (self.depth - 1) + ("linear",))
        assert self.params is not None
        widths = autoencoder_widths(inputs, self.depth, self.params)
        layers = [self.activation] * self.depth
        layers[self.depth // 2 - 1] = layers[-1] = "linear"
        return Architecture(widths, tuple(layers))

    def _classifier_widths(self, inputs: int, classes: int) -> tuple[int, ...]:
        if self.width is not None:
            return (inputs, *[self.width] * (self.depth - 1), classes)
        assert self.params is not None
        return classifier_widths(inputs, classes, self.depth, self.params)

    def gains(self, widths: tuple[int, ...]) -> Gains | None:
        """Return the gains of the layers, unbiased where none is given; None for weights with a scale of their own."""
        walk = self.initialiser.walk
        if walk is None:
            return None
        defaults = default_gains(activations.activation(self.activation), widths, walk, self.gain)
        return Gains(self.gain_in or defaults.gain, defaults.gain, self.gain_out or defaults.gain)

    def rates(self) -> Array:
        """Return the learning rate of each layer in the first epoch, input first."""
        return depth_rates(self.depth, self.rate_in, self.rate_out, self.deepest)

    def identity(self, data: Dataset) -> str:
        """Return a digest of everything that determines the result, including the content of the data."""
        activation = activations.identity(activations.activation(self.activation))
        facts = self.model_dump() | {"data": data.digest, "activation": activation}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]

    def is_measured(self, epoch: int) -> bool:
        """Return whether both splits are measured after this epoch, counted from 1."""
        return epoch % self.measure_every == 0 or epoch >= self.epochs

    def stacks_with(self) -> tuple[Any, ...]:
        """Return what runs must share to train in one stack: architecture, data, minibatches, optimizer and so on."""
        return (
            *(self.data, self.examples, self.scaling, self.task),
            *(self.activation, self.depth, self.params, self.width, self.batch, self.data_seed, self.optimizer),
            self.measure_every,
        )


def checked_run(where: str, **settings: Any) -> Run:
    """Return the run of these settings, or raise a ValueError that names the invalid one.

    >>> checked_run("train", depth=1)
    Traceback (most recent call last):
    ValueError: train: depth must be greater than or equal to 2, got depth=1
    """
    try:
        return Run(**settings)
    except ValidationError as error:
        raise ValueError(f"{where}: {sentence(error)}") from None


def sentence(error: ValidationError) -> str:
    """Return one sentence about the first invalid key; pydantic's own messages begin with "Input should"."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key!r}"
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]).removeprefix("run: ")
    requirement = first["msg"].removeprefix("Input should ")
    return f"{key} must {requirement}, got {key}={checks.shown(first['input'])}"
