"""How the keys of the dispatcher answer a custom operator: its kernel, shapes alone, traces, gradients, batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.eager.autograd.function import Function, FunctionNode
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.write import check_write
from rushlight.eager.batching.levels import Level, VmapInfo, in_front, level_of, mapped, repeated
from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import STATE, Key, Scope, call_below, call_function, call_user, dispatch
from rushlight.eager.execution.operands import flatten, form_of_operand
from rushlight.eager.functions import stack
from rushlight.eager.handle import AUTOGRAD, Handle, allocate, make
from rushlight.eager.mutation import COPY
from rushlight.eager.symbols import wrap_size, wrap_sizes
from rushlight.eager.tensor_meta import form_of_type
from rushlight.eager.tracing import Tracer
from rushlight.ir.graph import GraphBuilder
from rushlight.ir.type import TensorType, dense_order, row_major, symbols_in
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Operator
from rushlight.ops.schema import Schema
from rushlight.support.errors import fail
from rushlight.sym import Origin, OriginKind, SizeExpr, check, ge, le, scopes_of
from rushlight.sym import Scope as SizeScope

Rule = Callable[..., object]
Attrs = Mapping[str, object]
Operands = tuple[object, ...]


def arguments_of(schema: Schema, named: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
    """What a rule of a schema is called with: by position, and by keyword. Tuples are lists, sizes are integers."""
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for parameter in schema.parameters:
        value = wrap_sizes(named[parameter.name])
        value = list(value) if isinstance(value, tuple) else value
        if parameter.keyword_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


def results_of(schema: Schema, result: object) -> tuple[Handle, ...]:
    """What a function of a schema returned, as tensors. Errors: A012 where it is something else."""
    listed = bool(schema.results) and schema.results[0].type == "Tensor[]"
    given: Sequence[object]
    if isinstance(result, (tuple, list)):
        given = list(result)
    else:
        given = [] if result is None else [result]
    count = len(given) if listed else len(schema.results)
    tensors = [one for one in given if isinstance(one, Handle)]
    if len(given) != count or len(tensors) != count:
        kinds = ", ".join([type(one).__name__ for one in given]) or "nothing"
        fail("A012", f"{schema.name}: {count} tensors are expected, and it gave {kinds}", schema=schema.text)
    return tuple(tensors)


def bare(schema: Schema, results: tuple[Handle, ...]) -> object:
    """Results as a call returns them: one by itself, none as None."""
    if len(schema.results) == 1 and schema.results[0].type == "Tensor":
        return results[0]
    return results if schema.results else None


def bare_types(schema: Schema, types: tuple[TensorType, ...]) -> object:
    """The types of results as a rule of typing gives them."""
    return types[0] if len(schema.results) == 1 and schema.results[0].type == "Tensor" else types


# Kernels.


def run_kernel(op: Operator, kernel: Rule, operands: Operands, attrs: Attrs) -> object:
    """Runs a kernel, and holds it to what the schema says of memory.

    Errors: A012 where a result lies in an argument's memory, or where it wrote to what it does not say it writes to.
    """
    schema = op.schema
    before = [(handle, handle.version.value) for handle in flatten(operands) if isinstance(handle, Handle)]
    args, kwargs = arguments_of(schema, op.named(operands, attrs))
    with Scope(grad=False):
        results = results_of(schema, kernel(*args, **kwargs))
    for result in results:
        for handle, _ in before:
            if result.backing is not None and result.backing is handle.backing:
                hint = "return a clone() of what is an argument, or a view of one"
                fail("A012", f"{schema.name}: a result lies in the memory of an argument", result=result, hint=hint)
    written = {id(handle) for handle in written_operands(schema, operands)}
    for handle, version in before:
        if handle.version.value != version and not _shares(handle, written, before):
            hint = "name the argument in mutates_args"
            fail("A012", f"{schema.name}: it wrote to an argument that it does not say it writes to", hint=hint)
    return bare(schema, results)


def _shares(handle: Handle, written: set[int], all_: Sequence[tuple[Handle, int]]) -> bool:
    """Whether a tensor is written to by name, or has the storage of one that is."""
    storages = {id(other.backing) for other, _ in all_ if id(other) in written}
    return id(handle) in written or id(handle.backing) in storages


def written_operands(schema: Schema, operands: Sequence[object]) -> list[Handle]:
    """The tensors that a call writes to."""
    found: list[Handle] = []
    for parameter, operand in zip(schema.operands, operands, strict=True):
        if parameter.written:
            found.extend([one for one in flatten((operand,)) if isinstance(one, Handle)])
    return found


# Types.


class FakeContext:
    """What a fake kernel makes sizes with that only a run of the operator tells. `sizes` are those so far."""

    def __init__(self, make: Callable[[], SizeExpr]) -> None:
        self._make = make
        self.sizes: list[SizeExpr] = []

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size of a result. What is said of it is checked at each call. Errors: R002 there."""
        size = self._make()
        self.sizes.append(size)
        for holds in (ge(size, min), *([] if max is None else [le(size, max)])):
            check(holds, "new_dynamic_size: the size is within its bounds")
        return wrap_size(size)


