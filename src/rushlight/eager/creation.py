"""Making tensors: from Python data, from arrays, of constants, of random numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rushlight.eager.arguments import (
    default_complex,
    default_dtype,
    dtype_of_new,
    element_type,
    flag,
    integer,
    is_tensor,
    number,
    place_of_new,
    required_operand,
    required_tensor,
    shape_of,
)
from rushlight.eager.autograd.history import differentiable
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Key, call_function, register
from rushlight.eager.handle import AUTOGRAD, Handle, allocate, is_wrapper, make, mark_required, note_move
from rushlight.eager.interchange import taken
from rushlight.eager.keywords import named_size, no_more
from rushlight.eager.memory import copied, tensor_of
from rushlight.eager.override.foreign import Foreign, foreign_in, method_of
from rushlight.eager.storage.formats import laid_out
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.eager.tensor_meta import form_of
from rushlight.eager.tracing.number import TracedNumber
from rushlight.ir.dtype import DType, Kind, bool_, from_numpy_dtype, int64
from rushlight.ir.type import CPU, META, Device
from rushlight.ir.value import map_operands
from rushlight.ops import OPERATORS
from rushlight.ops.promote import promote_dtypes
from rushlight.ops.record import set_creation_handler
from rushlight.support.errors import RushlightError, error, fail, require, warn
from rushlight.term import Op

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

Array = NDArray[Any]
T = TypeVar("T", bound=Handle)


def require_gradient(tensor: T, wanted: bool = True) -> T:
    """Makes a leaf require gradients, or not; D005 for dtypes without them. In a trace G016 for one from outside."""
    before = tensor.gradient is not None and tensor.gradient.required
    if before and wanted is True and tensor.keys & AUTOGRAD:
        return tensor
    if flag(wanted) is not before:
        note_move()
        if STATE.tracer is not None:
            STATE.tracer.note_place(tensor, "requires_grad")
    if flag(wanted):
        require(differentiable(tensor), "D005", "requires_grad: the dtype has no gradients", tensor=tensor)
        mark_required(tensor)
    elif tensor.gradient is not None:
        tensor.gradient.required = False
        if tensor.view_of is None:
            tensor.keys &= ~AUTOGRAD
    return tensor


def with_gradient(tensor: T, wanted: object) -> T:
    """A new tensor, which requires gradients where that is wanted."""
    return tensor if wanted is False or not flag(wanted) else require_gradient(tensor)


def _inferred_dtype(array: Array, given: object) -> DType:
    """The dtype of data that says none: numpy's for arrays, else bool, int64, the default float or its complex."""
    if isinstance(given, (np.ndarray, np.generic)):
        dtype = from_numpy_dtype(array.dtype)
        if dtype is None:
            fail("D004", f"tensor: there is no dtype for numpy's {array.dtype}")
        return dtype
    typed = _leaf_dtypes(given) if isinstance(given, (list, tuple)) else None
    if typed is not None:
        return functools.reduce(promote_dtypes, typed)
    kinds = {"b": bool_, "i": int64, "u": int64, "f": default_dtype()}
    if array.dtype.kind == "c":
        return default_complex()
    if array.dtype.kind not in kinds:
        fail("A001", "tensor: this cannot become a tensor", data=given)
    return kinds[array.dtype.kind]


_NUMBERS = frozenset([bool, int, float, complex])
_OPEN = (SymInt, SymBool, SymFloat)  # numbers that a trace leaves open


def _leaf_dtypes(data: Sequence[object]) -> list[DType] | None:
    """The dtypes in sequences that hold arrays, numpy's numbers or tensors; None where none does."""
    plain: set[type] = set()
    typed: dict[DType, None] = {}
    left: list[Sequence[object]] = [data]
    while left:
        elements = left.pop()
        types = set(map(type, elements))
        plain |= types & _NUMBERS
        for element in elements if types - _NUMBERS else ():
            if isinstance(element, (list, tuple)):
                left.append(cast("Sequence[object]", element))
            elif isinstance(element, Handle):
                typed[dtype_of_new(element)] = None
            elif isinstance(element, (np.ndarray, np.generic)):
                dtype = from_numpy_dtype(cast("Array", element).dtype)
                if dtype is None:
                    fail("D004", f"tensor: there is no dtype for numpy's {cast('Array', element).dtype}")
                typed[dtype] = None
    return [*typed, *[dtype for kind, dtype in _default_dtypes() if kind in plain]] if typed else None


