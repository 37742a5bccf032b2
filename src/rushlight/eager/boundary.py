"""The boundary to users: a failure because of an argument's type becomes one registered error that names the argument.

Nothing is checked before a call. When one ends in an error without a code, its arguments are compared with the types in
the operator's schema, or in the function's annotations; the first that does not fit is the reason (A001, A002), and the
error is its cause. Where all fit, the failure is nobody's argument: it passes as it is.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from rushlight.eager.dispatch import set_explanation
from rushlight.eager.execution.meta import types_of
from rushlight.eager.handle import Handle, adopted
from rushlight.eager.mutation import Mutation
from rushlight.eager.override.answering import Overridden, answer, catches, relevant
from rushlight.eager.override.foreign import foreign_in
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.ir.value import Value
from rushlight.ops.record import Operator
from rushlight.ops.schema import Parameter
from rushlight.support.errors import RushlightError, error
from rushlight.sym import SizeExpr
from rushlight.term import Op

F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type[Handle])

NUMPYS_NAMES: Mapping[str, str] = MappingProxyType(
    {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
)
"""What PyTorch takes in place of its own names of parameters, by NumPy's."""
_SYMBOLS = (SymInt, SymFloat, SizeExpr)


class Kind(NamedTuple):
    """What an argument may be: in words, and as a test."""

    words: str
    fits: Callable[[object], bool]


def _is_int(value: object) -> bool:
    if isinstance(value, (bool, float)):
        return False
    if isinstance(value, _SYMBOLS):
        return True
    if isinstance(value, Handle):
        return value.form.numel == 1
    # What has `__index__` alone is none: a function that only computes with it fails, where one that converts does not.
    return isinstance(value, (int, np.integer)) and -(1 << 63) <= int(value) < 1 << 63


def _is_number(value: object) -> bool:
    if isinstance(value, Handle):
        return value.form.numel == 1
    return isinstance(value, (int, float, complex, np.number, np.bool_, *_SYMBOLS))


def _is_real(value: object) -> bool:
    return _is_number(value) and not isinstance(value, complex)


def _begins(value: Any) -> bool:
    """Takes the first element of an iterable; an error of the iterable's own is raised here.

    The call has failed already, so nothing else needs that element.
    """
    next(iter(value), None)
    return operator.length_hint(value) >= 0


def _iterates(element: Kind, value: object) -> bool:
    return _all(element.fits)(value) if isinstance(value, (tuple, list)) else _begins(value)


def _is_operand(value: object) -> bool:
    return isinstance(value, Value) or _is_number(value)


def _all(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, (tuple, list)) and all(fits(element) for element in value)


_BOOL = Kind("a bool", lambda value: isinstance(value, (bool, np.bool_, SymBool)))
_INT = Kind("an int of 64 bits", _is_int)
_INTS = Kind("an int of 64 bits or several", lambda value: _is_int(value) or _all(_is_int)(value))
_NUMBER = Kind("a number", _is_number)
_REAL = Kind("a real number", _is_real)
_TENSOR = Kind("a tensor", lambda value: isinstance(value, Value))
_OPERAND = Kind("a tensor or a number", _is_operand)
_TENSORS = Kind("a tensor, or a list or tuple of them", lambda value: _TENSOR.fits(value) or _all(_TENSOR.fits)(value))
_NONE = Kind("None", lambda value: value is None)
_FUNCTION = Kind("a function", callable)
_ITERABLE = Kind("iterable", _begins)
_OF_CLASS = {"Generator", "Module", "Optimizer", "Dataset", "Sampler", "Parameter"}

KINDS: Mapping[str, Kind] = {
    "None": _NONE,
    "bool": _BOOL,
    "int": _INT,
    "float": _REAL,
    "Hyperparameter": _REAL,
    "str": Kind("a text", lambda value: isinstance(value, str)),
    "Tensor": _TENSOR,
    "DType": Kind("a dtype", lambda value: isinstance(value, DType)),
    "Device": Kind("a device", lambda value: isinstance(value, Device)),
    "Callable": _FUNCTION,
    "Iterable": _ITERABLE,
    "Params": _ITERABLE,
    "Sequence": Kind("a sequence", lambda value: hasattr(type(value), "__getitem__") and _begins(value)),
    "Sized": Kind("of a length", lambda value: hasattr(value, "__len__")),
    "Mapping": Kind("a dict", lambda value: isinstance(value, Mapping)),
    "dict": Kind("a dict", lambda value: isinstance(value, dict)),
    **{name: Kind(f"a {name}", functools.partial(lambda name, value: _is_of(value, name), name)) for name in _OF_CLASS},
}
"""Types in annotations that are known here; an argument of any other type counts as fitting."""

