"""Derivative rules run as programs: one executable per backward node, with only the gradients that are needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.dispatch import Memo
from rushlight.eager.execution.artifact import artifact_for, with_run_time_sizes
from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.decompose import as_node, replay
from rushlight.eager.execution.kernels import laid_out, results_in
from rushlight.eager.execution.operands import (
    attribute_key,
    flatten,
    form_of_operand,
    structure_of,
    types_together,
    unflatten,
)
from rushlight.eager.execution.plan import KernelPlan
from rushlight.eager.execution.signature import result_layouts, signature_of
from rushlight.eager.execution.tables import block_key, plan_table
from rushlight.eager.handle import Handle
from rushlight.eager.mutation import Mutation
from rushlight.eager.tensor_meta import TensorMeta, form_of_type
from rushlight.ir.graph import Call, Graph, GraphBuilder
from rushlight.ir.type import Layout
from rushlight.ops.pointwise.definition import zero_gradient
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import Fact, Operator, calls_host
from rushlight.support.errors import fail
from rushlight.sym import SizeExpr, ne, scope_of

_MOST_PLANS = 1 << 13
Needed = tuple[bool, ...]


class Rule(NamedTuple):
    """A derivative rule: its owner, its function, the names that it needs, and the operator's operands and results.

    `types` are the names of which the function receives the type, not the value.
    """

    owner: Any
    function: Callable[..., Any]
    needs: tuple[str, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[str, ...] = ()
    many: bool = False  # the result is a list, whose length each call decides

    def for_results(self, count: int) -> Rule:
        """The rule for a call with so many results."""
        return self._replace(results=tuple([f"out{position}" for position in range(count)])) if self.many else self


def _copy_vjp(g: Any, source: object) -> Any:
    return zero_gradient(g), unbroadcast(g, source)


_rules: dict[Operator | Mutation, Rule | None] = {}


def rule_of(op: Any) -> Rule | None:
    """The derivative rule of an operator, or of what an in-place form computes; None if there is none."""
    if op in _rules:
        return _rules[op]
    base: Operator | None = op.base if isinstance(op, Mutation) else op
    if base is None:
        rule = Rule(op, _copy_vjp, ("source",), ("target", "source"), ("out",))
    elif base.vjp_rule is None:
        return None
    else:
        schema = base.schema
        operands = tuple([operand.name for operand in schema.operands])
        many = schema.results[0].type.endswith("[]")
        results = () if many else tuple([result.name for result in schema.results])
        rule = Rule(base, base.vjp_rule, base.vjp_needs, operands, results, base.vjp_types, many)
    _rules[op] = rule
    return rule


def trace_rule(
    rule: Rule,
    attrs: Mapping[str, Any],
    structure: object,
    needed: Needed,
    types: Sequence[Any],
    inputs: Any,
    builder: GraphBuilder,
) -> list[Any]:
    """Runs a rule on fresh parameters of `types`: the needed gradients as nodes, None where the rule gives none.

    `inputs` is the structure of (gradients of results, then the tensors that the rule needs); `structure` that of the
    operands.
    """
    nodes = [builder.parameter(f"p{position}", type_) for position, type_ in enumerate(types)]
    return apply_rule(rule, attrs, structure, needed, unflatten(inputs, nodes), builder)


def apply_rule(
    rule: Rule,
    attrs: Mapping[str, object],
    structure: Any,
    needed: Needed,
    values: Sequence[object],
    builder: GraphBuilder,
) -> list[Any]:
    """Runs a rule on nodes: first the gradients of the results, then what it needs of tensors."""
    count = len(rule.results)
    tensors = iter(values[count:])
    named = {name: attrs[name] if name in attrs else next(tensors) for name in rule.needs}
    for name in rule.types:
        named[name] = _types(named[name])
    result = rule.function(values[0] if count == 1 and not rule.many else tuple(values[:count]), **named)
    gradients = result if isinstance(result, tuple) and not _is_bare(result, structure) else (result,)
    if len(gradients) != len(rule.operands):
        fail("X001", f"{rule.owner.name}: the vjp gives {len(gradients)} gradients for {len(rule.operands)} operands")
    flat: list[Any] = []
    for part, gradient in zip(structure, gradients, strict=True):
        if isinstance(part, tuple):
            flat.extend(gradient if gradient is not None else [None for _ in part])
        elif part:
            flat.append(gradient)
    return [
        as_node(builder, gradient) if wanted and gradient is not None else None
        for wanted, gradient in zip(needed, flat, strict=True)
    ]


def _types(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_types(element) for element in value])
    return None if value is None else value.type


def _is_bare(result: tuple[object, ...], structure: Any) -> bool:
    """Whether a rule of one operand, a tensor list, gave the list's gradients themselves."""
    return (
        len(structure) == 1
        and isinstance(structure[0], tuple)
        and not (len(result) == 1 and isinstance(result[0], tuple))
    )


