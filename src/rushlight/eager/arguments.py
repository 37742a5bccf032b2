"""Arguments as users give them, as operators take them: lists as tuples, SymInts as sizes, names as devices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeGuard

import numpy as np

from rushlight.eager.dispatch import STATE, call_function, refuse_in_graphs
from rushlight.eager.execution.tables import forget_plans
from rushlight.eager.handle import BATCHED, Handle
from rushlight.eager.memory import copied
from rushlight.eager.override.foreign import Foreign, method_of
from rushlight.eager.symbols import SymBool, SymFloat, SymInt, unwrap_size
from rushlight.eager.tensor_meta import numbered
from rushlight.eager.tracing.number import TracedNumber
from rushlight.ir.dtype import (
    BY_NAME,
    WITHOUT_TENSORS,
    DType,
    Kind,
    bool_,
    complex64,
    complex128,
    float64,
    from_numpy_dtype,
)
from rushlight.ir.graph import number_dtype
from rushlight.ir.type import CPU, Device, set_device_scope
from rushlight.ops.promote import DEFAULT_DTYPE
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import error, fail, require
from rushlight.support.provenance import called_name
from rushlight.sym import Size, SizeExpr


class _Absent:
    """The class of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""What a parameter is that was not given, where None is a value."""
_INT = frozenset([int])
_PLAIN = (float, int, bool, complex)


def operand(value: object) -> Any:
    """A tensor, a number or an array of numpy's as an operand; NotImplemented for anything else.

    While a program is traced, an array is none: its elements would become constants.
    """
    if isinstance(value, Handle) or value.__class__ in _PLAIN:
        return value
    if isinstance(value, SymInt):
        return OPERATORS["from_size"](value.expr)
    if isinstance(value, SymFloat):
        return float(value)
    if isinstance(value, np.generic):  # of which some are floats: a graph has Python's
        return value.item()
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, np.ndarray) and STATE.tracer is None:
        dtype = from_numpy_dtype(value.dtype)
        return NotImplemented if dtype is None else copied(value, dtype)
    return NotImplemented


def is_tensor(value: object) -> TypeGuard[Handle]:
    """Whether a value is a tensor, and no number of a trace, which is of a class of tensors there."""
    return isinstance(value, Handle) and value.__class__ is not TracedNumber


def _overrides(value: object) -> bool:
    return STATE.overriding and method_of(value) is not None


def required_operand(value: Any) -> Handle | complex:
    """`operand`, or A001."""
    if isinstance(value, Handle) or value.__class__ in _PLAIN:
        return value
    converted = NotImplemented if isinstance(value, np.ndarray) else operand(value)
    if converted is NotImplemented and _overrides(value):
        converted = Foreign(value)  # which the FUNCTION key answers
    if converted is NotImplemented:
        hint = "make a tensor of it: rl.tensor(...)" if isinstance(value, (list, tuple, np.ndarray)) else None
        fail("A001", f"{called_name()}: a tensor or a number is expected", value=value, hint=hint)
    return converted


def input_operand(value: object) -> Any:
    """The first operand of a function, a tensor: A001 for a plain number, as for anything else."""
    if not is_tensor(value):
        if _overrides(value):
            return Foreign(value)
        fail("A001", f"{called_name()}: a tensor is expected", value=value, hint="make a tensor of it: rl.tensor(...)")
    return operand(value)


def operand_beside(first: object, value: object) -> Any:
    """`required_operand`, which must be a tensor where the first operand is a number (A001)."""
    return required_operand(value) if is_tensor(first) or _overrides(first) else input_operand(value)


def numeric_operand(value: object, other: object) -> Any:
    """`required_operand` of a function that takes numbers alone: beside a number, a number becomes a tensor."""
    if isinstance(value, Handle) and not value.form.type.weak:
        return value
    result = required_operand(value)
    if not (_is_number(result) and _is_number(other)):
        return result
    return call_function(OPERATORS["full"], (result,), {"size": (), "dtype": dtype_of_new(result), "device": None})


def _is_number(value: object) -> bool:
    if isinstance(value, Handle):
        return value.form.type.weak
    return isinstance(value, (bool, int, float, complex, np.generic, SymInt, SymFloat))


def required_tensor(value: object) -> Any:
    """The value, which must be a tensor: A001 for anything else, numbers too."""
    if not is_tensor(value):
        fail("A001", f"{called_name()}: a tensor is expected", value=value)
    return value


def optional_operand(value: object) -> Handle | complex | None:
    """`required_operand`, and None passes."""
    return None if value is None else required_operand(value)


def operand_list(values: Any) -> tuple[Handle | complex, ...]:
    """A list of tensors."""
    if not isinstance(values, (list, tuple)):
        given = values
        try:
            values = () if isinstance(given, Handle) else tuple(given)
        except Exception as cause:
            raise error("A001", f"{called_name()}: a list or tuple of tensors is expected", value=given) from cause
        if isinstance(given, Handle):
            fail("A001", f"{called_name()}: a list or tuple of tensors is expected, not a tensor", value=given)
    return tuple([required_operand(value) for value in values])


def integer(value: object) -> Any:
    """An int, a size, or a tensor or other object that is one; None passes."""
    if value.__class__ is int or value is None:
        return value
    if isinstance(value, SymInt):
        return value.expr
    if isinstance(value, SizeExpr):
        return value
    if isinstance(value, TracedNumber) and value.is_integer:
        return value.size()
    if value.__class__ is bool or (isinstance(value, Handle) and value.dtype is bool_):
        fail("A001", f"{called_name()}: an int is expected", value=value)
    if STATE.tracer is not None and isinstance(value, Handle):
        traced: Any = value
        return integer(traced.item())
    whole: Any = value
    try:
        return operator.index(whole)
    except Exception as cause:
        raise error("A001", f"{called_name()}: an int is expected", value=value) from cause


def distance(value: object, tensor: object) -> Size | None:
    """A storage offset as the distance from the tensor's first element; None passes."""
    offset = integer(value)
    if offset is None or not isinstance(tensor, Handle):
        return offset
    whole: Handle = tensor
    while whole.keys & BATCHED:
        whole = whole.node.value  # the distance from the first element of the batch is that at each place
    return offset - (whole.offset if STATE.tracer is None else STATE.tracer.offset(whole))