_NAMES: Mapping[Kind, str] = {
    _TENSOR: "input self tensor target query key x1 x2 mask condition src offsets hx weight bias running_mean "
    "running_var per_sample_weights attn_mask key_padding_mask out vec total_norm weights pos_weight tensor1 tensor2",
    _OPERAND: "other value fill_value repeats q s end",
    _INTS: "dim dims size shape sizes kernel_size stride padding dilation output_size normalized_shape k n m "
    "unflattened_size split_size_or_sections num_classes",
    _TENSORS: "tensors outputs inputs",
    _NUMBER: "mean std scale_factor correction p from_ to lr eps weight_decay momentum dampening alpha beta",
    Kind("a pair of numbers", lambda value: _all(_is_number)(value) and len(value) == 2): "betas",
    _BOOL: "keepdim sorted descending stable inplace",
    _ITERABLE: "parameters values modules",
}
_BY_NAME: Mapping[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""Parameters that PyTorch names so are of these kinds where an annotation says `object`."""

_SCHEMA: Mapping[str, Kind] = {
    "Tensor": _OPERAND,
    "Tensor[]": Kind("a list or tuple of tensors", _all(lambda value: value is None or _is_operand(value))),
    "Size": _INT,
    "Offset": _INT,
    "int": _INT,
    "Size[]": _INTS,
    "int[]": _INTS,
    "float": KINDS["float"],
    "bool": _BOOL,
    "str": KINDS["str"],
    "DType": KINDS["DType"],
    "Device": KINDS["Device"],
}


def _is_of(value: object, name: str) -> bool:
    return any(cls.__name__ == name for cls in type(value).__mro__)


def _fits(kind: Kind, value: object) -> bool:
    """Whether a value is of a kind; one that fails when it is asked is not."""
    try:
        return kind.fits(value)
    except Exception as problem:  # noqa: BLE001 - an object of the user's may raise anything
        return isinstance(problem, RushlightError)


def _kinds_of(annotation: str) -> list[Kind]:
    """The kinds in an annotation such as `int | tuple[int, ...] | None`; empty if one of them is unknown."""
    kinds: list[Kind] = []
    for part in _parts(annotation):
        name, bracket, inside = part.partition("[")
        element = KINDS.get(re.split(r"[\[\],]", inside)[0]) if bracket else None
        if name in ("tuple", "list") or (name == "Sequence" and inside[:-1] in ("int", "float")):
            if element is None:
                return []
            kinds.append(Kind(f"a sequence, each {element.words}", _all(element.fits)))
        elif name == "PerDim" and element is not None:
            kinds += [element, Kind("several of them", _all(element.fits))]
        elif name == "Iterable" and element is not None:
            kinds.append(Kind(f"iterable, each {element.words}", functools.partial(_iterates, element)))
        elif name in KINDS:
            kinds.append(KINDS[name])
        else:
            return []
    return kinds


def _bound_of(function: Callable[..., object], annotation: str) -> str:
    """An annotation; of a type variable of the function's module, the class that bounds it."""
    variable = getattr(function, "__globals__", {}).get(annotation)
    bound = variable.__bound__ if isinstance(variable, TypeVar) else None
    return bound.__name__ if isinstance(bound, type) else annotation


def _parts(annotation: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            yield annotation[start:at].strip()
            start = at + 1
    yield annotation[start:].strip()


def _unfit(name: str, argument: str, kinds: Sequence[Kind], value: object) -> RushlightError | None:
    """The error for an argument that is of none of the kinds, else None; None also if `kinds` is empty."""
    if not kinds or any(_fits(kind, value) for kind in kinds):
        return None
    words = [kind.words for kind in kinds]
    expected = ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]
    whole = isinstance(value, int) and not isinstance(value, bool)
    code = "A002" if whole and any(kind in (_INT, _INTS) for kind in kinds) else "A001"
    given: dict[str, Any] = {argument if argument not in ("hint", "frame") else "given": value}
    return error(code, f"{name}: {argument} must be {expected}", **given)


def misuse(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    name: str,
    of_tensor: bool = False,
) -> RushlightError | None:
    """The error for the first argument that does not fit its annotation in a function; None if all fit.

    The `self` of a method `of_tensor` has to be a tensor.
    """
    try:
        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    parameters = inspect.signature(function).parameters
    for argument, value in given.items():
        parameter = parameters[argument]
        kinds = _kinds_of(_bound_of(function, str(parameter.annotation)))
        if not kinds and argument in _BY_NAME and (argument != "self" or of_tensor):
            kinds = [_BY_NAME[argument]]
        if value is parameter.default:
            continue
        many = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        for element in cast(tuple[object, ...], value) if many else (value,):
            report = _unfit(name, "input" if argument == "self" else argument, kinds, element)
            if report is not None:
                return report
    return None


def misuse_of(
    method: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], name: str
) -> RushlightError | None:
    """`misuse` of a method that may be a user's own: then None, since what its arguments are is not known here."""
    return misuse(method, args, kwargs, name) if str(method.__module__).startswith("rushlight.") else None


