"""Element types."""

from __future__ import annotations

import importlib
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Kind(StrEnum):
    """Categories of element types, ordered as they promote.

    As texts they are numpy's letters, which programs for arrays ask for: `dtype.kind in "iu"`. Unsigned integers have
    the letter of the signed ones.
    """

    BOOL = "b"
    INT = "i"
    FLOAT = "f"
    COMPLEX = "c"

    def __init__(self, letter: str) -> None:
        self.rank = "bifc".index(letter)

    def __lt__(self, other: Kind) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - kinds, not texts
        return self.rank < other.rank

    def __le__(self, other: Kind) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - kinds, not texts
        return self.rank <= other.rank

    def __gt__(self, other: Kind) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - kinds, not texts
        return self.rank > other.rank

    def __ge__(self, other: Kind) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - kinds, not texts
        return self.rank >= other.rank


_LARGEST = 3.4028234663852886e38  # of float32


class Float8(NamedTuple):
    """How the numbers of an 8-bit float are made: bits of the fraction, bias of the exponent, and three codes.

    `largest` is the largest finite number, `overflow` what is larger, infinities included, and `nan` is NaN. Where
    `nan` is the code of a negative zero there is no such zero, and NaN and overflow have no sign.
    """

    fraction: int
    bias: int
    largest: int
    overflow: int
    nan: int

    @property
    def unsigned_zero(self) -> bool:
        """Whether zero has one code."""
        return self.nan == 0x80