def uses_data(
    rule: Rule,
    attrs: Mapping[str, object],
    structure: object,
    needed: Needed,
    results: Sequence[TensorMeta],
    saved: Any,
) -> tuple[bool, ...]:
    """For each saved tensor or number (flattened), whether the gradients read more than its type."""
    graph, _ = traced(rule, attrs, structure, needed, [*results, *saved])
    used = graph.used()
    return tuple([id(parameter) in used for parameter in graph.parameters[len(results) :]])


class DerivativePlan:
    """How a backward node computes its gradients: some are views of its inputs, one executable has the others."""

    __slots__ = ("_graph", "kernel", "sources")

    def __init__(self, kernel: KernelPlan | None, graph: Graph | None, sources: Sequence[Any]) -> None:
        self.kernel = kernel
        self._graph = graph
        self.sources = tuple(sources)

    @property
    def is_replayed(self) -> bool:
        """Whether gradients are computed call by call."""
        return self._graph is not None

    def run(self, flat: Sequence[Any], owned: set[int]) -> list[Any]:
        """One gradient or None per operand. Those from the executable belong to nobody else."""
        fresh: list[Any] = []
        if self.kernel is not None:
            fresh = self.kernel.run(flat)
            owned.update([id(gradient) for gradient in fresh])
        elif self._graph is not None:
            fresh = replay(self._graph, flat)
        gradients: list[Any] = []
        for source in self.sources:
            if source is None:
                gradients.append(None)
            elif source.__class__ is int:
                gradients.append(fresh[source])
            else:
                position, steps = source
                gradient = flat[position]
                for op, attrs in steps:
                    gradient = gradient.apply(op, (gradient,), attrs)
                owned.discard(id(flat[position]))
                gradients.append(gradient)
        return gradients


_plans: dict[Hashable, DerivativePlan] = plan_table()


def derivative_plan(
    rule: Rule, attrs: Mapping[str, object], key: Hashable, structure: object, needed: Needed, values: Sequence[object]
) -> DerivativePlan:
    """The plan for a rule on values of these forms: gradients of the results, then what the rule needs."""
    key = (key, block_key())
    plan = _plans.get(key)
    if plan is None:
        plan = _make_plan(rule, attrs, structure, needed, values)
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


_programs: Memo[tuple[Graph, list[Any]]] = Memo(_MOST_PLANS)


def traced(
    rule: Rule, attrs: Mapping[str, object], structure: object, needed: Needed, values: Sequence[object]
) -> tuple[Graph, list[Any]]:
    """The rule as a graph of calls for operands of these forms.

    Also returns, for each operand, the position of its gradient among the graph's outputs, or None.
    """
    inputs = structure_of(values)
    forms = [form_of_operand(value) for value in flatten(values)]
    key = (rule.owner, attribute_key(attrs), structure, needed, inputs, *forms)
    program = _programs.get(key)
    if program is None:
        builder = GraphBuilder()
        gradients = trace_rule(rule, attrs, structure, needed, types_together(forms, tensors=False), inputs, builder)
        graph = builder.graph([gradient for gradient in gradients if gradient is not None])
        numbers = iter(range(len(graph.outputs)))
        program = graph, [None if gradient is None else next(numbers) for gradient in gradients]
        _programs.put(key, program, any(form.symbolic for form in forms))
    return program


def gradients_by_calls(
    rule: Rule, attrs: Mapping[str, object], structure: object, needed: Needed, values: Sequence[object]
) -> list[Any]:
    """One gradient or None per operand, by the calls of the rule, each dispatched on its own."""
    graph, numbers = traced(rule, attrs, structure, needed, values)
    outputs = replay(graph, flatten(values))
    return [None if number is None else outputs[number] for number in numbers]