def integers(value: object) -> tuple[Any, ...] | None:
    """Ints or sizes as a tuple; one alone counts as a list of one; None passes."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple([integer(element) for element in value])
    return (integer(value),)


def fixed_integer(value: object) -> Any:
    """`integer`, of which a program relies on the value: a size or a traced number is fixed to it."""
    if value.__class__ is int or value is None:
        return value
    value = integer(value)
    return int(SymInt(value)) if isinstance(value, SizeExpr) else value


def settled(value: object) -> object:
    """An int that a trace leaves open fixed to its value; anything else as it is."""
    return fixed_integer(value) if isinstance(value, (TracedNumber, SymInt)) else value


def fixed_integers(value: object) -> tuple[int, ...] | None:
    """`integers`, each fixed to its value."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple([fixed_integer(element) for element in value])
    return (fixed_integer(value),)


def varied(values: tuple[object, ...], convert: Callable[[object], object] = integer) -> tuple[Any, ...]:
    """Ints given one by one or as one sequence: `x.view(2, 3)`, `x.view((2, 3))`."""
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    return values if _INT.issuperset(map(type, values)) else tuple([convert(value) for value in values])


def renamed(name: str, given: object, alias: str, value: object, default: object) -> Any:
    """The value of a parameter that was given by NumPy's name for it, as `axis` for `dim`. Errors: A003 for both."""
    require(given is default, "A003", f"{called_name()}: {name} and {alias} are one argument, which is given twice")
    return value


def missing(function: str, **parameters: object) -> NoReturn:
    """Fails with A003 for the required arguments that are ABSENT."""
    names = [name for name, value in parameters.items() if value is ABSENT]
    fail("A003", f"{function}: required arguments are missing: {', '.join(names)}")


def listed(named: dict[str, Any], name: str, values: tuple[object, ...]) -> tuple[Any, ...]:
    """The one argument that `varied` takes, given by name: `x.view(size=(2, 3))`. Errors: A003."""
    if values or list(named) != [name]:
        other = next((key for key in named if key != name), name)
        fail("A003", f"{called_name()}: there is no argument {other}, or {name} is given twice")
    return (named[name],)


def flag(value: object) -> bool:
    """A bool, of Python's or numpy's; A001 for anything else."""
    if not isinstance(value, (bool, np.bool_, SymBool)):
        fail("A001", f"{called_name()}: a bool is expected", value=value)
    return bool(value)


_DEEPEST = 8  # sequences within each other that an attribute may be