class DType:
    """An element type: one object per type, compared by identity.

    `code` is its number in native descriptors; `numpy` its numpy dtype, for bfloat16 made when it is first asked for;
    `bits` its width. Elements of an `is_storage_only` type, an 8-bit float, are stored and converted; operators do not
    compute with them.
    """

    __slots__ = ("bits", "code", "is_storage_only", "itemsize", "kind", "name", "numpy", "signed")

    def __init__(
        self, name: str, code: int, kind: Kind, itemsize: int, signed: bool, numpy: np.dtype[np.generic] | None
    ) -> None:
        self.name = name
        self.code = code
        self.kind = kind
        self.itemsize = itemsize
        self.bits = itemsize * 8
        self.is_storage_only = kind is Kind.FLOAT and itemsize == 1
        self.signed = signed
        if numpy is not None:
            self.numpy: np.dtype[np.generic] = numpy

    def __getattr__(self, name: str) -> Any:
        # Only where a slot is empty, and that is the numpy dtype of ml_dtypes' types before their first use.
        if name != "numpy":
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        self.numpy = np.dtype(getattr(ml_dtypes(), self.name))
        return self.numpy

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a real floating-point type, as in PyTorch."""
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type, as in PyTorch."""
        return self.kind is Kind.COMPLEX

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values, as in PyTorch."""
        return self.signed

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type; bool is not."""
        return self.kind is Kind.INT

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and largest number that a Python number may be, as in PyTorch; None: 16-bit floats round any.

        Unsigned dtypes take negative numbers, by wrapping.
        """
        if self.kind is Kind.INT:
            high = (1 << self.bits - self.signed) - 1
            return -high - self.signed, high
        return (-_LARGEST, _LARGEST) if self.kind is Kind.FLOAT and self.bits == 32 else None

    def holds(self, number: complex) -> bool:
        """Whether a Python number may become an element: within `bounds`, NaN and infinities where there are any."""
        if isinstance(number, complex):
            return self.is_complex
        bounds = self.bounds
        return bounds is None or (self.is_floating_point and number - number != 0) or bounds[0] <= number <= bounds[1]

    def __repr__(self) -> str:
        return f"rushlight.{self.name}"

    def __reduce__(self) -> str:
        return _EXPORTED_NAMES[self.name]

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


bool_ = DType("bool", 0, Kind.BOOL, 1, False, np.dtype(np.bool_))
uint8 = DType("uint8", 1, Kind.INT, 1, False, np.dtype(np.uint8))
int8 = DType("int8", 2, Kind.INT, 1, True, np.dtype(np.int8))
int16 = DType("int16", 3, Kind.INT, 2, True, np.dtype(np.int16))
int32 = DType("int32", 4, Kind.INT, 4, True, np.dtype(np.int32))
int64 = DType("int64", 5, Kind.INT, 8, True, np.dtype(np.int64))
uint16 = DType("uint16", 6, Kind.INT, 2, False, np.dtype(np.uint16))
uint32 = DType("uint32", 7, Kind.INT, 4, False, np.dtype(np.uint32))
uint64 = DType("uint64", 8, Kind.INT, 8, False, np.dtype(np.uint64))
float16 = DType("float16", 9, Kind.FLOAT, 2, True, np.dtype(np.float16))
bfloat16 = DType("bfloat16", 10, Kind.FLOAT, 2, True, None)
float32 = DType("float32", 11, Kind.FLOAT, 4, True, np.dtype(np.float32))
float64 = DType("float64", 12, Kind.FLOAT, 8, True, np.dtype(np.float64))
complex64 = DType("complex64", 13, Kind.COMPLEX, 8, True, np.dtype(np.complex64))
complex128 = DType("complex128", 14, Kind.COMPLEX, 16, True, np.dtype(np.complex128))

DTYPES: tuple[DType, ...] = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
float8_e4m3fn = DType("float8_e4m3fn", 15, Kind.FLOAT, 1, True, None)
float8_e4m3fnuz = DType("float8_e4m3fnuz", 16, Kind.FLOAT, 1, True, None)
float8_e5m2 = DType("float8_e5m2", 17, Kind.FLOAT, 1, True, None)
float8_e5m2fnuz = DType("float8_e5m2fnuz", 18, Kind.FLOAT, 1, True, None)
float8_e8m0fnu = DType("float8_e8m0fnu", 19, Kind.FLOAT, 1, False, None)
complex32 = DType("complex32", 20, Kind.COMPLEX, 4, True, None)
float4_e2m1fn_x2 = DType("float4_e2m1fn_x2", 21, Kind.FLOAT, 1, True, None)
# Numbers of e4m3fn that are too large become its largest, as in PyTorch, where other libraries have NaN.
FLOAT8: dict[DType, Float8] = {
    float8_e4m3fn: Float8(3, 7, 0x7E, 0x7E, 0x7F),
    float8_e4m3fnuz: Float8(3, 8, 0x7F, 0x80, 0x80),
    float8_e5m2: Float8(2, 15, 0x7B, 0x7C, 0x7F),
    float8_e5m2fnuz: Float8(2, 16, 0x7F, 0x80, 0x80),
}
# Types without tensors: programs of PyTorch compare dtypes with them, and ask for their limits.
WITHOUT_TENSORS: tuple[DType, ...] = (float8_e8m0fnu, complex32, float4_e2m1fn_x2)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in (*DTYPES, *FLOAT8)}
_EXPORTED_NAMES = {dtype.name: "bool_" if dtype is bool_ else dtype.name for dtype in BY_NAME.values()}
_BY_NUMPY: dict[np.dtype[np.generic], DType] = {dtype.numpy: dtype for dtype in DTYPES if dtype is not bfloat16}

# Short names for messages: f32[8, 16] reads better than float32[8, 16].
SHORT_NAMES: dict[DType, str] = {
    dtype: dtype.name.replace("uint", "u")
    .replace("bfloat", "bf")
    .replace("float", "f")
    .replace("int", "i")
    .replace("complex", "c")
    for dtype in (*DTYPES, *FLOAT8)
}


def ml_dtypes() -> Any:
    """The package that teaches numpy bfloat16 and 8-bit floats: imported on first use, here alone."""
    return importlib.import_module("ml_dtypes")


def from_numpy_dtype(dtype: np.dtype[np.generic]) -> DType | None:
    """The element type of a numpy dtype in native byte order, or None."""
    native = _BY_NUMPY.get(dtype)
    if native is not None or dtype.kind not in "Vf":  # ml_dtypes' types are of these kinds
        return native
    named = BY_NAME.get(dtype.name)
    return named if named is not None and dtype == named.numpy else None


def rounded_array(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Numbers as a float dtype: rounded once, to nearest even; 8-bit floats saturate as `FLOAT8` says."""
    form = FLOAT8.get(dtype)
    if form is None:
        return array.astype(dtype.numpy)
    narrow = _rounded_to_odd(array) if array.dtype == np.float64 else array.astype(np.float32)
    if form.overflow == form.largest:
        most = np.frombuffer(bytes([form.largest]), dtype.numpy).astype(np.float32)
        narrow = np.clip(narrow, -most, most)
    return narrow.astype(dtype.numpy).reshape(array.shape)


def _rounded_to_odd(array: NDArray[Any]) -> NDArray[Any]:
    """Float64 numbers as float32, with the last bit set where something was lost: rounding again is rounding once."""
    near = np.atleast_1d(array.astype(np.float32))
    back, bits = near.astype(np.float64), near.view(np.uint32)
    lost = (back != array) & (array == array)
    return np.where(lost, (bits - (np.abs(back) > np.abs(array))) | 1, bits).astype(np.uint32).view(np.float32)


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.signed else (0, (1 << dtype.bits) - 1)


def compute_dtype(dtype: DType) -> DType:
    """The type in which arithmetic on `dtype` is done: float32 for narrower floats, itself otherwise."""
    return float32 if dtype.kind is Kind.FLOAT and dtype.bits < 32 else dtype


def total_dtype(dtype: DType) -> DType:
    """The type in which sums of `dtype` are joined: of twice the width for float32 and complex64."""
    if dtype is complex64:
        return complex128
    return float64 if dtype is float32 else dtype


def real_dtype(dtype: DType) -> DType:
    """The type of the parts of a complex type; other types are their own."""
    if dtype is complex64:
        return float32
    return float64 if dtype is complex128 else dtype
