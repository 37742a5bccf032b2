"""Ways to train on many ranks that other parts take: communication hooks, uneven inputs. PyTorch's names."""

from rushlight.distributed.algorithms import ddp_comm_hooks, join
from rushlight.support.peer_names import absent_name

__all__ = ["ddp_comm_hooks", "join"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
