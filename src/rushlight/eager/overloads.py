"""Methods that PyTorch overloads: several signatures under one name, or names that mean several operators."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.eager.arguments import (
    ABSENT,
    element_type,
    fixed_integer,
    fixed_integers,
    flag,
    input_operand,
    is_tensor,
    listed,
    missing,
    number,
    place,
    renamed,
    required_operand,
    required_tensor,
    varied,
)
from rushlight.eager.batching.levels import spread
from rushlight.eager.creation import OPTIONS, empty, full, ones, zeros
from rushlight.eager.creation import tensor as make_tensor
from rushlight.eager.dispatch import STATE, called, dispatch
from rushlight.eager.handle import BATCHED, Handle
from rushlight.eager.keywords import no_more
from rushlight.eager.legacy import named_type, type_name
from rushlight.eager.methods import GeneratedMethods
from rushlight.eager.mutation import COPY, FILL
from rushlight.eager.results import named_results
from rushlight.eager.storage.formats import cloned_in, laid_out, lies_in
from rushlight.eager.symbols import wrap_size
from rushlight.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.ir.type import CPU, META, Device
from rushlight.ops import OPERATORS
from rushlight.ops.dims import own_dim
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_TO_DEVICE = OPERATORS["to_device"]
_TO, _CLONE, _VIEW, _EXPAND = OPERATORS["to_dtype"], OPERATORS["clone"], OPERATORS["view"], OPERATORS["expand"]


class ExtremeOverloads(GeneratedMethods):
    """Extrema of one or two tensors or along a dim."""

    __slots__ = ()

    def max(
        self,
        dim: object = None,
        keepdim: bool = False,
        *,
        other: object = None,
        axis: object = None,
        keepdims: bool = False,
    ) -> Any:
        """The largest element; with a dim, values and indices along it; with a tensor, the pairwise maximum."""
        return _extreme(self, "max", dim, axis, other, keepdim or keepdims)

    def min(
        self,
        dim: object = None,
        keepdim: bool = False,
        *,
        other: object = None,
        axis: object = None,
        keepdims: bool = False,
    ) -> Any:
        """The smallest element; with a dim, values and indices along it; with a tensor, the pairwise minimum."""
        return _extreme(self, "min", dim, axis, other, keepdim or keepdims)


def _extreme(tensor: object, name: str, dim: object, axis: object, other: object, keepdim: bool) -> Any:
    dim = dim if axis is None else renamed("dim", dim, "axis", axis, None)
    dim = dim if other is None else other
    if dim is None:
        return dispatch(OPERATORS[name], (tensor,), {})
    if is_tensor(dim):
        return dispatch(OPERATORS[f"{name}imum"], (tensor, dim), {})
    op = OPERATORS[f"{name}.dim"]
    return named_results(op, dispatch(op, (tensor,), {"dim": fixed_integer(dim), "keepdim": flag(keepdim)}))


class SpreadOverloads(GeneratedMethods):
    """Variance and standard deviation, with PyTorch's older argument for the correction."""

    __slots__ = ()

    def var(
        self,
        dim: object = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: object = None,
        axis: object = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Variance: squared distances from the mean, summed and divided by their number less `correction`, or 1."""
        return _spread(self, "var", dim, axis, unbiased, keepdim or keepdims, correction)

    def std(
        self,
        dim: object = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: object = None,
        axis: object = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Standard deviation: the square root of the variance."""
        return _spread(self, "std", dim, axis, unbiased, keepdim or keepdims, correction)


def _spread(
    tensor: object, name: str, dim: object, axis: object, unbiased: bool | None, keepdim: bool, correction: object
) -> Tensor:
    dim = dim if axis is None else renamed("dim", dim, "axis", axis, None)
    return dispatch(OPERATORS[name], (tensor,), spread_attributes(dim, unbiased, keepdim, correction))


def spread_attributes(dim: object, unbiased: bool | None, keepdim: bool, correction: object) -> dict[str, object]:
    """The attributes of `var` and its like: `unbiased` is a correction of 1 or 0, also where it is given alone."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(flag(unbiased))
    return {"dim": fixed_integers(dim), "correction": number(correction), "keepdim": flag(keepdim)}


class SecondNames(GeneratedMethods):
    """PyTorch's second names of methods."""

    __slots__ = ()

    absolute, absolute_ = GeneratedMethods.abs, GeneratedMethods.abs_
    arccos, arcsin, arctan, arctan2 = (
        GeneratedMethods.acos,
        GeneratedMethods.asin,
        GeneratedMethods.atan,
        GeneratedMethods.atan2,
    )
    arccosh, arcsinh, arctanh = GeneratedMethods.acosh, GeneratedMethods.asinh, GeneratedMethods.atanh
    arccos_, arcsin_, arctan_ = GeneratedMethods.acos_, GeneratedMethods.asin_, GeneratedMethods.atan_
    arccosh_, arcsinh_, arctanh_ = GeneratedMethods.acosh_, GeneratedMethods.asinh_, GeneratedMethods.atanh_
    arctan2_ = GeneratedMethods.atan2_
    clip, clip_ = GeneratedMethods.clamp, GeneratedMethods.clamp_
    __div__, __rdiv__, __idiv__ = (
        GeneratedMethods.__truediv__,
        GeneratedMethods.__rtruediv__,
        GeneratedMethods.__itruediv__,
    )
    divide, divide_ = GeneratedMethods.div, GeneratedMethods.div_
    true_divide, true_divide_ = GeneratedMethods.div, GeneratedMethods.div_
    greater, greater_equal = GeneratedMethods.gt, GeneratedMethods.ge
    greater_, greater_equal_ = GeneratedMethods.gt_, GeneratedMethods.ge_
    less_, less_equal_, not_equal_ = GeneratedMethods.lt_, GeneratedMethods.le_, GeneratedMethods.ne_
    less, less_equal, not_equal = GeneratedMethods.lt, GeneratedMethods.le, GeneratedMethods.ne
    fix, fix_ = GeneratedMethods.trunc, GeneratedMethods.trunc_
    moveaxis = GeneratedMethods.movedim
    multiply, multiply_ = GeneratedMethods.mul, GeneratedMethods.mul_
    negative, negative_ = GeneratedMethods.neg, GeneratedMethods.neg_
    subtract, subtract_ = GeneratedMethods.sub, GeneratedMethods.sub_

    def allclose(self, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether all elements are close: `|self - other| <= atol + rtol * |other|`."""
        attrs = {"rtol": number(rtol), "atol": number(atol), "equal_nan": flag(equal_nan)}
        return bool(dispatch(OPERATORS["isclose"], (self, required_operand(other)), attrs).all())

    def gather(
        self, dim: object = ABSENT, index: object = ABSENT, *, sparse_grad: bool = False, axis: object = ABSENT
    ) -> Tensor:
        """Along a dim, the elements at the places that `index` gives; the other dims' places are its own.

        With `sparse_grad` the gradient is a sparse tensor with a place for each element that was read.
        """
        if axis is not ABSENT:
            dim = renamed("dim", dim, "axis", axis, ABSENT)
        if dim is ABSENT or index is ABSENT:
            missing("gather", dim=dim, index=index)
        if flag(sparse_grad):
            return importlib.import_module("rushlight.eager.sparse.lookup").gathered(self, fixed_integer(dim), index)
        return dispatch(OPERATORS["gather"], (self, input_operand(index)), {"dim": fixed_integer(dim)})

    def split(self, split_size: object, dim: object = 0) -> tuple[Tensor, ...]:
        """Parts of one size, the last one smaller if need be, or of the sizes given."""
        attrs = {"split_size_or_sections": number(split_size), "dim": fixed_integer(dim)}
        return dispatch(OPERATORS["split"], (self,), attrs)

    def where(self, condition: object, other: object) -> Tensor:
        """These elements where a condition holds, another tensor's elsewhere."""
        return dispatch(OPERATORS["where"], (required_operand(condition), self, required_operand(other)), {})

    def ndimension(self) -> int:
        """The number of dims."""
        return len(self.form.shape)


class ShapeOverloads(GeneratedMethods):
    """Methods about shapes that take sizes in several ways."""

    __slots__ = ()

    def view(self, *shape: object, **named: object) -> Tensor:
        """The same storage in another shape, or its bytes as elements of another dtype."""
        if named:
            shape = listed(named, "dtype" if "dtype" in named else "size", shape)
        if len(shape) == 1 and isinstance(shape[0], DType):
            with called("view"):
                return dispatch(OPERATORS["view_dtype"], (self,), {"dtype": shape[0]})
        return dispatch(_VIEW, (self,), {"size": varied(shape)})

    def expand(self, *sizes: object, implicit: bool = False, **named: object) -> Tensor:
        """Dims of size 1 repeated without a copy; -1 keeps a size."""
        if named:
            sizes = listed(named, "size", sizes)
        return dispatch(_EXPAND, (self,), {"size": varied(sizes)})

    def size(self, dim: object = None) -> Any:
        """The shape, or the size of one dim."""
        shape = self.shape
        if type(dim) is int and -len(shape) <= dim < len(shape):
            return shape[dim]
        return shape if dim is None else shape[own_dim(fixed_integer(dim), shape, "size")]

    def stride(self, dim: object = None) -> Any:
        """The strides in elements, or that of one dim."""
        strides = tuple(map(wrap_size, self.form.strides)) if self.form.symbolic else self.form.strides
        return strides if dim is None else strides[own_dim(fixed_integer(dim), strides, "stride")]

    def squeeze(self, dim: object = None, *, axis: object = None) -> Tensor:
        """Dims of size 1 dropped: all, or those named."""
        dim = dim if axis is None else renamed("dim", dim, "axis", axis, None)
        return dispatch(OPERATORS["squeeze"], (self,), {"dim": fixed_integers(dim)})

    def contiguous(self, memory_format: object = None) -> Any:
        """Itself if its elements lie row-major, or in the order of a format, else a copy that does."""
        if memory_format is not None:
            with called("contiguous"):
                return laid_out(self, memory_format)
        settled = STATE.tracer is None or not STATE.tracer.in_doubt(self)
        return self if settled and self.form.is_contiguous else dispatch(OPERATORS["contiguous"], (self,), {})

    def is_contiguous(self, memory_format: object = None) -> bool:
        """Whether its elements lie row-major, or in the order of a format, without gaps."""
        if memory_format is None and not self.form.symbolic:
            return self.form.is_contiguous
        with called("is_contiguous"):
            return lies_in(self, memory_format, asked_by_user=True)


class ConversionOverloads(GeneratedMethods):
    """Other dtypes, devices and copies."""

    __slots__ = ()

    def to(
        self, *args: object, dtype: object = None, device: object = None, copy: bool = False, **rest: object
    ) -> Tensor:
        """The tensor with another dtype or on another device: itself where nothing changes.

        By position: a dtype, a device, a device and a dtype, or a tensor to be like; then `non_blocking` and `copy`.
        """
        memory_format = rest.pop("memory_format", None)
        if rest:
            args = _of_other(args, rest)
        cast_tensor = converted(self, args, dtype, device, copy)
        return cast_tensor if memory_format is None else laid_out(cast_tensor, memory_format)

    def type(self, dtype: object = None, non_blocking: bool = False) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - PyTorch's name
        """The tensor with another dtype, also by PyTorch's older names; without one, that name of its own.

        `ones(2).type()` is "torch.FloatTensor", as programs compare it with.
        """
        if dtype is None:
            return type_name(self.dtype, self.device)
        return converted(self, (), named_type(dtype), None, False)

    def type_as(self, other: object) -> Tensor:
        """The tensor with the dtype of another one."""
        return converted(self, (required_tensor(other).dtype,), None, None, False)

    def float(self, memory_format: object = None) -> Tensor:
        """As float32."""
        return _as(self, float32, memory_format)

    def double(self, memory_format: object = None) -> Tensor:
        """As float64."""
        return _as(self, float64, memory_format)

    def half(self, memory_format: object = None) -> Tensor:
        """As float16."""
        return _as(self, float16, memory_format)

    def bfloat16(self, memory_format: object = None) -> Tensor:
        """As bfloat16."""
        return _as(self, bfloat16, memory_format)

    def cfloat(self, memory_format: object = None) -> Tensor:
        """As complex64."""
        return _as(self, complex64, memory_format)

    def cdouble(self, memory_format: object = None) -> Tensor:
        """As complex128."""
        return _as(self, complex128, memory_format)

    def long(self, memory_format: object = None) -> Tensor:
        """As int64."""
        return _as(self, int64, memory_format)

    def int(self, memory_format: object = None) -> Tensor:
        """As int32."""
        return _as(self, int32, memory_format)

    def short(self, memory_format: object = None) -> Tensor:
        """As int16."""
        return _as(self, int16, memory_format)

    def char(self, memory_format: object = None) -> Tensor:
        """As int8."""
        return _as(self, int8, memory_format)

    def byte(self, memory_format: object = None) -> Tensor:
        """As uint8."""
        return _as(self, uint8, memory_format)

    def bool(self, memory_format: object = None) -> Tensor:
        """As bool."""
        return _as(self, bool_, memory_format)

    def cpu(self, memory_format: object = None) -> Tensor:
        """On the CPU."""
        copied = converted(self, (), None, "cpu", False)
        return copied if memory_format is None else laid_out(copied, memory_format)

    def cuda(self, device: object = None, non_blocking: bool = False, memory_format: object = None) -> NoReturn:
        """Nothing but the error that there is no such device: V001."""
        fail("V001", "cuda: there is no device cuda", hint="devices: cpu, meta; ask rl.cuda.is_available() first")

    def pin_memory(self, device: object = None) -> NoReturn:
        """Nothing but the error that no device reads pinned memory: A006."""
        fail("A006", "pin_memory: there is no device that reads pinned memory", hint="leave it out on the CPU")

    def clone(self, *, memory_format: object = None) -> Tensor:
        """A copy with a storage of its own."""
        if memory_format is not None:
            with called("clone"):
                return cloned_in(self, memory_format)
        return dispatch(_CLONE, (self,), {})

    def copy_(self, src: object, non_blocking: object = False) -> Tensor:
        """Overwrites the elements with those of another tensor, converted and broadcast."""
        return dispatch(COPY, (self, required_operand(src)), {})

    def fill_(self, value: object) -> Tensor:
        """Overwrites all elements with one value."""
        with called("fill_"):
            value = required_operand(value)
            single = not isinstance(value, Handle) or value.ndim == 0
            require(single, "S009", "fill_: one value is expected", target=self, value=value)
            return dispatch(FILL, (self, value), {})

    def zero_(self) -> Tensor:
        """Overwrites all elements with 0."""
        with called("zero_"):
            return dispatch(FILL, (self, 0), {})

    def new_tensor(
        self,
        data: object,
        *,
        dtype: object = None,
        device: object = None,
        requires_grad: bool = False,
        **options: object,
    ) -> Tensor:
        """A tensor of `data`, of this one's dtype unless one is given."""
        no_more(options, OPTIONS)
        return make_tensor(data, dtype=_dtype(self, dtype), device=device, requires_grad=requires_grad)

    def new_zeros(
        self, *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **options: object
    ) -> Tensor:
        """Zeros of this tensor's dtype and device."""
        return _made_for(self, zeros, size, dtype, device, {"requires_grad": requires_grad, **options})

    def new_ones(
        self, *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **options: object
    ) -> Tensor:
        """Ones of this tensor's dtype and device."""
        return _made_for(self, ones, size, dtype, device, {"requires_grad": requires_grad, **options})

    def new_empty(
        self, *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **options: object
    ) -> Tensor:
        """Undefined contents, of this tensor's dtype and device."""
        return _made_for(self, empty, size, dtype, device, {"requires_grad": requires_grad, **options})

    def new_full(
        self,
        size: object,
        fill_value: object,
        *,
        dtype: object = None,
        device: object = None,
        requires_grad: bool = False,
        **options: object,
    ) -> Tensor:
        """One value everywhere, of this tensor's dtype and device."""
        options["requires_grad"] = requires_grad
        return _made_for(self, full, (size, fill_value), dtype, device, options)


def _as(tensor: Handle, dtype: DType, memory_format: object) -> Any:
    """The tensor with another dtype, and in the order of a memory format."""
    cast = converted(tensor, (dtype,), None, None, False)
    return cast if memory_format is None else laid_out(cast, memory_format)


def _made_for(
    tensor: Handle,
    factory: Callable[..., Tensor],
    args: Sequence[object],
    dtype: object,
    device: object,
    options: dict[str, object],
) -> Tensor:
    """What a factory makes of a tensor's dtype and device.

    Inside `vmap` it has memory for each of the tensor's places.
    """
    made = factory(*args, dtype=_dtype(tensor, dtype), device=_device(tensor, device), **options)
    return spread(made, tensor) if tensor.keys & BATCHED else made


def _dtype(tensor: Handle, given: object) -> object:
    return tensor.dtype if given is None else given


def _device(tensor: Handle, given: object) -> object:
    return tensor.device if given is None else given


def _of_other(args: tuple[object, ...], rest: dict[str, object]) -> tuple[object, ...]:
    """The positional arguments of `to`, with the tensor that is named `other`.

    Other keywords are refused as by `no_more`.
    """
    other = (required_tensor(rest.pop("other")),) if "other" in rest else ()
    no_more(rest, ("dtype", "device", "copy", "other"))
    return (*args, *other)


def converted(tensor: Handle, args: tuple[object, ...], dtype: object, device: object, copy: bool) -> Any:
    """What `Tensor.to` gives for a dtype, a device, both, or another tensor."""
    wanted, where = element_type(dtype), place(device)
    switches = 0
    for arg in args:
        if is_tensor(arg):
            wanted, where = arg.dtype, arg.device
        elif isinstance(arg, (str, Device)):
            where = place(arg)
        elif isinstance(arg, bool):
            switches += 1  # non_blocking, then copy
            require(switches <= 2, "A003", "to: too many arguments")
            copy = arg if switches == 2 else copy
        elif arg is not None:
            wanted = element_type(arg)
    if where is not None and where != tensor.device:
        with called("to"):
            return moved(tensor, where, wanted or tensor.dtype)
    if wanted is not None and wanted is not tensor.dtype:
        return dispatch(_TO, (tensor,), {"dtype": wanted})
    return dispatch(_CLONE, (tensor,), {}) if copy is not False and flag(copy) else tensor


def moved(tensor: Handle, device: Device, dtype: DType) -> Tensor:
    """A copy on another device, converted on the CPU where one of both is that. To meta nothing is copied."""
    if device == META:
        return empty(*tensor.shape, dtype=dtype, device=device)
    if dtype is tensor.dtype:
        return dispatch(_TO_DEVICE, (tensor,), {"device": device})
    if tensor.device is CPU:
        return dispatch(_TO_DEVICE, (dispatch(_TO, (tensor,), {"dtype": dtype}),), {"device": device})
    return dispatch(_TO, (dispatch(_TO_DEVICE, (tensor,), {"device": device}),), {"dtype": dtype})