def explained(op: Op, operands: tuple[object, ...], attrs: Mapping[str, object]) -> RushlightError | None:
    """The error for the first argument that does not fit its type in the schema; None if all fit."""
    base = op.base if isinstance(op, Mutation) else op
    targets = ()
    if isinstance(op, Mutation):
        targets = (("out" if op.out else "input", op.target_of(operands)),)
        operands = op.base_operands(operands) if op.out else operands
    for argument, value in targets:
        report = _unfit(op.name, argument, (_TENSOR,), value)
        if report is not None:
            return report
    if not isinstance(base, Operator):
        return None
    listed = zip(base.schema.operands, operands, strict=False)
    pairs: list[tuple[Parameter, object]] = [
        *listed,
        *[(attribute, attrs.get(attribute.name)) for attribute in base.schema.attributes],
    ]
    for parameter, value in pairs:
        kind = _SCHEMA.get(parameter.type.rstrip("?")) or _BY_NAME.get(parameter.name)
        optional = parameter.type.endswith("?") or value is parameter.default
        if kind is not None and not (optional and value is None):
            report = _unfit(base.name.partition(".")[0], parameter.name, (kind,), value)
            if report is not None:
                return report
    first = pairs[0] if pairs else None
    if first is not None and first[0].type == "Tensor" and not _TENSOR.fits(first[1]):  # a number is one, unless alone
        return _unfit(base.name.partition(".")[0], first[0].name, (_TENSOR,), first[1])
    return _refusal(base, operands, attrs)


def _refusal(base: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> RushlightError | None:
    """The error that the operator's typing rule reports for these operands; None if it accepts them.

    Called when something else has failed before the rule ran.
    """
    try:
        base.infer(types_of(operands), attrs)
    except RushlightError as report:
        return report
    except Exception:  # noqa: BLE001 - then it is not the arguments' types, and the first failure is the one to show
        return None
    return None


def checked(function: F, of_tensor: bool = False) -> F:
    """Lets a function's failures be explained by its annotations; see `misuse`.

    For functions that call several operators, since it costs a call: failures of one operator are explained anyway.
    """

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Overridden as signal:
            if signal.frame is not sys._getframe():
                raise
        except RushlightError:
            if not foreign_in((*args, *kwargs.values())):
                raise
        except Exception as problem:
            if foreign_in((*args, *kwargs.values())):
                return _answered(call, args, kwargs, of_tensor)
            known = _by_own_names(function, kwargs)
            if known is not None:
                return call(*args, **known)
            own = type(args[0]).__name__ if function.__name__ == "__init__" and args else function.__name__
            report = misuse(function, args, kwargs, own, of_tensor)
            if report is None:
                raise
            raise report from problem
        return _answered(call, args, kwargs, of_tensor)

    made: Any = call
    made.__code__ = made.__code__.replace(co_name=function.__name__)
    if str(function.__module__).startswith(_OVERRIDABLE):
        catches(made.__code__)
    return made


def _by_own_names(function: Callable[..., object], kwargs: Mapping[str, object]) -> dict[str, object] | None:
    """Arguments that were given by NumPy's names, by those of the parameters; None where there are none.

    Python has refused them, so nothing of the function has run.
    """
    if not NUMPYS_NAMES.keys() & kwargs.keys():
        return None
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    known: dict[str, object] = {}
    for name, value in kwargs.items():
        own = name if name in parameters else NUMPYS_NAMES.get(name, name)
        if own not in parameters or own in known or (own != name and own in kwargs):
            return None
        known[own] = value
    return known if known.keys() != kwargs.keys() else None


# Whose functions are asked for overrides as a whole; within those of other modules each call is asked for its own.
_OVERRIDABLE = tuple(
    [f"rushlight.{name}" for name in ("compat", "eager", "fft", "linalg", "nn.functional", "signal", "special")]
)


def _answered(call: Any, args: tuple[object, ...], kwargs: Mapping[str, object], of_tensor: bool) -> Any:
    """What overrides make of a call of a checked function, or of a method of tensors."""
    function = getattr(adopted(), call.__name__, call) if of_tensor else call
    return answer(function, relevant((*args, *kwargs.values())), args, kwargs)


def checked_methods(cls: C) -> C:
    """Makes all public methods of a class of tensors `checked`."""
    for name, value in vars(cls).items():
        if isinstance(value, FunctionType) and (not name.startswith("_") or name == "__init__"):
            setattr(cls, name, checked(value, of_tensor=True))
    return cls


class Constructed:
    """Base of classes whose construction is `checked`, in this package: users' classes raise what they raise."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        made = vars(cls).get("__init__")
        if isinstance(made, FunctionType) and made.__module__.startswith("rushlight."):
            cls.__init__ = checked(made)


set_explanation(explained)
