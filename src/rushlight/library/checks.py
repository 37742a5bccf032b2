"""`opcheck`: whether a custom operator does what it says, asked by running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from rushlight import export
from rushlight.autograd import grad, gradcheck
from rushlight.capture.api import compile as compile_function
from rushlight.capture.launching import evaluated
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.dispatch import Key
from rushlight.eager.execution.operands import form_of_operand
from rushlight.eager.functions import stack
from rushlight.eager.memory import array_of
from rushlight.eager.tensor import Tensor
from rushlight.func.vectorize import vmap
from rushlight.ir.dtype import float64
from rushlight.ir.value import map_operands
from rushlight.library import calls
from rushlight.library.operators import CustomOpDef, operator_of
from rushlight.support.errors import RushlightError, fail
from rushlight.sym import Scope, SizeExpr

Arguments = tuple[object, ...]
Keywords = Mapping[str, object]
Check = Callable[["CustomOpDef", Arguments, Keywords], None]


class _Differs(Exception):
    """What a check found."""


def opcheck(
    op: object,
    args: Sequence[object],
    kwargs: Keywords | None = None,
    *,
    test_utils: str | Sequence[str] = "all",
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Checks a custom operator on arguments, as torch.library.opcheck: "SUCCESS" for each check, or what was found.

    `test_schema`: it writes to what it says, and no result lies in an argument's memory. `test_faketensor`: shapes,
    dtypes and strides are those that the fake kernel says. `test_autograd_registration`: results have a history if
    there is a derivative. `test_gradients`: they are those of differences, in float64. `test_aot_dispatch_dynamic`:
    compiled, results, writes and gradients have the same bits. `test_export` and `test_vmap`: so do an exported program
    and each place of a batch. Errors: A012 with all that was found, unless `raise_exception` is False.
    """
    operator = operator_of(op)
    names = list(CHECKS) if test_utils == "all" else [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        fail("A002", f"opcheck: there is no check {unknown[0]}", hint=f"checks: {', '.join(CHECKS)}")
    found: dict[str, str] = {}
    for name in names:
        found[name] = _asked(CHECKS[name], operator, tuple(args), dict(kwargs or {}))
    failed = {name: text for name, text in found.items() if text != "SUCCESS"}
    if failed and raise_exception:
        text = "; ".join([f"{name}: {text}" for name, text in failed.items()])
        fail("A012", f"{operator.operator.name}: {text}", hint="opcheck(..., raise_exception=False) returns this")
    return found


def _asked(check: Check, op: CustomOpDef, args: Arguments, kwargs: Keywords) -> str:
    try:
        check(op, args, kwargs)
    except _Differs as found:
        return str(found)
    except RushlightError as error:
        return f"{error.code}: {error.message}"
    return "SUCCESS"


T = TypeVar("T")


def _mapped(value: T, change: Callable[[Tensor], object]) -> T:
    """Arguments with other tensors."""
    items: object = value
    if isinstance(value, Mapping):
        items = {name: _mapped(part, change) for name, part in value.items()}
    elif isinstance(value, (tuple, list)):
        items = type(value)([_mapped(part, change) for part in value])
    elif isinstance(value, Tensor):
        items = change(value)
    return items  # pyright: ignore[reportReturnType] - of the same structure


def _copied(value: T) -> T:
    """Arguments with tensors of the same values and layout, and of the same role for gradients."""

    def copied(tensor: Tensor) -> Tensor:
        with no_grad():
            copy = calls.copy_of(tensor)
        assert isinstance(copy, Tensor), "a copy of a tensor is one"
        return copy.requires_grad_() if tensor.requires_grad else copy

    return _mapped(value, copied)


def _detached(value: T) -> T:
    return _mapped(value, lambda tensor: tensor.detach())


def _filled(value: T, tensors: Sequence[Tensor]) -> T:
    rest = iter(tensors)
    return _mapped(value, lambda _: next(rest))


def _tensors(value: object) -> list[Tensor]:
    found: list[Tensor] = []
    _mapped(value, found.append)
    return found


def _bits(tensor: Tensor) -> bytes:
    return np.ascontiguousarray(array_of(tensor.detach())).tobytes()


def _require_same(found: Sequence[Tensor], wanted: Sequence[Tensor], what: str) -> None:
    if len(found) != len(wanted):
        raise _Differs(f"{what}: {len(found)} tensors instead of {len(wanted)}")
    for position, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if tuple(one.shape) != tuple(other.shape) or one.dtype is not other.dtype:
            raise _Differs(f"{what} {position}: {one.form.type} instead of {other.form.type}")
        if _bits(one) != _bits(other):
            raise _Differs(f"{what} {position} has other values")


def _check_schema(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    args, kwargs = _copied(args), _copied(kwargs)
    before = [_bits(tensor) for tensor in _tensors((args, kwargs))]
    with no_grad():
        operands, _ = op.operator.bind(args, kwargs)
        op(*args, **kwargs)
    written = {id(tensor) for tensor in calls.written_operands(op.operator.schema, operands)}
    for tensor, bits in zip(_tensors((args, kwargs)), before, strict=True):
        if id(tensor) not in written and _bits(tensor) != bits:
            raise _Differs("it wrote to an argument that is not in mutates_args")


def _check_fake(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    args, kwargs = _copied(args), _copied(kwargs)
    operands, attrs = op.operator.bind(args, kwargs)
    types = map_operands(operands, lambda operand: form_of_operand(operand).type)
    said = op.types_of(op.operator.named(types, attrs), calls.FakeContext(Scope().symbol))
    with no_grad():
        results = _tensors((op(*args, **kwargs),))
    if len(said) != len(results):
        raise _Differs(f"the fake kernel gives {len(said)} results, the kernel {len(results)}")
    sizes: dict[SizeExpr, int] = {}
    for type_, result in zip(said, results, strict=True):
        pairs = zip(type_.shape, result.form.shape, strict=False)
        sizes |= {size: shown for size, shown in pairs if isinstance(size, SizeExpr)}
    for position, (type_, result) in enumerate(zip(said, results, strict=True)):
        form, shape, strides = result.form, evaluated(type_.shape, sizes), evaluated(type_.strides, sizes)
        if shape != tuple(form.shape):
            raise _Differs(f"result {position} has the shape {tuple(form.shape)}, the fake one {shape}")
        if type_.dtype is not form.dtype:
            raise _Differs(f"result {position} has the dtype {form.dtype}, the fake one {type_.dtype}")
        if not _same_strides(strides, form.strides, form.shape):
            raise _Differs(f"result {position} has the strides {form.strides}, the fake one {strides}")


def _same_strides(one: Sequence[object], other: Sequence[object], shape: Sequence[int]) -> bool:
    return all(a == b or size <= 1 for a, b, size in zip(one, other, shape, strict=True)) or 0 in shape


def _wanted(args: Arguments, kwargs: Keywords) -> list[Tensor]:
    return [tensor for tensor in _tensors((args, kwargs)) if tensor.requires_grad]


def _has_derivative(op: CustomOpDef) -> bool:
    return op.has_rule(Key.AUTOGRAD) and not op.writes


def _check_registration(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    if not _wanted(args, kwargs) or not _has_derivative(op):
        return
    args, kwargs = _copied(args), _copied(kwargs)
    floating = [tensor for tensor in _tensors((op(*args, **kwargs),)) if tensor.is_floating_point()]
    if floating and not any(tensor.requires_grad for tensor in floating):
        raise _Differs("no result requires gradients, although there is a derivative")


def _check_gradients(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    if not _wanted(args, kwargs) or not _has_derivative(op):
        return
    wide = _mapped(args, _wide)
    leaves = _wanted(wide, {})

    def run(*values: Tensor) -> object:
        rest = iter(values)
        found = op(*_mapped(wide, lambda tensor: next(rest) if tensor.requires_grad else tensor), **kwargs)
        return tuple([one for one in _tensors(found) if one.is_floating_point()])

    try:
        gradcheck(run, tuple(leaves), raise_exception=True)
    except RushlightError as error:
        raise _Differs(f"gradients are not those of differences: {error.message}") from None


def _wide(tensor: Tensor) -> Tensor:
    """In float64, where differences say something."""
    if not tensor.is_floating_point():
        return tensor
    copy = tensor.detach().to(float64).clone()
    return copy.requires_grad_() if tensor.requires_grad else copy


def _run(function: Callable[..., object], args: Arguments, kwargs: Keywords) -> list[list[Tensor]]:
    """Results, arguments after the call, and gradients."""
    args, kwargs = _copied(args), _copied(kwargs)
    results = _tensors((function(*args, **kwargs),))
    starts = [result for result in results if result.requires_grad]
    wanted = _wanted(args, kwargs)
    gradients: Sequence[Tensor | None] = ()
    if starts and wanted:
        gradients = grad([(start * 0.5).sum() for start in starts], wanted, allow_unused=True)
    return [results, _tensors((args, kwargs)), [one for one in gradients if one is not None]]


def _check_compiled(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    """Compiled for any size, between other operators."""

    def around(*args: object, **kwargs: object) -> object:
        result = op(*args, **kwargs)
        results = _tensors((result,))
        return [one * 2 if one.is_floating_point() else one + 0 for one in results], result

    plain = _has_derivative(op) or not _wanted(args, kwargs)
    given = args if plain else _detached(args)
    words = kwargs if plain else _detached(kwargs)
    wanted, found = _run(around, given, words), _run(compile_function(around, fullgraph=True), given, words)
    for what, one, other in zip(("result", "argument", "gradient"), found, wanted, strict=True):
        _require_same(one, other, f"compiled, {what}")


def _check_export(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    if op.operator.schema.results == () or op.writes:
        return  # a program of nothing, or of writes to arguments that belong to the caller
    given = _detached(_copied(args))
    program = export.export(lambda *args: op(*args, **kwargs), tuple(given))
    _require_same(_tensors((program.module()(*given),)), _tensors((op(*given, **kwargs),)), "exported, result")


def _check_vmap(op: CustomOpDef, args: Arguments, kwargs: Keywords) -> None:
    if op.writes or not op.operator.schema.results or not _tensors(args):
        return
    given = _detached(_copied(args))
    places = [(tensor, tensor.flip(0) if tensor.dim() else tensor) for tensor in _tensors(given)]
    stacks = [stack(pair) for pair in places]
    found = _tensors(vmap(lambda *values: op(*_filled(given, values), **kwargs))(*stacks))
    rows = [_tensors(op(*_filled(given, [pair[at] for pair in places]), **kwargs)) for at in range(2)]
    wanted = _tensors([stack(parts) for parts in zip(*rows, strict=True)])
    _require_same(found, wanted, "vmap, result")


CHECKS: Mapping[str, Check] = {
    "test_schema": _check_schema,
    "test_faketensor": _check_fake,
    "test_autograd_registration": _check_registration,
    "test_gradients": _check_gradients,
    "test_aot_dispatch_dynamic": _check_compiled,
    "test_export": _check_export,
    "test_vmap": _check_vmap,
}
