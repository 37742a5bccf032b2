"""One model on many ranks or devices: PyTorch's `torch.nn.parallel`."""

from rushlight.nn.parallel.bucket import GradBucket
from rushlight.nn.parallel.data_parallel import DataParallel, data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.support.peer_names import absent_name

__all__ = ["DataParallel", "DistributedDataParallel", "GradBucket", "data_parallel"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
