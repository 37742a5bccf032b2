"""`torch.distributions` beyond `rushlight.distributions`."""

from collections.abc import Iterable

import rushlight as rl
from rushlight import Tensor
from rushlight.distributions.parameters import EULER, sum_rightmost
from rushlight.torch.submodule import Submodule


def _standard_normal(shape: Iterable[int], dtype: rl.dtype, device: object) -> Tensor:
    return rl.randn(tuple(shape), dtype=dtype, device=device)


utils = Submodule(
    "Names beyond `rushlight.distributions.parameters` that packages import.",
    _standard_normal=_standard_normal,
    _sum_rightmost=sum_rightmost,
    euler_constant=EULER,
)
