"""What computes the operations of a pass: torch alone, NumPy and torch, or compiled code.

A library plans operations as steps, which are bound to their operands. "torch" is for any device. On a CPU, "numpy"
takes NumPy where it is faster (`products`, `pointwise`), and "compiled" takes `gradwalk.compiled`, in which the
operations of a pass are one call without Python's lock, and the two others for activations that it does not have.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from gradwalk import checks, compiled
from gradwalk.nets.libraries import Library
from gradwalk.nets.widths import layer_flops

Kernels = Literal["auto", "compiled", "numpy", "torch"]
KERNELS: tuple[Kernels, ...] = get_args(Kernels)

# Of one product of all layers, from which on "auto" is "compiled": below, a training takes about as long as loading it.
COMPILED_FLOPS = 1e7


def library(
    kernels: str,
    device: str | torch.device,
    widths: Sequence[int],
    batch: int,
    where: str = "train",
    precision: torch.dtype = torch.float32,
) -> Library:
    """Return what computes networks of these widths on a device; compiled code is for single precision.

    The choice depends on nothing else but what is installed and the processor, for the last bits of a run do.

    >>> library("auto", "cuda", (64, 20, 10), 100).name, library("auto", "cpu", (64, 20, 10), 100).name
    ('torch', 'numpy')
    """
    name = checks.one_of(where, "kernels", kernels, KERNELS)
    on_cpu = torch.device(device).type == "cpu"
    if name == "auto":
        large = (len(widths) - 1) * layer_flops(widths, batch) >= COMPILED_FLOPS
        served = large and precision == torch.float32 and compiled.available()
        name = "torch" if not on_cpu else "compiled" if served else "numpy"
    if name != "torch" and not on_cpu:
        raise ValueError(f'{where}: kernels must be "auto" or "torch" on {device}, got kernels={name!r}')
    if name == "compiled":
        if not compiled.available():
            raise ValueError(
                f'{where}: kernels="compiled" takes Numba (pip install "gradwalk[compiled]") and an x86 processor with '
                "AVX2 and FMA"
            )
        from gradwalk.nets.machine_code import CompiledLibrary

        return CompiledLibrary()
    return Library(by_numpy=name == "numpy")
