"""gradwalk for PyTorch: initialise a model so that its gradient does an unbiased walk, and check that it does.

`random_walk_` fills one tensor; `plan` shows what `init_` would do to a whole model, and `init_` does it; `Leak`
and `Steady` make activations usable in deep networks; `probe` measures the walk and compares it with the prediction;
`compare` shows it under several initialisations; `calibrate_` tunes it on data; `Monitor` records it during training.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gradwalk.torch needs PyTorch: pip install 'gradwalk[torch]'", name="torch") from error

from gradwalk.plans import LayerRole, Plan, PlanRow
from gradwalk.torch.calibrate import Calibration, calibrate_
from gradwalk.torch.compare import Comparison, compare
from gradwalk.torch.counterparts import counterpart, counterpart_of_function, module_for
from gradwalk.torch.elementwise import Elementwise
from gradwalk.torch.init import init_
from gradwalk.torch.layers import Exclusion, Layers, LeftAlone, WeightLayer, find_layers
from gradwalk.torch.leak import Leak
from gradwalk.torch.monitor import Monitor
from gradwalk.torch.plan import plan
from gradwalk.torch.probe import probe
from gradwalk.torch.random_walk import random_walk_
from gradwalk.torch.signals import Merge, Note, Signal
from gradwalk.torch.steady import Steady
from gradwalk.torch.trace import Trace
from gradwalk.torch.walk import GradientWalk

__all__ = [
    "Calibration",
    "Comparison",
    "Elementwise",
    "Exclusion",
    "GradientWalk",
    "LayerRole",
    "Layers",
    "Leak",
    "LeftAlone",
    "Merge",
    "Monitor",
    "Note",
    "Plan",
    "PlanRow",
    "Signal",
    "Steady",
    "Trace",
    "WeightLayer",
    "calibrate_",
    "compare",
    "counterpart",
    "counterpart_of_function",
    "find_layers",
    "init_",
    "module_for",
    "plan",
    "probe",
    "random_walk_",
]
