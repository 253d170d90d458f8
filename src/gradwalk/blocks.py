"""A vocabulary of blocks: weight layers, norms, dropout and residual sums, from which networks are described.

A network is one block repeated `depth` times. A chain is the simplest case: `simulate("relu", ...)` repeats
`dense("relu")`. `dense(f)` applies f to the signal and multiplies the result with the weights, so that the first weight
layer of a branch, which reads the stream itself, is `dense("linear")`:

    residual(norm("rms"), dense("linear"), dense("gelu", gain=1.6), scale=0.07)
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gradwalk import activations, checks
from gradwalk.activations import Activation

NormKind = Literal["layer", "rms"]


@dataclass(frozen=True)
class Dense:
    """A weight layer: x -> g W dropout(f(x)), the entries of W having variance 1 / fan_in; `width` outputs."""

    activation: Activation
    gain: float = 1.0
    dropout: float = 0.0
    width: int | None = None

    def __str__(self) -> str:
        more = [f"gain={self.gain:g}"] * (self.gain != 1) + [f"dropout={self.dropout:g}"] * bool(self.dropout)
        more += [f"width={self.width}"] * (self.width is not None)
        return f"dense({', '.join([self.activation.name, *more])})"


@dataclass(frozen=True)
class Norm:
    """A layer norm or RMS norm without parameters, over all units or within each of `groups` groups of units."""

    kind: NormKind = "layer"
    groups: int = 1

    def __str__(self) -> str:
        return f"norm({self.kind}{f', groups={self.groups}' * (self.groups > 1)})"


@dataclass(frozen=True)
class Dropout:
    """Zeroes each unit with probability `rate` and divides the others by 1 - rate."""

    rate: float

    def __str__(self) -> str:
        return f"dropout({self.rate:g})"


@dataclass(frozen=True)
class Chain:
    """Parts applied one after another."""

    parts: "tuple[Block, ...]"

    def __str__(self) -> str:
        return f"chain({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Residual:
    """A residual sum: x -> skip * x + scale * branch(x)."""

    branch: Chain
    scale: float = 1.0
    skip: float = 1.0

    def __str__(self) -> str:
        more = [f"{name}={value:g}" for name, value in (("scale", self.scale), ("skip", self.skip)) if value != 1]
        return f"residual({', '.join([*map(str, self.branch.parts), *more])})"


Block: TypeAlias = Dense | Norm | Dropout | Chain | Residual
"""What `dense`, `norm`, `dropout`, `chain` and `residual` return: a part of a network, for `simulate`."""


def dense(
    activation: str | Activation = "linear", *, gain: float = 1.0, dropout: float = 0.0, width: int | None = None
) -> Dense:
    """Return a weight layer that reads `activation` of its input.

    Args:
        activation: applied to the input before the weights; "linear" for a layer that reads the stream itself.
        gain: the factor g on weights of standard deviation 1 / sqrt(fan_in).
        dropout: the rate of dropout between the activation and the weights.
        width: the number of outputs (default: as many as inputs); the last layer of a branch must have as many as the
            stream.

    Returns:
        A block for `simulate`, `chain`, `residual` and `solve_gain`.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> dense("relu", gain=1.4323).activation.name
    'relu'
    """
    f = activations.activation(activation)
    checks.positive("dense", "gain", gain, *checks.GAIN_RANGE)
    units = None if width is None else checks.whole("dense", "width", width)
    return Dense(f, float(gain), checks.rate("dense", "dropout", dropout), units)


def norm(kind: NormKind = "layer", *, groups: int = 1) -> Norm:
    """Return a norm without parameters, over all units or over groups of neighbouring ones.

    There is no "batch": batch norm ties the examples of a batch together, so that the gradient of one example passes
    through all of them, and walks of single vectors do not have its law. In real models it is measured only
    (`gradwalk.torch.probe`).

    Args:
        kind: "layer" subtracts the mean and divides by the standard deviation; "rms" divides by the root mean square.
        groups: the number of groups of neighbouring units, each normed by itself; it must divide the width.

    Returns:
        A block for `simulate`, `chain` and `residual`.

    Raises:
        ValueError: if there is no such kind, or `groups` is below 1.

    >>> str(norm("rms", groups=4))
    'norm(rms, groups=4)'
    """
    checks.one_of("norm", "kind", kind, ("layer", "rms"))
    return Norm(kind, checks.whole("norm", "groups", groups))


def dropout(rate: float) -> Dropout:
    """Return dropout of the signal itself; between an activation and its weights, use `dense(..., dropout=rate)`.

    Args:
        rate: the probability that a unit is set to 0; the others are divided by 1 - rate.

    Returns:
        A block for `simulate`, `chain` and `residual`.

    Raises:
        ValueError: if the rate is not at least 0 and below 1.

    >>> str(dropout(0.1))
    'dropout(0.1)'
    """
    return Dropout(checks.rate("dropout", "rate", rate))


def chain(*parts: Block) -> Chain:
    """Return the parts as one block, applied in this order.

    Args:
        parts: blocks, as `dense`, `norm`, `dropout`, `chain` and `residual` return them.

    Returns:
        A block for `simulate`, `residual` and `solve_gain`.

    Raises:
        ValueError: if there are no parts.
        TypeError: if a part is not a block.

    >>> str(chain(norm("rms"), dense("relu")))
    'chain(norm(rms), dense(relu))'
    """
    return Chain(_parts("chain", parts))


def residual(*branch: Block, scale: float = 1.0, skip: float = 1.0) -> Residual:
    """Return the block x -> skip * x + scale * branch(x), the branch being these parts in order.

    Args:
        branch: blocks, as `dense`, `norm`, `dropout`, `chain` and `residual` return them; together they must return as
            many units as they read.
        scale: the factor on the branch; see `branch_scale`.
        skip: the factor on the skip connection.

    Returns:
        A block for `simulate`, `chain` and `branch_scale`.

    Raises:
        ValueError: if there is no branch, or a factor is out of range.
        TypeError: if a part is not a block.

    >>> block = residual(norm("rms"), dense("linear"), dense("relu", gain=1.4323), scale=0.1)
    >>> len(list(weight_layers(block)))
    2
    """
    parts = _parts("residual", branch)
    for name, value in (("scale", scale), ("skip", skip)):
        checks.positive("residual", name, value, *checks.GAIN_RANGE)
    return Residual(Chain(parts), float(scale), float(skip))


def weight_layers(block: Block) -> Iterator[Dense]:
    """Yield the weight layers of a block in the order of the forward pass."""
    if isinstance(block, Dense):
        yield block
    elif isinstance(block, Chain):
        for part in block.parts:
            yield from weight_layers(part)
    elif isinstance(block, Residual):
        yield from weight_layers(block.branch)


def contains(block: Block, kind: type[Dense | Norm | Dropout | Residual]) -> bool:
    """Return whether a part of this kind is in the block, those in branches included.

    >>> contains(chain(norm("rms"), dense("relu")), Norm), contains(dense("relu"), Residual)
    (True, False)
    """
    inner = block.parts if isinstance(block, Chain) else block.branch.parts if isinstance(block, Residual) else ()
    return isinstance(block, kind) or any(contains(part, kind) for part in inner)


def scaled(block: Block, factor: float) -> Block:
    """Return the block with the gains of all its weight layers multiplied by a factor."""
    if isinstance(block, Dense):
        return replace(block, gain=block.gain * factor)
    if isinstance(block, Chain):
        return Chain(tuple(scaled(part, factor) for part in block.parts))
    if isinstance(block, Residual):
        return replace(block, branch=Chain(tuple(scaled(part, factor) for part in block.branch.parts)))
    return block


def output_width(block: Block, width: int) -> int:
    """Return the number of units that leave the block if `width` enter; a residual sum must not change it."""
    if isinstance(block, Dense):
        return block.width or width
    if isinstance(block, Chain):
        for part in block.parts:
            width = output_width(part, width)
        return width
    if isinstance(block, Norm) and width % block.groups:
        raise ValueError(f"norm: groups must divide the number of units, got groups={block.groups} and {width} units")
    if isinstance(block, Residual) and (out := output_width(block.branch, width)) != width:
        raise ValueError(f"residual: the branch must return as many units as it reads, got {out} from {width}")
    return width


def narrowest(block: Block, width: int) -> int:
    """Return the number of units at the narrowest place that all of the signal passes if `width` units enter.

    >>> narrowest(chain(dense("relu", width=4), dense("relu", width=9)), 9), narrowest(residual(dense(), dense()), 9)
    (4, 9)
    """
    if not isinstance(block, Chain):
        return min(width, output_width(block, width))
    widths = [width]
    for part in block.parts:
        widths += [narrowest(part, width), width := output_width(part, width)]
    return min(widths)


def _parts(where: str, parts: tuple[Block, ...]) -> tuple[Block, ...]:
    if not parts:
        raise ValueError(f"{where}: at least one part is needed")
    for part in parts:
        if not isinstance(part, Block):
            raise TypeError(f"{where}: parts must be dense, norm, dropout, chain or residual, got {part!r}")
    return parts