def _default_dtypes() -> tuple[tuple[type, DType], ...]:
    """The dtypes that Python's numbers have in tensors, the widest first."""
    return (complex, default_complex()), (float, default_dtype()), (int, int64), (bool, bool_)


def _array(data: object) -> Array:
    """Nested sequences of numbers and tensors as an array; A005 when they are ragged."""
    try:
        if isinstance(data, (list, tuple)) and any(isinstance(leaf, (Handle, *_OPEN)) for leaf in _leaves(data)):
            data = _plain(data)
        array = np.asarray(data)
    except RushlightError:
        raise
    except ValueError as cause:
        raise error("A005", "tensor: nested sequences of unequal length") from cause
    except RecursionError as cause:
        raise _too_deep() from cause
    except OverflowError as cause:
        raise error("D007", "tensor: a number does not fit its dtype") from cause
    except Exception as cause:
        raise error("A001", "tensor: this cannot become a tensor", data=data) from cause
    if array.dtype.kind == "O" and array.size:
        if all(isinstance(element, (int, float)) for element in array.reshape(-1)):
            fail("D007", "tensor: a number does not fit int64", data=data)
        fail("A001", "tensor: this cannot become a tensor", data=data)
    if array.dtype.kind not in "Obiufc" and from_numpy_dtype(array.dtype) is None:
        fail("A001", "tensor: this cannot become a tensor", data=data)
    if array.size == 0 and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype(np.float64)
    return array


def _plain(data: object) -> object:
    if isinstance(data, Handle):
        whole: Any = data
        one = isinstance(data.form.numel, int) and data.form.numel == 1  # a number among others, whatever its dims
        return whole.item() if one else whole.tolist()
    for kind, plain in zip(_OPEN, (int, bool, float), strict=True):
        if isinstance(data, kind):
            return plain(cast("Any", data))
    return [_plain(element) for element in data] if isinstance(data, (list, tuple)) else data


def _open_numbers(data: Sequence[object], wanted: DType | None) -> DType | None:
    """The dtype of sequences of numbers and tensors, of which a trace leaves some open; None for others.

    So for those that are not `wanted`, unless they fit: sizes are guarded to.
    """
    leaves = _leaves(data)
    if not any(isinstance(leaf, (Handle, *_OPEN)) for leaf in leaves) or not all(map(_is_number, leaves)):
        return None
    dtypes = list(map(_dtype_of_leaf, leaves))
    if any(dtype.is_complex for dtype in dtypes):
        return None
    given = functools.reduce(promote_dtypes, dtypes)
    narrow = not _holds_all(wanted, given)
    return None if narrow and not all(_is_size_within(leaf, wanted) for leaf in leaves) else wanted or given


def _dtype_of_leaf(leaf: object) -> DType:
    if isinstance(leaf, _OPEN):
        dtypes: dict[type, DType] = {SymInt: int64, SymBool: bool_}
        return dtypes.get(type(leaf)) or default_dtype()
    return dtype_of_new(cast("Handle | float", leaf))


def _is_number(leaf: object) -> bool:
    """Whether an element of a sequence is one number, whatever its dims."""
    if is_tensor(leaf):
        return isinstance(leaf.form.numel, int) and leaf.form.numel == 1 and leaf.device == CPU
    return isinstance(leaf, TracedNumber) or type(leaf) in _OPEN or type(leaf) in _NUMBERS


def _is_size_within(leaf: object, dtype: DType | None) -> bool:
    """Whether a size, or another integer, is within the range of a dtype of integers."""
    if isinstance(leaf, SymBool):
        return True
    whole = isinstance(leaf, (SymInt, int)) or (isinstance(leaf, TracedNumber) and leaf.is_integer)
    if dtype is None or not whole:
        return False
    size: Any = leaf
    least = -(1 << dtype.bits - 1) if dtype.signed else 0
    return bool(size >= least) and bool(size < least + (1 << dtype.bits))


def _holds_all(wanted: DType | None, given: DType) -> bool:
    """Whether no number is refused by a dtype, so that a graph needs not look at it."""
    return wanted is None or wanted.kind is not Kind.INT or (wanted is int64 and given in (int64, bool_))


def _leaves(data: Sequence[object]) -> list[object]:
    """The elements of nested sequences, from the first to the last. Errors: A005."""
    found: list[object] = []
    try:
        _add_leaves(data, found)
    except RecursionError as cause:
        raise _too_deep() from cause
    return found


