"""finfo and iinfo: the ranges and precisions of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.eager.arguments import default_dtype, element_type
from rushlight.ir.dtype import DType, ml_dtypes, real_dtype
from rushlight.support.errors import fail


def _element(type: object) -> DType:
    if isinstance(type, DType):
        return type
    return element_type(type) or default_dtype()


class FloatLimits:
    """Limits of a floating-point dtype, of the default one unless given; of a complex one's parts."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str | DType  # PyTorch has its name, the array API standard the dtype itself

    def __init__(self, type: object = None) -> None:
        element = real_dtype(_element(type))
        if not element.is_floating_point:
            fail("A001", f"finfo: {element} is not a floating-point dtype", hint="use iinfo")
        limits: Any = ml_dtypes().finfo(element.numpy)
        self.dtype = element.name
        self.bits = element.bits
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny", "dtype")
        return f"finfo({', '.join([f'{name}={getattr(self, name)}' for name in names])})"


class IntegerLimits:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: str | DType  # PyTorch has its name, the array API standard the dtype itself

    def __init__(self, type: DType) -> None:
        element = element_type(type)
        if element is None or not element.is_integer:
            fail("A001", f"iinfo: {element} is not an integer dtype", hint="use finfo")
        limits = np.iinfo(element.name)
        self.dtype = element.name
        self.bits, self.max, self.min = element.bits, int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


finfo = FloatLimits
iinfo = IntegerLimits
