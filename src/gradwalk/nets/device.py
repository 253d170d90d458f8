"""The device on which networks train: whether torch can use it, and its free memory.

Torch is asked only about devices other than the CPU.
"""

import psutil


def check_device(device: str, where: str = "train") -> str:
    """Return the name of a device, or raise a ValueError if torch cannot train on it.

    >>> check_device("gpu")
    Traceback (most recent call last):
    ValueError: train: device must be one that torch can use here, such as 'cpu', got device='gpu' (Expected one of ...
    """
    if isinstance(device, str) and device == "cpu":
        return device
    import torch

    try:
        if torch.empty(0, device=device).device.type == "meta":
            raise RuntimeError("meta tensors have no data")
    except Exception as error:  # of many classes: torch asserts that it was built with CUDA, and imports for others
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{where}: device must be one that torch can use here, such as 'cpu', got device={device!r} ({reason})"
        ) from None
    return device


def free_memory(device: str) -> float:
    """Return the free bytes of a CUDA device, or of the machine for other devices."""
    if device.partition(":")[0] == "cuda":
        import torch

        return float(torch.cuda.mem_get_info(device)[0])
    return float(psutil.virtual_memory().available)
