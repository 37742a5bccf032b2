"""The CPU key: any operator on tensors with data, by a plan that is made once for the forms of its operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rushlight import build
from rushlight.eager.dispatch import Key, dispatch, register_fallback
from rushlight.eager.execution.artifact import Tracer, artifact_for, with_run_time_sizes
from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.bounds import checks_of, run_checks
from rushlight.eager.execution.decompose import only_call, run_decomposition, several_views, single_view
from rushlight.eager.execution.mutate import run_mutation
from rushlight.eager.execution.operands import (
    PLAIN,
    attribute_key,
    flatten,
    form_key,
    form_of_operand,
    structure_of,
    unflatten,
)
from rushlight.eager.execution.plan import KernelPlan, Launch
from rushlight.eager.execution.signature import (
    ROW_MAJOR,
    Layout,
    Signature,
    collapsed_signature,
    in_layout,
    result_layouts,
    signature_of,
)
from rushlight.eager.execution.tables import block_key, plan_table
from rushlight.eager.execution.views import ViewPlan, runs_in_parts, view_plan
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of, copied
from rushlight.eager.mutation import Mutation
from rushlight.eager.tensor_meta import TensorMeta, form_of, form_of_type
from rushlight.ir.graph import Call, Graph, GraphBuilder, Node
from rushlight.ir.value import map_operands
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.record import Fact, Operator, require_registered
from rushlight.support.errors import fail

if TYPE_CHECKING:
    from rushlight.build import Executable

_MOST_PLANS = 1 << 14


Run = Callable[[tuple[Any, ...]], Any]
"""What a call does, once and for all operands of the same forms: from operands to the result."""

ON_FIRST_PLAN: list[Callable[[], None]] = []
"""What is loaded with the first kernel."""

_plans: dict[Hashable, Run] = plan_table()
_launches: dict[Run, Launch] = plan_table()


def planned(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Launch | None:
    """How a call is launched, if it has a plan that is one short launch."""
    run = _plans.get(_key_of(op, operands, attrs))
    return None if run is None else _launches.get(run)


def planned_view(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> ViewPlan | None:
    """The plan of a call, if it has one that makes a view."""
    plan = getattr(_plans.get(_key_of(op, operands, attrs)), "__self__", None)
    return plan if isinstance(plan, ViewPlan) else None


def inner_call(op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Call | None:
    """The one call that a composite of one operand consists of, where that shows its memory."""
    return only_call(op, operands, attrs) if _shows_parts(op, operands, attrs) else None


def planned_views(op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> list[ViewPlan]:
    """The plans of the views that are all that a composite of one operand gives; else none."""
    calls = several_views(op, operands, attrs) if _shows_parts(op, operands, attrs) else ()
    plans = [planned_view(cast(Operator, call.op), operands, dict(call.attrs)) for call in calls]
    return [plan for plan in plans if plan is not None] if None not in plans else []


def _shows_parts(op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> bool:
    alone = len(operands) == 1 and isinstance(operands[0], Handle)
    return alone and op.__class__ is not Mutation and runs_in_parts(op, operands, attrs)


def _key_of(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Hashable:
    """As `run_on_cpu` makes it."""
    kinds = [operand.__class__ if operand.__class__ in PLAIN else form_key(operand) for operand in operands]
    named = (attribute_key(attrs),) if attrs else ()
    return (op, block_key(), *named, *kinds)


def run_on_cpu(op: Any, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the CPU key."""
    if op.__class__ is Mutation:
        return run_mutation(op, operands, attrs, run_on_cpu)
    parts: list[Any] = [op, block_key(), attribute_key(attrs)] if attrs else [op, block_key()]
    for operand in operands:
        if isinstance(operand, Handle):
            parts.append(operand.form)
        else:
            kind = operand.__class__
            parts.append(kind if kind in PLAIN else form_key(operand))
    key = tuple(parts)
    run = _plans.get(key)
    if run is None:
        run = make_plan(op, operands, attrs)
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
            _launches.clear()
        _plans[key] = run
    return run(operands)


def make_plan(op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Run:
    """Decides how a call of these forms runs."""
    plan = view_plan(op, operands, attrs)
    if plan is not None:
        return plan.call
    if runs_in_parts(op, operands, attrs):
        return composite_plan(op, operands, attrs)
    if Fact.HOST in op.facts:
        types = map_operands(operands, lambda operand: form_of_operand(operand).type)
        if Fact.DATA_DEPENDENT in op.facts:
            op.check_family(types)
        else:
            op.infer(types, attrs)
        return HostPlan(op, attrs).call
    return operator_plan(op, operands, attrs)


def composite_plan(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object], key: Key = Key.CPU) -> Run:
    """Runs the decomposition call by call, for composites that give views or call the host."""
    attrs = dict(attrs)
    view = single_view(op, operands, attrs)
    if view is None:
        return lambda operands: run_decomposition(op, key, operands, attrs)
    inner, inner_attrs = view.op, dict(view.attrs)
    if operands[0].__class__ is tuple:  # a list of operands, of which there is one
        return lambda operands: dispatch(inner, tuple(flatten(operands)[:1]), inner_attrs)
    return lambda operands: dispatch(inner, operands[:1], inner_attrs)


class HostPlan:
    """Calls the operator's own implementation for the device, by default its meaning, on arrays."""

    __slots__ = ("_attrs", "_op")

    def __init__(self, op: Operator, attrs: Mapping[str, object]) -> None:
        self._op = op
        self._attrs = dict(attrs)

    def call(self, operands: tuple[object, ...]) -> Any:
        """The result: tensors with copies of the arrays that the implementation returns."""
        rule = self._op.kernels.get("cpu") or self._op.ref_rule
        if rule is None:
            require_registered(self._op)
            fail("X002", f"{self._op.name}: there is neither a kernel nor a ref rule")
        arrays = map_operands(operands, lambda operand: array_of(operand) if isinstance(operand, Handle) else operand)
        result = rule(**self._op.named(arrays, self._attrs))
        return tuple([_copied(element) for element in result]) if isinstance(result, tuple) else _copied(result)