def number(value: Any, depth: int = 0) -> Any:
    """An attribute that is a number, or several; SymInts as sizes, tensors by their value; None passes."""
    if value.__class__ in _PLAIN or value is None:
        return value
    if isinstance(value, (list, tuple)):
        if depth == _DEEPEST:
            fail("A001", f"{called_name()}: sequences are nested too deeply, or contain themselves", value=value)
        return tuple([number(element, depth + 1) for element in value])
    if isinstance(value, Handle):
        return value.item()  # pyright: ignore[reportAttributeAccessIssue] - public tensors have it
    if isinstance(value, (np.floating, SymFloat)):
        return float(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.complexfloating):
        return complex(value)
    if isinstance(value, (SymInt, SizeExpr, float, complex)):
        return unwrap_size(value)
    try:
        return operator.index(value)
    except Exception as cause:
        raise error("A001", f"{called_name()}: a number is expected", value=value) from cause


def element_type(value: Any) -> DType | None:
    """A dtype, also from `float`, `int`, `bool`, `complex`, or a numpy dtype; None passes. Errors: D004, A006."""
    if value is None or isinstance(value, DType):
        if value in WITHOUT_TENSORS:
            fail("A006", f"{called_name()}: there are no tensors of {value}")
        return value
    hint = f"dtypes: {', '.join(BY_NAME)}"
    try:
        # Python's float and complex are float64 and complex128, as in PyTorch, whatever the default dtype is.
        dtype = from_numpy_dtype(np.dtype(value))
    except Exception as cause:
        raise error("D004", f"{called_name()}: not a dtype", value=value, hint=hint) from cause
    if dtype is None:
        fail("D004", f"{called_name()}: not a dtype", value=value, hint=hint)
    return dtype


def place(value: object) -> Device | None:
    """A device, also from its name; None passes; V001 for devices that do not exist."""
    if value is None:
        return None
    if value is CPU:
        return CPU
    if isinstance(value, (str, Device)):
        return numbered(Device(value))
    raise error("V001", "not a device", value=value)


def place_of_new(value: object) -> Device | None:
    """The device of a tensor to be made: the one given, else that of the scope; None for the CPU."""
    return STATE.device if value is None else place(value)


def get_default_device() -> Device:
    """Return the device on which new tensors are made."""
    return STATE.device or CPU


def set_default_device(device: object) -> None:
    """Set the device on which this thread makes new tensors; None is the CPU. `with device:` does so for a scope."""
    chosen = place(device)
    STATE.device = None if chosen is CPU else chosen


def _enter_device(device: Device) -> None:
    before = STATE.device
    set_default_device(device)
    STATE.devices = (*STATE.devices, before)


def _leave_device() -> None:
    STATE.device = STATE.devices[-1]
    STATE.devices = STATE.devices[:-1]


set_device_scope(_enter_device, _leave_device)


def default_dtype() -> DType:
    """The dtype of Python floats."""
    return DEFAULT_DTYPE[0]


def default_complex() -> DType:
    """The dtype of Python's complex numbers, whose parts are of `default_dtype`."""
    return complex128 if default_dtype() is float64 else complex64


def dtype_of_new(value: Handle | complex) -> DType:
    """The dtype of a tensor that is made of a tensor, or of a number: bool, int64, the default float or its complex."""
    if isinstance(value, Handle) and not value.form.type.weak:
        return value.dtype
    dtype = value.dtype if isinstance(value, Handle) else number_dtype(value)
    return default_dtype() if dtype.kind is Kind.FLOAT else default_complex() if dtype.is_complex else dtype


def set_default_dtype(dtype: DType) -> None:
    """Sets the dtype of Python floats, to which operators on integers raise these as well."""
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        fail("D004", "the default dtype must be a floating-point dtype", dtype=dtype)
    refuse_in_graphs("set_default_dtype", "it changes what later calls make")
    _use_default(dtype)


def _use_default(dtype: DType) -> None:
    if dtype is not DEFAULT_DTYPE[0]:
        DEFAULT_DTYPE[0] = dtype
        forget_plans()


@contextmanager
def defaulting(dtype: DType | None) -> Generator[None]:
    """While inside, Python floats are of a dtype, that under which a graph was traced, if it is known."""
    before = DEFAULT_DTYPE[0]
    _use_default(dtype or before)
    try:
        yield
    finally:
        _use_default(before)


def shape_of(values: Sequence[object]) -> tuple[Size, ...]:
    """A shape given as one sequence, or as the sizes one by one."""
    sizes = varied(tuple(values))
    for size in sizes:
        if isinstance(size, int) and size < 0:
            fail("S007", f"{called_name()}: a size is negative", shape=sizes)
    return sizes