_contexts = threading.local()


def context_of_fake() -> FakeContext:
    """The context of the fake kernel that this thread runs. Errors: A006 where there is none."""
    context = getattr(_contexts, "now", None)
    if context is None:
        hint = "an operator that writes, and one on meta tensors, has results whose sizes follow from its arguments"
        fail("A006", "library.get_ctx: no trace takes sizes that values tell here", hint=hint)
    return context


def typed(
    op: Operator, fake: Rule, named: Mapping[str, object], context: FakeContext | None = None
) -> tuple[TensorType, ...]:
    """The types of results, by a function on tensors without data; sizes may be symbols."""
    outer = getattr(_contexts, "now", None)
    _contexts.now = context
    try:
        return _typed(op, fake, named)
    finally:
        _contexts.now = outer


def _typed(op: Operator, fake: Rule, named: Mapping[str, object]) -> tuple[TensorType, ...]:
    schema = op.schema
    operands = tuple([named[parameter.name] for parameter in schema.operands])
    types = [one for one in flatten(operands) if isinstance(one, TensorType)]
    scopes = scopes_of(symbols_in(types))
    tracer = Tracer(GraphBuilder("fake"), scopes[0] if scopes else SizeScope(), _no_data, _no_random)
    device = types[0].device if types else STATE.device
    try:
        with tracer.active(), Scope(grad=False, device=device):
            values = map_operands(operands, lambda one: tracer.fake(one) if isinstance(one, TensorType) else one)
            args, kwargs = arguments_of(schema, {**named, **op.named(values, {})})
            return tuple([tracer.node(result).type for result in results_of(schema, fake(*args, **kwargs))])
    finally:
        tracer.close()


def _no_data(tensor: Handle) -> TensorType:
    fail("A012", "a fake kernel reads a tensor that is no argument", tensor=tensor)


def _no_random(*asked: object) -> tuple[object, object]:
    fail("A012", "a fake kernel draws random numbers", hint="return new_empty(...): only the type is used")


def run_on_meta(op: Operator, operands: tuple[Any, ...], attrs: Attrs) -> object:
    """The results without data; what is written to counts a write."""
    types = map_operands(operands, lambda operand: form_of_operand(operand).type)
    result: Any = op.infer(types, attrs)
    for handle in written_operands(op.schema, operands):
        handle.version.value += 1
    found = result if isinstance(result, tuple) else (result,)
    return bare(op.schema, tuple([make(None, form_of_type(type_)) for type_ in found]))


def record_dynamic(op: Operator, dynamic: Operator, fake: Rule, operands: tuple[Any, ...], attrs: Attrs) -> object:
    """Records a call: one with sizes that a run tells in the form that names them. Errors: A012."""
    tracer: Tracer = STATE.tracer
    origin = Origin(f"a size of {op.name}()", OriginKind.VALUE, next(iter(tracer.frames()), None))
    context = FakeContext(lambda: tracer.scope.symbol(source=origin))
    types = map_operands(operands, lambda operand: form_of_operand(operand).type)
    found = typed(op, fake, op.named(types, attrs), context)
    if not context.sizes:
        return tracer.call(op, operands, attrs)
    shown = {size for type_ in found for size in type_.shape}
    hint = "make a result with the size itself as a dim"
    missing = [size for size in context.sizes if size not in shown]
    if missing:
        fail("A012", f"{op.name}: no result has a dim of a size that its fake kernel made", hint=hint)
    return tracer.call(dynamic, operands, {**attrs, "sizes": tuple(context.sizes)})


def dynamic_types(op: Operator, fake: Rule, named: Mapping[str, object], sizes: Sequence[SizeExpr]) -> object:
    """The types of results whose sizes have names already. Errors: V003 where they have none."""
    if not sizes:
        fail("V003", f"{op.name}: the result's shape depends on values that this tensor does not have")
    rest = iter(sizes)
    return bare_types(op.schema, typed(op, fake, named, FakeContext(lambda: next(rest))))


# Traces: what is written to is a further result, which is copied over the argument.


def value_type(type_: TensorType) -> TensorType:
    """The type in which a functional form gives what was written to."""
    return type_ if dense_order(type_.shape, type_.strides) is not None else row_major(type_)


def copy_of(handle: Handle) -> Handle:
    """A copy of a tensor in the layout of `value_type`."""
    result: Handle = dispatch(COPY, (allocate(form_of_type(value_type(handle.form.type))), handle), {})
    return result


