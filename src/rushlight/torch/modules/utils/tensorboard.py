"""`torch.utils.tensorboard`: the writer of tensorboardX, which needs neither PyTorch nor TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.support.errors import error

__all__ = ["SummaryWriter"]

_HINT = "install the writer: pip install 'rushlight[tensorboard]'"

if TYPE_CHECKING:
    SummaryWriter = object
else:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as cause:
        raise error("N004", "torch.utils.tensorboard: tensorboardX is not installed", hint=_HINT) from cause
