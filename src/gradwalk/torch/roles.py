"""What modules and functions of torch do to a signal on its way through a network."""

import re
from enum import Enum, auto
from functools import lru_cache

from torch import fx, nn

from gradwalk.activations import Activation
from gradwalk.torch.counterparts import counterpart
from gradwalk.torch.weight_layers import is_weight_layer


class Role(Enum):
    """What a module or a function does to a signal.

    Modules without a role (UNKNOWN) are looked into where the trace can do so.
    """

    WEIGHTS = auto()
    ACTIVATION = auto()
    NORM = auto()
    POOLING = auto()
    PASSING = auto()  # moves elements: reshapes, padding
    DROPOUT = auto()
    RESAMPLING = auto()  # copies or interpolates
    EMBEDDING = auto()
    ATTENTION = auto()
    RECURRENT = auto()
    MERGE = auto()  # adds or concatenates
    MATRIX_PRODUCT = auto()
    PRODUCT = auto()
    QUERY = auto()  # returns a size or another property, no signal
    UNKNOWN = auto()


_FX = fx.Tracer()  # its rule for modules to take as a whole: all of torch.nn except containers

_HOMES = {
    "pooling": Role.POOLING,
    "dropout": Role.DROPOUT,
    "upsampling": Role.RESAMPLING,
    "flatten": Role.PASSING,
    "padding": Role.PASSING,
    "pixelshuffle": Role.PASSING,
}


def role_of_module(module: nn.Module) -> tuple[Role, Activation | None]:
    """Return the role of a module, and the activation it computes if that is its role."""
    kind = type(module)
    if kind in (nn.Sequential, nn.ModuleList):
        return Role.UNKNOWN, None
    if is_weight_layer(module):
        return Role.WEIGHTS, None
    activation = counterpart(module)
    return (Role.ACTIVATION, activation) if activation is not None else (_other_role(module, kind), None)


def _other_role(module: nn.Module, kind: type[nn.Module]) -> Role:
    home = kind.__module__
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        return Role.RECURRENT
    if re.search(r"(Attention|Attn)$", kind.__name__) and any(True for _ in module.parameters()):
        return Role.ATTENTION
    if home == "torch.nn.modules.transformer":
        return Role.ATTENTION
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return Role.EMBEDDING
    if "norm" in kind.__name__.lower() and not any(map(is_weight_layer, module.modules())):
        return Role.NORM
    if kind.__name__ in ("DropPath", "StochasticDepth"):
        return Role.PASSING
    if kind is nn.GLU:
        return Role.PRODUCT
    return _HOMES.get(home.removeprefix("torch.nn.modules."), Role.UNKNOWN)


def is_torch_leaf(module: nn.Module) -> bool:
    """Return whether torch.fx takes a module as a whole rather than tracing into it."""
    return _FX.is_leaf_module(module, "")


QUERIES = frozenset(
    ("size", "dim", "numel", "ndimension", "shape", "device", "dtype", "ndim", "get_device", "is_floating_point")
)
_PASSING = frozenset(
    (  # noqa: SIM905
        "view view_as reshape reshape_as flatten unflatten transpose permute contiguous squeeze unsqueeze t "
        "movedim moveaxis swapaxes swapdims expand expand_as repeat repeat_interleave pad roll flip narrow "
        "select index_select gather chunk split tensor_split unbind getitem getattr get to float half double "
        "bfloat16 type type_as clone detach cpu cuda pixel_shuffle pixel_unshuffle unfold masked_fill "
    ).split()
)
_DROPOUT = frozenset(
    ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "feature_dropout")
)
_POOLING = frozenset(("mean", "sum", "amax", "max"))
_RESAMPLING = frozenset(("interpolate", "upsample", "repeat_interleave", "grid_sample"))
_MERGING = frozenset(
    ("add", "radd", "iadd", "sub", "rsub", "isub", "cat", "concat", "concatenate", "stack", "hstack", "lerp")
)
_PRODUCTS = frozenset(
    ("mul", "rmul", "imul", "div", "truediv", "rtruediv", "itruediv", "multiply", "divide", "neg", "glu", "addcmul")
)
_MATRIX_PRODUCTS = frozenset(
    ("matmul", "rmatmul", "imatmul", "mm", "bmm", "einsum", "addmm", "baddbmm", "linear", "tensordot")
)
_ATTENTION = frozenset(("scaled_dot_product_attention", "multi_head_attention_forward", "flex_attention"))
_EXACT = {
    Role.QUERY: QUERIES,
    Role.EMBEDDING: {"embedding"},
    Role.PASSING: _PASSING,
    Role.DROPOUT: _DROPOUT,
    Role.RESAMPLING: _RESAMPLING,
    Role.MERGE: _MERGING,
    Role.ATTENTION: _ATTENTION,
    Role.MATRIX_PRODUCT: _MATRIX_PRODUCTS,
    Role.PRODUCT: _PRODUCTS,
}
_ROLES = {name: role for role, names in _EXACT.items() for name in names}


@lru_cache(maxsize=1024)
def role_of_function(name: str) -> Role:
    """Return the role of a function or tensor method, by its name without underscores around it."""
    if name in _ROLES:
        return _ROLES[name]
    if "norm" in name and name != "norm":
        return Role.NORM
    if "pool" in name or name in _POOLING:
        return Role.POOLING
    return Role.MATRIX_PRODUCT if re.match(r"conv(_transpose)?[123]d$", name) else Role.UNKNOWN
