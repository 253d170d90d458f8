"""Networks: widths, initialisers, stacks of networks that train together, optimizers, export."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gradwalk.nets needs PyTorch: pip install 'gradwalk[torch]'", name="torch") from error

from gradwalk.nets.blueprint import Blueprint
from gradwalk.nets.device import check_device
from gradwalk.nets.export import load_network, save_network, sequential
from gradwalk.nets.gains import Gains, default_gains
from gradwalk.nets.initialisers import INITIALISERS, Initialiser, initial_layers
from gradwalk.nets.losses import CrossEntropy, SquaredError
from gradwalk.nets.memory import stack_bytes
from gradwalk.nets.optimizers import OPTIMIZERS, Optimizer, Parameter, parse_optimizer
from gradwalk.nets.stack import Stack
from gradwalk.nets.updates import Updater
from gradwalk.nets.widths import autoencoder_widths, classifier_widths, parameter_count

__all__ = [
    "INITIALISERS",
    "OPTIMIZERS",
    "Blueprint",
    "CrossEntropy",
    "Gains",
    "Initialiser",
    "Optimizer",
    "Parameter",
    "SquaredError",
    "Stack",
    "Updater",
    "autoencoder_widths",
    "check_device",
    "classifier_widths",
    "default_gains",
    "initial_layers",
    "load_network",
    "parameter_count",
    "parse_optimizer",
    "save_network",
    "sequential",
    "stack_bytes",
]