def _too_deep() -> RushlightError:
    return error("A005", "tensor: sequences are nested too deeply, or contain themselves")


def _add_leaves(data: Sequence[object], found: list[object]) -> None:
    for element in data:
        if isinstance(element, (list, tuple)):
            _add_leaves(cast("Sequence[object]", element), found)
        else:
            found.append(element)


def _stacked(data: object, dtype: DType) -> Any:
    """A tensor of sequences of numbers, as operators of a graph make it."""
    if not isinstance(data, (list, tuple)):
        element = bool(data) if isinstance(data, SymBool) else required_operand(data)
        if not isinstance(element, Handle):
            return tensor(element, dtype=dtype)
        return OPERATORS["reshape"](OPERATORS["to_dtype"](OPERATORS["detach"](element), dtype), ())
    parts = [_stacked(element, dtype) for element in cast("Sequence[object]", data)]
    require(len({part.shape for part in parts}) < 2, "A005", "tensor: nested sequences of unequal length")
    return OPERATORS["stack"](parts, 0) if parts else tensor([], dtype=dtype)


def tensor(
    data: object, *, dtype: object = None, device: object = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested sequences of them, arrays, or another tensor."""
    wanted = element_type(dtype)
    if isinstance(data, SymInt):
        data = required_operand(data)
    if isinstance(data, TracedNumber) and not _holds_all(wanted, int64 if data.is_integer else default_dtype()):
        data = data.item()
    if isinstance(data, Handle):
        result = OPERATORS["to_dtype"](OPERATORS["detach"](data), wanted or dtype_of_new(data))
        return require_gradient(_moved(result, place_of_new(device)), requires_grad)
    numbers = _open_numbers(data, wanted) if STATE.tracer is not None and isinstance(data, (list, tuple)) else None
    if numbers is not None:
        return require_gradient(_moved(_stacked(data, numbers), place_of_new(device)), requires_grad)
    array = _array(data)
    dtype_ = wanted or _inferred_dtype(array, data)
    if not isinstance(data, (np.ndarray, np.generic)) or array.dtype.kind != "f":  # numpy's are cast
        _check_range(array, dtype_)
    plain = isinstance(data, (np.ndarray, np.generic)) or array.dtype.kind != "c"  # numpy's are cast, with its warning
    require(
        plain or dtype_.is_complex or dtype_ is bool_, "D007", f"tensor: a complex number does not fit {dtype_.name}"
    )
    made = copied(array, dtype_)
    if STATE.tracer is not None:
        made = STATE.tracer.constant(made)
    return require_gradient(_moved(made, place_of_new(device)), requires_grad)


def _check_range(array: Array, dtype: DType) -> None:
    if dtype.kind is Kind.INT and array.dtype.kind in "iuf" and array.size:
        require(
            bool(np.isfinite(array).all()), "D007", f"tensor: a number that is not finite does not fit {dtype.name}"
        )
        low, high = int(array.min()), int(array.max())
        least = -(1 << dtype.bits - 1) if dtype.signed else 0
        fits = least <= low and high < least + (1 << dtype.bits)
        require(fits, "D007", f"tensor: a number does not fit {dtype.name}")


def _moved(result: Handle, device: Device | None) -> Any:
    if device is None or device == CPU:
        return result
    return call_function(OPERATORS["to_device"], (result,), {"device": device})


def as_tensor(data: object, dtype: object = None, device: object = None) -> Any:
    """`data` as a tensor, sharing memory with an array or a tensor where nothing has to be converted."""
    wanted = element_type(dtype)
    if isinstance(data, Handle) and not data.form.type.weak:
        return data if wanted is None or wanted is data.dtype else OPERATORS["to_dtype"](data, wanted)
    if isinstance(data, np.ndarray) and wanted in (None, from_numpy_dtype(data.dtype)) and data.flags.writeable:
        return _moved(tensor_of(data), place_of_new(device))
    return tensor(data, dtype=dtype, device=device)


@checked
def asarray(
    obj: object, *, dtype: object = None, device: object = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor; `copy` forces or forbids a copy."""
    result = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return require_gradient(result, requires_grad) if requires_grad else result


def from_numpy(array: Array) -> Tensor:
    """A tensor that shares an array's memory."""
    if not isinstance(array, np.ndarray):
        fail("A001", "from_numpy: not a numpy array", array=array)
    return _sharing(array, "from_numpy")


def _sharing(array: Array, function: str) -> Tensor:
    """A tensor that shares an array's memory; a warning (A008) where that is read-only."""
    result = tensor_of(array, allow_readonly=True)
    if not array.flags.writeable:
        hint = "copy what you want to write to: rl.tensor(array)"
        warn(
            "A008",
            f"{function}: the memory is read-only, and a write to the tensor is undefined",
            key=function,
            hint=hint,
        )
    return result


@checked
def from_dlpack(ext_tensor: object, *, device: object = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of an object with the DLPack protocol, or of such a capsule.

    `copy` forces or forbids a copy; None makes one where the memory is read-only.
    """
    return taken(ext_tensor, device, copy)


def frombuffer(buffer: Any, *, dtype: object, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor that shares the memory of an object with the buffer protocol."""
    element = element_type(dtype)
    require(element is not None, "D004", "frombuffer: a dtype is expected")
    assert element is not None
    try:
        array = np.frombuffer(buffer, element.numpy, integer(count), integer(offset))
    except RushlightError:
        raise
    except Exception as cause:
        raise error("A002", f"frombuffer: {cause}", buffer=buffer, count=count, offset=offset) from cause
    return require_gradient(_sharing(array, "frombuffer"), requires_grad)


OPTIONS = ("dtype", "device", "requires_grad")


def _filled(
    name: str, size: tuple[object, ...], dtype: object, device: object, requires_grad: bool, rest: dict[str, object]
) -> Tensor:
    memory_format = rest.pop("memory_format", None)
    if rest:
        size = named_size(size, rest, OPTIONS)
    attrs = {"size": shape_of(size), "dtype": element_type(dtype) or default_dtype(), "device": place_of_new(device)}
    result = call_function(OPERATORS[name], (), attrs)
    if memory_format is not None:
        result = laid_out(result, memory_format)
    return with_gradient(result, requires_grad)


def empty(
    *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """A tensor with undefined contents, of sizes given one by one, as one sequence, or as `size=`."""
    return _filled("empty", size, dtype, device, requires_grad, rest)


def zeros(
    *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """Zeros, of sizes given one by one, as one sequence, or as `size=`."""
    return _filled("zeros", size, dtype, device, requires_grad, rest)


def ones(
    *size: object, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """Ones, of sizes given one by one, as one sequence, or as `size=`."""
    return _filled("ones", size, dtype, device, requires_grad, rest)


def full(
    size: object,
    fill_value: object,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """One value everywhere."""
    if rest:
        no_more(rest, OPTIONS)
    shape = shape_of((size,))
    value = _fill_value(fill_value, "full")
    attrs = {"size": shape, "dtype": element_type(dtype) or dtype_of_new(value), "device": place_of_new(device)}
    result = call_function(OPERATORS["full"], (value,), attrs)
    return with_gradient(result, requires_grad)


def _fill_value(value: object, op: str) -> Handle | complex:
    value = required_operand(value)
    if isinstance(value, Handle):
        require(not value.form.shape, "S002", f"{op}: fill_value must have no dims", fill_value=value)
    return value


def _like(
    name: str,
    like: Handle,
    values: tuple[object, ...],
    dtype: object,
    device: object,
    requires_grad: bool,
    rest: dict[str, object],
) -> Tensor:
    memory_format = rest.pop("memory_format", None)
    if rest:
        no_more(rest, OPTIONS)
    attrs = {"dtype": element_type(dtype), "device": place_of_new(device)}
    shown: Handle = OPERATORS["detach"](like)
    if attrs["device"] == META and STATE.tracer is None and not is_wrapper(like):
        # Only the shape is asked for, and a tensor without data is answered where there are none.
        shown = make(None, form_of(tuple(like.form.shape), like.dtype, META, like.form.strides, like.form.type.weak))
    result = call_function(OPERATORS[name], (shown, *values), attrs)
    if memory_format is not None:
        result = laid_out(result, memory_format)
    return with_gradient(result, requires_grad)


def empty_like(
    input: object, *, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """Undefined contents in the shape of another tensor."""
    like = required_tensor(input)
    if like.backing is not None and like.form.is_contiguous and dtype is None and device is None and not rest:
        form = form_of(tuple(like.form.shape), like.dtype, like.device)
        return with_gradient(allocate(form), requires_grad)
    return _like("empty_like", like, (), dtype, device, requires_grad, rest)


def zeros_like(
    input: object, *, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """Zeros in the shape of another tensor."""
    return _like("zeros_like", required_tensor(input), (), dtype, device, requires_grad, rest)


def ones_like(
    input: object, *, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """Ones in the shape of another tensor."""
    return _like("ones_like", required_tensor(input), (), dtype, device, requires_grad, rest)


def full_like(
    input: object,
    fill_value: object,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """One value in the shape of another tensor."""
    like = required_tensor(input)
    return _like("full_like", like, (_fill_value(fill_value, "full_like"),), dtype, device, requires_grad, rest)


def _range_count(first: float, last: float, step: float) -> int:
    require(step != 0, "A002", "arange: step must not be 0")
    length = (last - first) / step
    require(math.isfinite(length), "A002", "arange: a range without end", start=first, end=last, step=step)
    return max(math.ceil(length), 0)


def arange(
    start: object = None,
    end: object = None,
    step: object = 1,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """start, start + step, ... before end; from 0 when only the end is given."""
    if rest:
        no_more(rest, OPTIONS)
    first, last = (0, start) if end is None else (0 if start is None else start, end)
    values = [number(value) for value in (first, last, step)]
    where, wanted = place_of_new(device), element_type(dtype)
    if wanted is not None and wanted.kind is Kind.INT:  # numbers are truncated before any are counted, as in PyTorch
        values = [int(value) if isinstance(value, float) else value for value in values]
    if all(isinstance(value, int | float) for value in values):
        forward = (values[1] - values[0]) * values[2] >= 0
        require(
            forward, "A002", "arange: the step leads away from the end", start=values[0], end=values[1], step=values[2]
        )
    if any(isinstance(value, float) for value in values):
        first, last, stride = [float(value) for value in values]
        count, kind = _range_count(first, last, stride), wanted or default_dtype()
        attrs = {"count": count, "dtype": kind, "device": where}
        result = call_function(OPERATORS["arange.float"], (first, stride), attrs)
    else:
        first, last, stride = values
        attrs = {"start": first, "end": last, "step": stride, "dtype": wanted, "device": where}
        result = call_function(OPERATORS["arange"], (), attrs)
    return with_gradient(result, requires_grad)


def spaced_dtype(ends: tuple[object, object], dtype: object) -> DType:
    """The dtype of numbers between two ends: the one that is given, or the default, complex where an end is."""
    has_complex = any(one.dtype.is_complex if isinstance(one, Handle) else isinstance(one, complex) for one in ends)
    return element_type(dtype) or (default_complex() if has_complex else default_dtype())


def linspace(
    start: object,
    end: object,
    steps: object,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Evenly spaced numbers, both ends included."""
    if rest:
        no_more(rest, OPTIONS)
    ends = (required_operand(start), required_operand(end))
    attrs = {"steps": integer(steps), "dtype": spaced_dtype(ends, dtype), "device": place_of_new(device)}
    result = call_function(OPERATORS["linspace"], ends, attrs)
    return with_gradient(result, requires_grad)


def eye(
    n: object,
    m: object = None,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Ones on the diagonal."""
    if rest:
        no_more(rest, OPTIONS)
    attrs = {
        "n": integer(n),
        "m": integer(m),
        "dtype": element_type(dtype) or default_dtype(),
        "device": place_of_new(device),
    }
    result = call_function(OPERATORS["eye"], (), attrs)
    return with_gradient(result, requires_grad)


def scalar_tensor(
    s: object, *, dtype: object = None, device: object = None, requires_grad: bool = False, **rest: object
) -> Tensor:
    """A tensor without dims, of the default dtype unless another is given."""
    return full(
        (), s, dtype=default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad, **rest
    )


def _empty(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, Any]) -> Tensor:
    return allocate(form_of(attrs["size"], attrs["dtype"] or default_dtype(), attrs["device"] or CPU))


def _call_without_tensors(op: Op, operands: tuple[object, ...], attrs: Mapping[str, Any]) -> Any:
    """Runs an operator that is called without any tensor; other values are asked to answer."""
    if foreign_in(operands):
        operands = map_operands(operands, lambda one: one if method_of(one) is None else Foreign(one))
    return call_function(op, operands, attrs)


set_creation_handler(_call_without_tensors)
for _key in (Key.CPU, Key.DEVICE_1, Key.DEVICE_2, Key.DEVICE_3):
    register(OPERATORS["empty"], _key, _empty, boxed=True, leaf=True)
