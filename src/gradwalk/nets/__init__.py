"""Networks: widths, initialisers, stacks of networks that train together, optimizers, export."""

from typing import TYPE_CHECKING

from gradwalk.lazy import lazily
from gradwalk.nets.blueprint import Blueprint
from gradwalk.nets.device import check_device
from gradwalk.nets.footprint import stack_bytes
from gradwalk.nets.gains import Gains, default_gains
from gradwalk.nets.initialisers import INITIALISERS, Initialiser
from gradwalk.nets.optimizers import OPTIMIZERS, Optimizer, parse_optimizer
from gradwalk.nets.widths import autoencoder_widths, classifier_widths, parameter_count

if TYPE_CHECKING:
    from gradwalk.nets.draws import initial_layers
    from gradwalk.nets.export import load_network, save_network, sequential
    from gradwalk.nets.losses import CrossEntropy, SquaredError
    from gradwalk.nets.parameter import Parameter
    from gradwalk.nets.stack import Stack
    from gradwalk.nets.updates import Updater
else:  # with torch
    __getattr__ = lazily(
        "gradwalk.nets",
        {
            "draws": ("initial_layers",),
            "export": ("load_network", "save_network", "sequential"),
            "losses": ("CrossEntropy", "SquaredError"),
            "parameter": ("Parameter",),
            "stack": ("Stack",),
            "updates": ("Updater",),
        },
    )

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