def _make_plan(
    rule: Rule, attrs: Mapping[str, object], structure: object, needed: Needed, values: Sequence[object]
) -> DerivativePlan:
    graph, numbers = traced(rule, attrs, structure, needed, values)
    flat = flatten(values)
    sources: list[Any] = []
    computed: list[int] = []
    for number in numbers:
        alias = None if number is None else _alias(graph, graph.outputs[number], flat)
        if number is not None and alias is None:
            computed.append(number)
            sources.append(len(computed) - 1)
        else:
            sources.append(alias)
    if not computed:
        return DerivativePlan(None, None, sources)
    rest = Graph(
        graph.parameters, graph.calls, tuple([graph.outputs[number] for number in computed])
    ).without_dead_calls()
    if any(_opaque(call) for call in rest.calls):
        return DerivativePlan(None, rest, sources)
    return DerivativePlan(_kernel(rule, attrs, structure, needed, values, computed, rest), None, sources)


def _kernel(
    rule: Rule,
    attrs: Mapping[str, object],
    structure: object,
    needed: Needed,
    values: Sequence[object],
    computed: Sequence[int],
    graph: Graph,
) -> KernelPlan:
    """The executable for some of a rule's outputs; `graph` computes the same at the forms at hand."""
    inputs = structure_of(values)
    forms = [form_of_operand(value) for value in flatten(values)]
    outputs = [form_of_type(call.type) for call in graph.outputs]
    if not any(form.numel for form in outputs):
        return KernelPlan(None, flatten(values), [form.words for form in (*forms, *outputs)], outputs)
    of_sizes = isinstance(rule.owner, Operator)
    static, sizes = split_sizes(rule.owner, attrs) if of_sizes else (attribute_key(attrs), [])

    def trace(builder: GraphBuilder, nodes: Sequence[object], symbols: Sequence[object]) -> Graph:
        named = with_sizes(rule.owner, attrs, symbols) if of_sizes else attrs
        _learn_not_one(nodes)
        gradients = apply_rule(rule, named, structure, needed, unflatten(inputs, nodes), builder)
        present = [gradient for gradient in gradients if gradient is not None]
        return results_in(builder, [present[number] for number in computed], layouts)

    signature = with_run_time_sizes(signature_of(forms), sizes)
    layouts = result_layouts(outputs)
    program = (rule.owner, "vjp", static, structure, needed, inputs, tuple(computed), layouts)
    executable = artifact_for(program, trace, signature, bool(sizes), outputs[0].device)
    shapes = [tuple(form.shape) for form in forms]
    outputs = laid_out(executable, [*shapes, tuple(sizes)] if sizes else shapes, outputs)
    return KernelPlan(executable, flatten(values), [*signature.words, *[form.words for form in outputs]], outputs)


def _learn_not_one(nodes: Sequence[Any]) -> None:
    """A signature has a symbol for a size only where that is not 1: gradients of broadcasts ask."""
    for symbol in dict.fromkeys([size for node in nodes for size in node.type.shape if isinstance(size, SizeExpr)]):
        scope, fact = scope_of(symbol), ne(symbol, 1)
        if scope is not None and not isinstance(fact, bool):
            scope.learn(fact)


def _opaque(call: Call) -> bool:
    op = call.op
    if not isinstance(op, Operator):
        return False
    types = [operand.type for operand in call.inputs()]
    return calls_host(op, types, dict(call.attrs)) or (op.lower_rule is None and op.decompose_rule is None)


def _alias(graph: Graph, call: Call, flat: Sequence[object]) -> Any:
    """(position of an input, view steps) where an output only shows an input in another shape; else None."""
    steps: list[tuple[Any, Mapping[str, Any]]] = []
    positions = {id(parameter): position for position, parameter in enumerate(graph.parameters)}
    while id(call) not in positions:
        op = call.op
        if not isinstance(op, Operator) or op.view_rule is None or len(call.operands) != 1:
            return None
        below: Call = call.operands[0]
        attrs = dict(call.attrs)
        if Fact.VIEW not in op.facts:
            named = op.named((Layout(below.type.shape, below.type.strides, 0, below.type.dtype),), attrs)
            layout: Any = op.view_rule(**named)
            if layout is None:
                return None
        steps.append((op, attrs))
        call = below
    position = positions[id(call)]
    return (position, tuple(reversed(steps))) if isinstance(flat[position], Handle) else None
