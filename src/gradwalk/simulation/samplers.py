"""Which sampler draws a network: of a chain or of blocks, with one gradient, a pair of them or a frame."""

from typing import Any, Literal, get_args

from gradwalk.activations import Activation
from gradwalk.blocks import Block, Dense, output_width, weight_layers
from gradwalk.simulation.block_pairs import BlockFrames, BlockGradientPairs, BlockInputPairs
from gradwalk.simulation.blocks import BlockForward, BlockSampler
from gradwalk.simulation.dense import DenseSampler
from gradwalk.simulation.exact import ExactSampler
from gradwalk.simulation.frames import Frames, FrameSampler
from gradwalk.simulation.input_pairs import InputPairSampler
from gradwalk.simulation.pairs import GradientPairSampler, PairKind
from gradwalk.simulation.sampler import Sampler

Method = Literal["exact", "dense"]
METHODS: tuple[Method, ...] = get_args(Method)
PAIRS: tuple[PairKind, ...] = get_args(PairKind)

AnySampler = type[Sampler[Any, Any, Any]]  # each sampler keeps layers and gradients of its own types
AnyFrames = type[FrameSampler[Any, Any, Any]]

LEAST_UNITS = 3  # of a layer: two inputs and a direction across them
_SAMPLERS: dict[Method, AnySampler] = {"exact": ExactSampler, "dense": DenseSampler}
_PAIRS: dict[PairKind, AnySampler] = {"gradients": GradientPairSampler, "inputs": InputPairSampler}
_BLOCK_PAIRS: dict[PairKind, type[BlockForward]] = {"gradients": BlockGradientPairs, "inputs": BlockInputPairs}


def is_chain(network: Activation | Block) -> bool:
    """Return whether a network is a chain of one activation, with dropout or without."""
    return not isinstance(network, Block) or (isinstance(network, Dense) and network.width is None)


def single_sampler(network: Activation | Block, method: Method, widths: tuple[int, ...]) -> AnySampler:
    """Return the sampler of one gradient per network."""
    if isinstance(network, Block) and method != "exact":
        raise ValueError(f"simulate: networks of blocks are sampled by method='exact' only, got method={method!r}")
    if is_chain(network):
        return _SAMPLERS[method]
    return BlockSampler.of(repeated("simulate", network, widths))


def pair_sampler(network: Activation | Block, pair: PairKind, widths: tuple[int, ...]) -> AnySampler:
    """Return the sampler of two gradients per network."""
    narrowest = least_units(network, widths)
    if narrowest < LEAST_UNITS:
        raise ValueError(f"simulate: pairs need at least {LEAST_UNITS} units per layer, got a layer of {narrowest}")
    if is_chain(network):
        return _PAIRS[pair]
    return _BLOCK_PAIRS[pair].of(repeated("simulate", network, widths))  # type: ignore[return-value]


def frame_sampler(network: Activation | Block, widths: tuple[int, ...]) -> AnyFrames:
    """Return the sampler of a frame of gradients per network."""
    return Frames if is_chain(network) else BlockFrames.of(repeated("directions", network, widths))


def least_units(network: Activation | Block, widths: tuple[int, ...]) -> int:
    """Return the number of units of the narrowest layer, those within blocks included."""
    layers = weight_layers(network) if isinstance(network, Block) else ()
    return min(*widths, *(layer.width for layer in layers if layer.width is not None))


def repeated(where: str, network: Activation | Block, widths: tuple[int, ...]) -> Block:
    """Return a block that can be repeated at these widths, or raise if it cannot."""
    assert isinstance(network, Block)
    if len(set(widths)) > 1 or output_width(network, widths[0]) != widths[0]:
        raise ValueError(f"{where}: a block that is repeated must return as many units as it reads; pass one width")
    return network