def _copied(array: Any) -> Any:
    return copied(array, array_type(array).dtype)


def operator_plan(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Run:
    """One operator as one executable, composites included."""
    structure = structure_of(operands)
    forms = [form_of_operand(operand) for operand in flatten(operands)]
    result = op.infer(unflatten(structure, [form.type for form in forms]), attrs)
    outputs = [form_of_type(type_) for type_ in (result if isinstance(result, tuple) else (result,))]
    if any(form.symbolic for form in outputs):
        fail("C010", f"{op.name}: a size stood for one of a traced program, and has no value", result=outputs[0].type)
    checks = checks_of(op, operands, attrs)
    plan = kernel_plan(op, attrs, operands, outputs, bare=not isinstance(result, tuple))
    hooks, ON_FIRST_PLAN[:] = ON_FIRST_PLAN[:], []
    for hook in hooks:
        hook()
    run = plan.run
    if not checks:
        if plan.launch is not None:
            _launches[run] = plan.launch
        return run

    def checked(operands: tuple[object, ...]) -> Any:
        run_checks(op, checks, operands)
        return run(operands)

    return checked


def kernel_plan(
    op: Operator, attrs: Mapping[str, object], operands: tuple[object, ...], outputs: Sequence[TensorMeta], bare: bool
) -> KernelPlan:
    """The plan of an operator's executable for such operands and results of these forms."""
    structure = structure_of(operands)
    forms = [form_of_operand(operand) for operand in flatten(operands)]

    fitting = outputs[0].dtype if Fact.FITTING in op.facts else None

    def plan(
        executable: Executable | None, words: Sequence[tuple[int, ...]], outputs: Sequence[TensorMeta]
    ) -> KernelPlan:
        return KernelPlan(executable, operands, words, outputs, structure, bare, fitting)

    if not any(form.numel for form in outputs):
        return plan(None, [form.words for form in (*forms, *outputs)], outputs)
    static, sizes = split_sizes(op, attrs)
    program = (op, static, structure)

    def tracer(layouts: Sequence[Layout]) -> Tracer:
        def trace(builder: GraphBuilder, nodes: Sequence[Node], symbols: Sequence[object]) -> Graph:
            result = builder.apply(op, unflatten(structure, nodes), with_sizes(op, attrs, symbols))
            graph = results_in(builder, result if isinstance(result, tuple) else (result,), layouts)
            # What is inlined has no ranges of indices of its own: the calls that it consists of have.
            return build.with_index_asserts(graph) if op.inlined else graph

        return trace

    if collapses(op) and len({form.shape for form in outputs}) == 1:
        whole = collapsed_signature(forms, outputs[0])
        # A fresh output is row-major once its dims are sorted, and needs no parameter.
        signature = Signature(whole.specs[:-1], whole.values, whole.words[:-1])
        signature = with_run_time_sizes(signature, sizes)
        trace = tracer([ROW_MAJOR] * len(outputs))
        executable = artifact_for((*program, "collapsed"), trace, signature, bool(sizes), outputs[0].device, op.chooser)
        return plan(executable, [*signature.words, *[whole.words[-1]] * len(outputs)], _dense(outputs))
    signature = with_run_time_sizes(signature_of(forms), sizes)
    layouts = result_layouts(outputs)
    executable = artifact_for(
        (*program, layouts), tracer(layouts), signature, bool(sizes), outputs[0].device, op.chooser
    )
    shapes = [tuple(form.shape) for form in forms]
    outputs = laid_out(executable, [*shapes, tuple(sizes)] if sizes else shapes, outputs)
    return plan(executable, [*signature.words, *[form.words for form in outputs]], outputs)


def results_in(builder: GraphBuilder, results: Sequence[Node], layouts: Sequence[Layout]) -> Graph:
    """The finished graph with its results in these layout classes.

    Strides are decided once, for the forms at hand: what the symbols of an artifact would say may differ.
    """
    pairs = zip(results, layouts, strict=True)
    return builder.graph([builder.laid_out(node, in_layout(node.type, layout)) for node, layout in pairs])


def collapses(op: Operator) -> bool:
    """Whether dims may be merged and reordered: random values depend on the logical index."""
    return Fact.POINTWISE in op.facts and Fact.RANDOM not in op.facts


def _dense(outputs: Sequence[TensorMeta]) -> Sequence[TensorMeta]:
    for form in outputs:
        if not form.is_dense:
            fail("X001", "a pointwise result is not dense", form=form)
    return outputs


def laid_out(
    executable: Executable, shapes: Sequence[tuple[int, ...]], outputs: Sequence[TensorMeta]
) -> list[TensorMeta]:
    """The outputs with the strides that the executable writes."""
    result: list[TensorMeta] = []
    for form, (shape, strides) in zip(outputs, executable.infer_outputs(shapes), strict=True):
        if tuple(shape) != tuple(form.shape):
            fail("X001", "an executable's output has another shape than its operator infers", form=form, found=shape)
        fixed: Any = strides  # None where they depend on the inputs' strides
        kept = form.strides if fixed is None else tuple(strides)
        result.append(form_of(tuple(form.shape), form.dtype, form.device, kept, form.type.weak))
    return result


register_fallback(Key.CPU, run_on_cpu, leaf=True)
