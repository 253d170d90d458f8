"""gradwalk for PyTorch: initialise a model so that its gradient does an unbiased walk.

`random_walk_` fills one tensor, `init_` a whole model and reports on it, `Steady` tames gelu, silu and mish.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gradwalk.torch needs PyTorch: pip install 'gradwalk[torch]'", name="torch") from error

from gradwalk.torch.init import InitReport, InitRow, init_, random_walk_
from gradwalk.torch.layers import Layers, LeftAlone, WeightLayer, find_layers
from gradwalk.torch.steady import Steady

__all__ = [
    "InitReport",
    "InitRow",
    "Layers",
    "LeftAlone",
    "Steady",
    "WeightLayer",
    "find_layers",
    "init_",
    "random_walk_",
]
