"""The names that PyTorch keeps under `torch.utils`."""

from rushlight.support.peer_names import absent_name
from rushlight.utils import checkpoint, data, dlpack, flop_counter
from rushlight.utils.swapping import swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "flop_counter", "swap_tensors"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
