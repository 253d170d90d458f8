"""A run: one optimization, by all that determines its result."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gradwalk import activations, checks
from gradwalk.data import DATASETS, Dataset, Scaling
from gradwalk.nets.initial import PEERS, SCHEMES, Gains, default_gains
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.widths import autoencoder_widths, classifier_widths
from gradwalk.train.rates import depth_rates

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LARGEST_SEED = 2**63 - 1


class Architecture(NamedTuple):
    """The widths of a network, input first, and the activation of each layer of weights."""

    widths: tuple[int, ...]
    activations: tuple[str, ...]


class Run(BaseModel):
    """One network, its data and how it is trained.

    weights: "gaussian" or "orthogonal", scaled by the gain; or one of `PEERS`, which take no gain. width: of all hidden
    layers; where it is given, `params`, the parameter limit of the paper's rule, is None.
    gain: of all layers that read an activation, the unbiased one where it is None. gain_in: of the first layer (g_1).
    gain_out: of the last (g_D), `gain` where it is None. deepest: D_max of the schedule of learning rates.
    bias_rate: the biases' learning rate is this times the weights'; 0 freezes them. clip: the greatest norm of the
    gradient of all parameters together; longer ones are shortened to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = "mnist"
    examples: int | None = Field(None, ge=1)
    scaling: Scaling = "dimension"
    task: Literal["classify", "reconstruct"] = "classify"
    activation: str = "tanh"
    weights: str = "gaussian"
    depth: int = Field(64, ge=2)
    params: Positive | None = 4e6
    width: int | None = Field(None, ge=1, le=checks.WIDEST)
    gain: Positive | None = None
    gain_in: Positive = 1.0
    gain_out: Positive | None = None
    rate_in: Positive = 0.01
    rate_out: Positive = 0.01
    deepest: int | None = None
    bias_rate: float = Field(1.0, ge=0, allow_inf_nan=False)
    optimizer: str = "sgd"
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    decay: float = Field(0.995, gt=0, le=1)
    batch: int = Field(100, ge=1)
    clip: Positive | None = 10.0
    epochs: int = Field(20, ge=1)
    stop_at_zero: bool = False
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    data_seed: int = Field(0, ge=0, le=LARGEST_SEED)

    @model_validator(mode="before")
    @classmethod
    def _width_or_params(cls, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("width") is None:
            if given.get("params", 0) is None:
                raise ValueError("params must be a number where no width is given, got params=None")
            return given
        if given.get("params") is not None:
            raise ValueError(
                f"width takes the place of params, and only one of them can be given, got width={given['width']!r} and "
                f"params={given['params']!r}"
            )
        if given.get("task") == "reconstruct":
            raise ValueError(
                f"width is for task='classify'; an auto-encoder's follow from params, got width={given['width']!r}"
            )
        return given | {"params": None}

    @field_validator("data")
    @classmethod
    def _known_data(cls, name: str) -> str:
        return DATASETS.find(name, "run").name

    @field_validator("weights")
    @classmethod
    def _known_weights(cls, name: str) -> str:
        return checks.one_of("run", "weights", name, SCHEMES)

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
    def _gains_for_walks_alone(self) -> Run:
        for name in ("gain", "gain_in", "gain_out"):
            value = getattr(self, name)
            if self.weights in PEERS and value != Run.model_fields[name].default:
                raise ValueError(
                    f"{name} is not for weights={self.weights!r}, which have a scale of their own, got {name}={value}"
                )
        return self

    def architecture(self, data: Dataset) -> Architecture:
        """Return the widths and activations: of the given width, or by the paper's rule for the parameter limit."""
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

    def gains(self, widths: tuple[int, ...]) -> Gains:
        """Return g_1, g and g_D, the unbiased gain where none is given; the weights of `PEERS` have none."""
        if self.weights in PEERS:
            raise ValueError(f"run: weights={self.weights!r} have a scale of their own and no gain")
        unbiased = default_gains(activations.activation(self.activation), widths, self.weights, self.gain)
        return Gains(self.gain_in, unbiased.gain, self.gain_out or unbiased.gain)

    def rates(self) -> Any:
        """Return the learning rate of each layer in the first epoch, input first."""
        return depth_rates(self.depth, self.rate_in, self.rate_out, self.deepest)

    def identity(self, data: Dataset) -> str:
        """Return a digest of all that determines the result, the data's content included."""
        facts = self.model_dump() | {"data": data.digest}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]

    def stacks_with(self) -> tuple[Any, ...]:
        """Return what runs must share to train in one stack: architecture, data, minibatches and optimizer."""
        return (
            *(self.data, self.examples, self.scaling, self.task),
            *(self.activation, self.depth, self.params, self.width, self.batch, self.data_seed, self.optimizer),
        )


def checked_run(where: str, **settings: Any) -> Run:
    """Return the run of these settings, or say in one sentence which of them is wrong.

    >>> checked_run("train", depth=1)
    Traceback (most recent call last):
    ValueError: train: depth must be greater than or equal to 2, got depth=1
    """
    try:
        return Run(**settings)
    except ValidationError as error:
        raise ValueError(f"{where}: {sentence(error)}") from None


def sentence(error: ValidationError) -> str:
    """Return what is wrong with the first bad key, as one sentence with the key's name.

    Our own checks say it whole; pydantic's begin with "Input should".
    """
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key!r}"
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]).removeprefix("run: ")
    said = first["msg"].removeprefix("Input should ")
    return f"{key} must {said}, got {key}={first['input']!r}"