def record_functional(schema: Schema, functional: Operator, operands: tuple[Any, ...], attrs: Attrs) -> object:
    """Records the functional form, and writes of what it gives. Errors: C012 where memory is shared."""
    tracer: Tracer = STATE.tracer
    targets = written_operands(schema, operands)
    cells = [tracer.binding(one).cell for one in flatten(operands) if isinstance(one, Handle)]
    for target in targets:
        if sum(cell is tracer.binding(target).cell for cell in cells) > 1:
            hint = "clone() the other argument"
            fail("C012", f"{schema.name}: an argument that is written to shares memory with another", hint=hint)
    made: Any = tracer.call(functional, operands, attrs)
    made = made if isinstance(made, tuple) else (made,)
    count = len(made) - len(targets)
    for target, value in zip(targets, made[count:], strict=True):
        tracer.call(COPY, (target, value), {})
    return bare(schema, made[:count])


# Gradients.


class Formula:
    """What `register_autograd` was given."""

    def __init__(self, backward: Rule, setup_context: Rule | None) -> None:
        self.backward = backward
        self.setup_context = setup_context


class Context:
    """What a formula sees as `ctx`: tensors that are saved, which arguments need gradients, and its own attributes."""

    def __init__(self, node: FunctionNode, attributes: dict[str, object]) -> None:
        self.__dict__ = attributes
        attributes["_node"] = node

    _node: FunctionNode

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None:
        del self._node  # the attributes belong to the node

    def save_for_backward(self, *tensors: object) -> None:
        """Keeps tensors for `saved_tensors`."""
        self._node.save_for_backward(*tensors)

    @property
    def saved_tensors(self) -> tuple[object, ...]:
        """What was saved."""
        return self._node.saved_tensors

    def mark_non_differentiable(self, *tensors: object) -> None:
        """Says which results have no gradient."""
        self._node.mark_non_differentiable(*tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the formula gets zeros for results without a gradient."""
        self._node.set_materialize_grads(value)


class _Call(Function):
    """A call with a formula: its first argument is what is called, the others are all tensors among the operands."""

    @staticmethod
    def forward(ctx: Any, call: Recorded, *tensors: object) -> object:
        operands = call.operands(tensors)
        result = call_below(Key.AUTOGRAD, call.op, call.active, operands, call.attrs)
        ctx.call, ctx.attributes = call, {}
        flags = call.operands(ctx.needs_input_grad[1:])
        ctx.attributes["needs_input_grad"] = tuple(call.inputs(flags, plain=False))
        if call.formula.setup_context is not None:
            with Context(ctx, ctx.attributes) as context:
                args, kwargs = arguments_of(call.op.schema, call.op.named(operands, call.attrs))
                keywords = {"keyword_only_inputs": kwargs} if kwargs else {}
                call.formula.setup_context(context, tuple(args), result, **keywords)
        return result if isinstance(result, (tuple, Handle)) else ()

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> object:
        call: Recorded = ctx.call
        schema = call.op.schema
        listed = bool(schema.results) and schema.results[0].type == "Tensor[]"
        with Context(ctx, ctx.attributes) as context:
            found = call.formula.backward(context, *([list(gradients)] if listed else gradients))
        return (None, *call.gradients(found))


class Recorded:
    """One call of an operator with a formula: operands without their tensors, attributes, and the active keys."""

    def __init__(self, op: Operator, formula: Formula, active: int, operands: Operands, attrs: Attrs) -> None:
        self.op = op
        self.formula = formula
        self.active = active
        self.attrs = attrs
        self._shape = map_operands(operands, lambda one: Handle if isinstance(one, Handle) else one)

    def operands(self, tensors: Sequence[object]) -> Operands:
        """The operands with these in the places of tensors."""
        rest = iter(tensors)
        return map_operands(self._shape, lambda one: next(rest) if one is Handle else one)

    def inputs(self, operands: Operands, plain: object) -> list[object]:
        """One value for each positional argument: that of an operand, `plain` for another one."""
        values = self.op.named(operands, {})
        positional = [parameter for parameter in self.op.schema.parameters if not parameter.keyword_only]
        found = [values.get(parameter.name, plain) for parameter in positional]
        return [list(value) if isinstance(value, tuple) else value for value in found]

    def gradients(self, found: object) -> list[object]:
        """The gradients of all tensors, of what a formula gave. Errors: A012 where it gave another number."""
        schema = self.op.schema
        positional = [parameter for parameter in schema.parameters if not parameter.keyword_only]
        given = found if isinstance(found, tuple) else (found,)
        if len(given) != len(positional):
            message = f"{schema.name}: its backward gave {len(given)} gradients for {len(positional)} arguments"
            fail("A012", message, hint="return None for arguments that are no tensors")
        named = {parameter.name: value for parameter, value in zip(positional, given, strict=True)}
        result: list[object] = []
        for parameter, operand in zip(schema.operands, self._shape, strict=True):
            value = named.get(parameter.name)
            if isinstance(operand, tuple):
                parts = list(value) if isinstance(value, (tuple, list)) else [None] * len(operand)
                result.extend([part for part, one in zip(parts, operand, strict=True) if one is Handle])
            elif operand is Handle:
                result.append(value)
        return result


def record_call(formula: Formula, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
    """The AUTOGRAD key of an operator with a formula."""
    tensors = [one for one in flatten(operands) if isinstance(one, Handle)]
    if not STATE.grad or not any(requires(one) for one in tensors):
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    return _Call.apply(Recorded(op, formula, active, operands, attrs), *tensors)


def record_by(function: Rule, op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
    """The AUTOGRAD key of an operator with a function that records its calls."""
    if not STATE.grad or not any(isinstance(one, Handle) and requires(one) for one in flatten(operands)):
        return call_below(Key.AUTOGRAD, op, active, operands, attrs)
    args, kwargs = arguments_of(op.schema, op.named(operands, attrs))
    return call_user(function, *args, **kwargs)


def record_write(op: Operator, active: int, operands: Operands, attrs: Attrs) -> object:
    """The AUTOGRAD key of an operator that writes: what has a history cannot be written to without a formula."""
    for target in written_operands(op.schema, operands):
        if STATE.grad and target.keys & AUTOGRAD and requires(target):
            check_write(op.name, target)
            hint = "write to a detach() of it under no_grad, or define the operator without mutates_args"
            fail("G008", f"{op.name}: it writes to a tensor that requires gradients", target=target, hint=hint)
    return NotImplemented


# Batches.


def run_batched(op: Operator, rule: Rule | None, operands: tuple[Any, ...], attrs: Attrs) -> object:
    """The BATCHED key: one level by the rule that was registered, or place by place."""
    levels = [level for one in flatten(operands) if (level := level_of(one)) is not None]
    if not levels:
        return NotImplemented
    level = max(levels, key=lambda level: level.depth)
    values = map_operands(operands, lambda one: one.node.value if level_of(one) == level else one)
    found = (
        _by_places(op, operands, values, attrs, level)
        if rule is None
        else _by_rule(op, rule, operands, values, attrs, level)
    )
    results = tuple([mapped(one, level) for one in found])
    return bare(op.schema, results)


def _by_places(
    op: Operator, operands: Operands, values: tuple[Any, ...], attrs: Attrs, level: Level
) -> tuple[Handle, ...]:
    if written_operands(op.schema, operands):
        fail("A006", f"vmap: {op.name} writes in place", hint="register a rule: register_vmap")
    flags = map_operands(operands, lambda one: level_of(one) == level)
    flat = list(zip(flatten(values), flatten(flags), strict=True))
    rows: list[tuple[Handle, ...]] = []
    for place in range(int(wrap_size(level.size))):  # a trace is for so many
        rest = iter([OPERATORS["select"](one, 0, place) if flag else one for one, flag in flat])
        result: Any = call_function(op, map_operands(values, lambda _: next(rest)), attrs)  # noqa: B023 - used here
        rows.append(result if isinstance(result, tuple) else (result,))
    if rows:
        return tuple([stack(parts) for parts in zip(*rows, strict=True)])
    types: Any = op.infer(map_operands(operands, lambda one: form_of_operand(one).type), attrs)
    found = types if isinstance(types, tuple) else (types,)
    return tuple([zeros((0, *type_.shape), dtype=type_.dtype) for type_ in found])


def _by_rule(
    op: Operator, rule: Rule, operands: Operands, values: tuple[Any, ...], attrs: Attrs, level: Level
) -> tuple[Handle, ...]:
    schema = op.schema
    dims = map_operands(operands, lambda one: 0 if level_of(one) == level else None)
    args, kwargs = arguments_of(schema, op.named(values, attrs))
    nothing = dict.fromkeys([parameter.name for parameter in schema.attributes])
    in_dims, _ = arguments_of(schema, op.named(dims, nothing))
    answer = rule(VmapInfo(wrap_size(level.size), level.randomness), tuple(in_dims), *args, **kwargs)
    if not isinstance(answer, tuple) or len(answer) != 2:
        fail("A012", f"{op.name}: the rule for batches gives results and their dims", given=type(answer).__name__)
    results = results_of(schema, answer[0])
    out = answer[1] if isinstance(answer[1], (tuple, list)) else (answer[1],) * len(results)
    return tuple(
        [repeated(one, level) if dim is None else in_front(one, dim) for one, dim in zip(results, out, strict=True)]
    )
