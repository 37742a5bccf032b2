"""Traces one call of a function into a Program: a graph, its inputs, its effects and its backward pass.

Goes in: a function, its arguments, and a walk of the state it reaches. A `Recorder` runs the function once on fake
tensors; `capture.entry` turns the Program that comes out into a generated function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from rushlight.build import with_asserts_of_dead_calls
from rushlight.capture.aliasing import refuse_overlaps
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.gradients.inputs import Gradients, Owner
from rushlight.capture.gradients.joint import Derived, EndedResult, derived, ended_results, share_history
from rushlight.capture.leaving import (
    Ends,
    SharedView,
    refuse_class,
    refuse_steps_that_write,
    refuse_unkept,
    shared_views,
    writes_so_far,
)
from rushlight.capture.marks import marks_of, refuse_fixed
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.source import ArgumentSource, NumberSource, OutputSource, Source, TensorSource, ViewSource
from rushlight.capture.state.changes import (
    Copy,
    argument_effects,
    changed_state,
    namer_of_reached,
    refuse_both,
    state_effects,
    state_sources,
)
from rushlight.capture.state.freezing import Frozen
from rushlight.capture.state.places import Leaf
from rushlight.capture.state.reachable import StateWalk
from rushlight.capture.symbolic import symbolic_type
from rushlight.capture.values import (
    Container,
    Effect,
    InputRef,
    Made,
    SizeOf,
    Template,
    flatten_value,
    is_tuple,
    like_tuple,
    no_placeholder,
)
from rushlight.eager.autograd.node import mark
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import PYTHON, Handle, is_wrapper
from rushlight.eager.symbols import SymInt, unwrap_size
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.eager.tracing import TracedNumber, Tracer
from rushlight.eager.tracing.number import traced_number
from rushlight.ir.graph import PARAMETER, Call, Graph, GraphBuilder, Node, unbacked_outputs_of
from rushlight.ir.spec.leaf import FloatSpec, IntSpec
from rushlight.ir.spec.propose import Observed
from rushlight.ir.type import TensorType, symbols_in
from rushlight.ops.record import OPERATORS
from rushlight.runtime.generator import Generator
from rushlight.runtime.native import run_or_undo
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.sym import Guard, Scope, SizeExpr, free_symbols

_ARGUMENT = re.compile(r"\ba\d+\b")  # in the text of a number


@frozen(eq=False)
class ProgramInputs:
    """Where a graph's parameters come from at each call, and what the guards of an entry check of that.

    `sources` has one for each parameter. `constants` are the tensors, by identity, that only this program fits.
    `numbers` are the texts of numbers that have variables; `fixed` the values of those that the program depends on, by
    their text; `sizes` the symbols of integers that are sizes. `duplicates` are positions of arguments, each with the
    tensor or argument that it has to be. `with_gradient` have a gradient before the call, and `without_gradient` none.
    `unset_gradients` are the tensors, by identity, whose gradients the program relies on although they may be None.
    `hooked` are the leaves whose hooks ran during the trace. `apart` are the types, by position, of tensors among the
    arguments that the graph does not take, but that the trace has looked at.
    """

    sources: Sequence[Source]
    constants: Set[int]
    numbers: Mapping[str, str]
    fixed: Mapping[str, float]
    sizes: Mapping[str, SizeExpr]
    duplicates: Sequence[tuple[int, Handle | ArgumentSource]]
    with_gradient: Sequence[Owner]
    without_gradient: Sequence[Owner]
    unset_gradients: Set[int]
    hooked: Sequence[Handle | ArgumentSource]
    apart: Mapping[int, TensorType]


@frozen(eq=False)
class ProgramEffects:
    """What a call writes, besides its result.

    `entries` are those of containers; `gradients` the new gradients of tensors and arguments, the constant None for one
    that is cleared; `written` the tensors that the graph overwrites; `draws` how many ordinals each generator gives.
    """

    entries: Sequence[Effect]
    gradients: Sequence[tuple[Owner, Template]]
    written: Sequence[Handle]
    draws: Mapping[Generator, int]


@frozen(eq=False)
class Program:
    """One trace of a function: its graph, what feeds it, and what it leaves behind.

    The first outputs of the graph are `outputs`, as they were traced. Where the program has a `backward` pass, the
    gradients follow them, and the last parameters of the graph are the tangents. `guards` are the conditions on sizes
    that the trace assumed, `unbacked` the sizes that Python computes results from, and `observed` the arguments' kinds.
    No gradient goes through the histories of the `ended` outputs.
    """

    graph: Graph
    scope: Scope
    result: Template
    outputs: Sequence[Handle]
    guards: Sequence[Guard]
    unbacked: Set[SizeExpr]
    inputs: ProgramInputs
    effects: ProgramEffects
    backward: Derived | None
    ended: Sequence[EndedResult]
    observed: Observed | None = None

    @property
    def rewrites(self) -> bool:
        """Whether inputs are overwritten that get another history."""
        of_inputs = any(not isinstance(one.place, int) for one in self.ended)
        return of_inputs or (self.backward is not None and bool(self.backward.written))


class Recorder:
    """Runs a function once on tensors without data."""

    tracer_class = Tracer
    gradients_class = Gradients
    checks_dead_calls = True  # whether indices of calls are checked of which nothing is needed

    def __init__(self, walk: StateWalk, names: Names, frozen: Frozen, numbers: ProgramNumbers) -> None:
        self.frozen = frozen
        self.walk = walk
        self.text_of = names
        self.scope = numbers.scope
        self.builder = GraphBuilder("step")
        self.tracer = self.tracer_class(self.builder, self.scope, self._lift, self._random_state, partial(_start, self))
        self.tracer.refuses_python = True
        self.draws: dict[Generator, int] = {}
        self.sources: dict[int, Source] = {}
        self.gradients = self.gradients_class(self.tracer, self.sources)
        self.argument_sources: dict[int, ArgumentSource] = {}
        self.types: dict[int, TensorType] = {}  # of the tensors among the arguments, by what stands for them
        self.numbers = numbers
        self.copies: list[Copy] = []
        self.objects: Mapping[int, str] = {}  # among the arguments, by identity, with their names
        self.tensors: list[Handle] = []
        self.arguments: dict[int, Handle] = {}  # by the tensor
        self.real_tensors: dict[int, Handle] = {}  # the tensors, by what stands for them
        self.duplicates: list[tuple[int, Handle | ArgumentSource]] = []
        self.views: dict[int, tuple[Handle, ViewSource]] = {}  # views among the results, by identity
        self.tape_start = 0  # when the function began
        self.dynamic: dict[str, str] = {}
        self.ends: Ends = _refuse
        self.takes_hooks = True  # those on gradients of what the function computes are part of the graph
        self.reachable_ids = {id(leaf.value) for leaf in walk.leaves} | {id(tensor) for tensor in walk.tensors}

    def argument(self, position: int, tensor: Handle, type_: TensorType, apart: bool = False) -> Handle:
        """A fake tensor of a type for an argument. Unless `apart`, a tensor that is passed twice has one.

        A tensor that the function reaches by itself too is that one.
        """
        require(type(tensor) in (Tensor, Parameter), "C036", "compile: an argument is of a subclass of Tensor")
        if id(tensor) in self.reachable_ids or (id(tensor) in self.arguments and not apart):
            first = self.arguments.get(id(tensor))
            self.duplicates.append((position, tensor if first is None else self.argument_sources[id(first)]))
            return tensor if first is None else first
        fake = self.tracer.fake(type_, type(tensor))
        self.walk.assumed.specified |= {id(fake)} if apart else set()
        self.types[id(fake)] = type_
        if self.walk.looks is not None:
            self.walk.looks.closed.add(id(fake))
        self.tracer.names[id(fake)] = f"argument {position}"
        self.sources[id(fake)] = self.argument_sources[id(fake)] = ArgumentSource(position)
        self.arguments[id(fake) if apart else id(tensor)] = fake
        self.real_tensors[id(fake)] = tensor
        share_history(tensor, fake)
        self.gradients.hold(fake, ArgumentSource(position), tensor, type_)
        return fake

    def number(self, text: str, value: float) -> TracedNumber:
        """A run-time number."""
        return traced_number(text, value, self.numbers)

    def _random_state(self, generator: Generator, count: int) -> tuple[TracedNumber, TracedNumber]:
        """Seed and ordinal of a random call: each run draws as many ordinals as the trace did, all at once."""
        before = self.draws.get(generator, 0)
        self.draws[generator] = before + count
        seed, ordinal = random_names(list(self.draws).index(generator))
        return self.number(seed, 0), self.number(f"({ordinal} + {before})", 0)

    def _lift(self, tensor: Handle) -> TensorType:
        require(not tensor.keys & PYTHON, "C036", "compile: the function reaches a tensor with __torch_dispatch__")
        if isinstance(tensor, TracedNumber):
            self.sources[id(tensor)] = NumberSource(tensor.text, tensor.form.dtype)
        else:
            self.sources.setdefault(id(tensor), TensorSource(tensor))
            self.walk.assumed.tensors[id(tensor)] = no_placeholder(tensor)
        return tensor.form.type

    def enter(self, dynamic_numbers: Collection[str]) -> None:
        """Puts run-time numbers and gradient placeholders in place of the real ones."""
        for leaf in self.walk.leaves:
            if issubclass(type(leaf.value), Handle) and isinstance(leaf.value, Handle):
                self.tensors.append(leaf.value)
            elif leaf.is_number and (leaf.runtime or leaf.path in dynamic_numbers):
                text = leaf.text(self.text_of)
                self.numbers.written[text] = leaf.path
                leaf.substitute_number(self.number(text, leaf.value))
            elif leaf.is_numbers and leaf.runtime:
                text = leaf.text(self.text_of)
                leaf.substitute(tuple([self.number(f"{text}[{at}]", number) for at, number in enumerate(leaf.value)]))
        self.tensors.extend(self.walk.tensors)
        self.frozen.enter(self.tensors)
        for tensor in {id(handle): handle for handle in self.tensors if not is_wrapper(handle)}.values():
            self.gradients.hold(tensor, tensor, tensor, tensor.form.type)

    def leave(self) -> None:
        """Restores the state that `enter` changed. An interrupted call may be repeated."""
        self.frozen.leave()
        self.walk.restore()
        self.gradients.restore()
        self.tracer.close()
        self.numbers.made.clear()

    def run(self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Program:
        """The program that one call of a function leaves behind."""
        self.tape_start = mark()
        self.tracer.first_step = 0 if self.ends is _refuse else self.tape_start
        with self.tracer.active(), self.scope.noting():
            result = function(*args, **kwargs)
            self.walk.refuse_changes()
            refuse_fixed(self.scope, {self.scope.symbols[name]: text for name, text in self.dynamic.items()})
            self.walk.assumed.revised |= self.tracer.revised
            return self._program_of(result)

    def _program_of(self, result: object) -> Program:
        nodes: list[Node] = []
        handles: list[Handle] = []
        positions: dict[int, int] = {}

        def output(tensor: Handle) -> int:
            if id(tensor) not in positions:
                positions[id(tensor)] = len(nodes)
                nodes.append(_own_value(self.builder, self.tracer.node(tensor)))
                handles.append(tensor)
            return positions[id(tensor)]

        def classify(tensor: Handle) -> Source | int:
            source = self.input_source(tensor)
            if source is not None:
                return source
            view = views.get(id(tensor))
            if view is None:
                return output(tensor)
            if id(tensor) not in self.views:
                shown = ViewSource(OutputSource(output(view.base)), view.steps, view.recorded)
                self.views[id(tensor)] = tensor, shown
            return self.views[id(tensor)][1]

        reached = self.namer_of_reached()
        changed = list(changed_state(self.walk, self.text_of))
        refuse_both(changed, self.copies)
        leaving = _leaving(self, result, changed, reached)
        refuse_unkept(self.tracer, leaving, self.tape_start, self.ends, self.takes_hooks)
        views = self.shared_views(leaving)
        named = {id(handle) for _, handle in self.duplicates} | self.walk.assumed.apart.keys()
        self.sources |= state_sources(changed, self.walk, named, self.text_of)
        template = flatten_value(result, classify, reached)
        self.frozen.refuse([leaf.value for leaf, _ in changed if isinstance(leaf.value, Handle)], self.real_tensors)
        values = partial(flatten_value, classify=classify, reached=reached)
        effects = [*state_effects(changed, values), *argument_effects(self.copies, self.walk, values)]
        gradients = [(owner, flatten_value(now, classify, reached)) for owner, now in self.gradients.changed()]
        return self._finish(nodes, handles, template, effects, gradients)

    def namer_of_reached(self) -> Callable[[object], str | None]:
        """A function from what was there before to its text in the entry's function. None for other values."""
        return namer_of_reached(self.walk, self.copies, self.objects, self.text_of)

    def input_source(self, tensor: Handle) -> Source | None:
        """The source of a result that is an input or a view of one. None for a result that the graph computes."""
        binding = tensor.node
        if binding is None:
            made = id(tensor) in self.tracer.wrappers
            require(not made, "C036", "compile: a tensor of a subclass leaves the function", tensor=tensor)
            return self.sources.setdefault(id(tensor), TensorSource(tensor))
        base = binding.cell.source
        if base is None:
            return None
        source = self.sources.setdefault(id(base), TensorSource(base))
        if not binding.steps:  # else it is another tensor on the same storage
            return source if tensor is base else self.sources.setdefault(id(tensor), TensorSource(tensor))
        if id(tensor) not in self.views:
            refuse_class(tensor, self.ends)
            shown = tensor.view_of
            self.views[id(tensor)] = tensor, ViewSource(source, binding.steps, shown is None or shown.recorded)
        return self.views[id(tensor)][1]

    def shared_views(self, leaving: Sequence[Handle]) -> dict[int, SharedView]:
        """Which of the tensors that leave the trace are views of others that it made, by identity."""
        return shared_views(self.tracer, leaving, self.ends)

    def _source(self, tensor: Handle) -> Source:
        return self.sources.get(id(tensor)) or TensorSource(tensor)

    def _source_of(self, tensor: Handle) -> Source | None:
        """The source of an input that may have a gradient."""
        source = self._source(tensor)
        frozen = self.frozen.frozen and id(tensor) not in self.real_tensors
        return source if isinstance(source, (ArgumentSource, TensorSource)) and not frozen else None

    def _finish(
        self,
        nodes: list[Node],
        outputs: list[Handle],
        result: Template,
        entries: list[Effect],
        gradients: list[tuple[Owner, Template]],
    ) -> Program:
        """The program, once everything that the function computed has a node; traces its backward pass."""
        sources, before = (self._source, self._source_of), writes_so_far(self.tracer)
        self.tracer.derives = self.ends is _refuse  # a graph that may end earlier does so before what is refused
        traced = partial(derived, self.tracer, outputs, self.views, self.tape_start, sources)
        backward: Derived | None = self.tracer.behind(traced)
        refuse_steps_that_write(self.tracer, before, outputs, self.tape_start, self.ends)
        gradient_calls = () if backward is None else backward.joint.gradients
        totals = [Node(self.builder, call) for gradient in gradient_calls for call in gradient.total]
        cells = [(position, tensor, tensor.node.cell) for position, tensor in enumerate(self.tracer.lifted)]
        mutated = [entry for entry in cells if entry[2].source is entry[1] and entry[2].writes]
        written = [tensor for _, tensor, _ in mutated]
        self.frozen.refuse(written, self.real_tensors)
        refuse_overlaps(written, self.tracer.lifted, self.real_tensors)
        unbacked = self.scope.own(_template_symbols([result, *[effect.value for effect in entries]]))
        sizes = _made_by(self.builder.calls, unbacked)
        whole = self.builder.whole([*nodes, *totals], [(at, cell.node) for at, _, cell in mutated], sizes=sizes)
        whole = _living(whole, backward, checked=self.checks_dead_calls)
        used = whole.used()
        tangents = 0 if backward is None else len(backward.joint.tangents)
        graph, kept = without_unused_parameters(whole, used, tangents, unbacked | _guarded_symbols(self.scope))
        return Program(
            graph=graph,
            scope=self.scope,
            result=result,
            outputs=outputs,
            guards=list(self.scope.guards),
            unbacked=unbacked,
            inputs=self._inputs([self.tracer.lifted[position] for position in kept], used),
            effects=ProgramEffects(entries, gradients, written, dict(self.draws)),
            backward=backward,
            ended=ended_results(self.tracer, outputs, self.tape_start, sources, backward),
        )

    def _inputs(self, lifted: Sequence[Handle], used: Set[int]) -> ProgramInputs:
        """The inputs of a program that reads the `lifted` tensors and `used` calls, by identity."""
        sources = [self._source(tensor) for tensor in lifted]
        taken = {source.position for source in sources if isinstance(source, ArgumentSource)}
        closed = set[int]() if self.walk.looks is None else self.walk.looks.closed
        types = {self.argument_sources[key].position: type_ for key, type_ in self.types.items() if key not in closed}
        owners = [(leaf, self.sources.get(id(leaf))) for leaf in self.tracer.hooked.values()]
        return ProgramInputs(
            sources=sources,
            constants={key for key, source in self.sources.items() if isinstance(source, TensorSource)},
            numbers=self.numbers.variables,
            fixed=self.numbers.fixed,
            sizes=self.numbers.sizes,
            duplicates=self.duplicates,
            with_gradient=self.gradients.present(),
            without_gradient=self.gradients.absent(),
            unset_gradients=self.gradients.relied_on(used),
            hooked=[source if isinstance(source, ArgumentSource) else leaf for leaf, source in owners],
            apart={position: type_ for position, type_ in types.items() if position not in taken},
        )


def _leaving(
    recorder: Recorder, result: object, changed: Sequence[tuple[Leaf, object]], reached: Callable[[object], str | None]
) -> list[Handle]:
    """The tensors that the program made and that outlive it."""
    found: dict[int, Handle] = {}

    def collect(tensor: Handle) -> int:
        if tensor.backing is None and tensor.node is not None and tensor.node.cell.source is not tensor:
            found[id(tensor)] = tensor
        return 0

    values = partial(flatten_value, classify=collect, reached=reached)
    values(result)
    for _ in (*state_effects(changed, values), *argument_effects(recorder.copies, recorder.walk, values)):
        pass
    for _, gradient in recorder.gradients.changed():
        values(gradient)
    return list(found.values())


def _living(whole: Graph, backward: Derived | None, *, checked: bool) -> Graph:
    """A graph without its dead calls, whose indices are `checked` where the program has made them."""
    if not checked:
        return whole.without_dead_calls()
    return with_asserts_of_dead_calls(whole, () if backward is None else backward.joint.derived)


def _made_by(calls: Sequence[Call], unbacked: Collection[SizeExpr]) -> tuple[SizeExpr, ...]:
    """The sizes that calls make known, of those that results are computed from."""
    outputs = unbacked_outputs_of(calls) if unbacked else {}
    return tuple([size for size in unbacked if size in outputs])


def _own_value(builder: GraphBuilder, node: Node) -> Node:
    """What an output of the graph is: a copy of an input, where that is the value of a tensor that the trace made."""
    return builder.apply(OPERATORS["clone"], (node,), {}) if node.call.op is PARAMETER else node


def _refuse(moment: int, reason: str) -> NoReturn:
    fail("C042", f"a compiled function gives a tensor that is more than its elements: {reason}")


def _start(recorder: Recorder, fake: object) -> int:
    """Where an argument starts in its storage, which the program relies on; 0 for what is none."""
    source = recorder.sources.get(id(fake))
    argument = isinstance(source, ArgumentSource)
    return recorder.numbers.start(source.position, recorder.real_tensors[id(fake)]) if argument else 0


def record(
    recorder: Recorder,
    function: Callable[..., object],
    arguments: Arguments,
    stand_in: Callable[[int, str, object], object],
    dynamic_numbers: Collection[str] = (),
    unset: Collection[int] = (),
) -> Program:
    """The program of a call; `stand_in(place, name, value)` is what stands for a leaf of its arguments."""
    state = dict(vars(STATE))

    recorder.gradients.unset = unset
    recorder.objects = arguments.objects

    def traced() -> Program:
        leaves = [stand_in(position, name, value) for position, (name, value) in enumerate(arguments.leaves)]
        args, kwargs = _rebuilt(arguments.args, arguments.kwargs, leaves, recorder.copies)
        # Once more: what Python runs while it is traced may change the arguments, as a log of warnings.
        outline = _rebuilt(arguments.args, arguments.kwargs, leaves, [])
        recorder.walk.assumed.stand_for(arguments.leaves, leaves)
        recorder.enter(dynamic_numbers)
        program = recorder.run(function, args, kwargs)
        program = replace(program, observed=_observed(arguments, leaves, program, outline))
        recorder.leave()
        return program

    def undo() -> None:
        now = vars(STATE)
        for name in [name for name in now if name not in state]:  # the program has set it for the first time
            del now[name]
        now.update(state)
        recorder.leave()

    return run_or_undo(traced, undo)


def _observed(arguments: Arguments, leaves: Sequence[object], program: Program, outline: tuple[Any, Any]) -> Observed:
    """What a trace took its arguments to be, and what it guarded of their sizes. `outline` has the leaves."""
    relied = {name for text in program.inputs.fixed for name in _ARGUMENT.findall(text)}  # as comparisons do

    def kind(name: str, leaf: object) -> object:
        if type(leaf) is TracedNumber:
            if name in program.inputs.sizes or name in relied:
                return program.inputs.sizes.get(name, leaf.value)
            return IntSpec() if leaf.is_integer else FloatSpec()
        if id(leaf) in arguments.objects:  # which would live as long as the graph
            return type(leaf)
        if not issubclass(type(leaf), (Handle, SymInt)):
            return leaf
        return leaf.form.type if isinstance(leaf, Handle) else unwrap_size(leaf)

    kinds = [kind(name, leaf) for (name, _), leaf in zip(arguments.leaves, leaves, strict=False)]
    args, kwargs = _rebuilt(*outline, kinds, [])
    return Observed(args, kwargs, tuple([guard.condition for guard in program.guards]))


def open_type(recorder: Recorder, tensor: Handle, position: int) -> TensorType:
    """The type of a tensor argument whose sizes are symbols, as its marks say."""
    marks = marks_of(tensor)
    for dim, marked in marks.items():
        if marked.kind == "dynamic":
            recorder.dynamic[f"a{position}_{dim}"] = f"dim {dim} of argument {position} was marked dynamic"
    written = recorder.numbers.written.get(f"a{position}")
    return symbolic_type(recorder.scope, tensor.form, f"a{position}", marks, written)


def _rebuilt(args: object, kwargs: object, leaves: Iterable[object], copies: list[Copy]) -> tuple[Any, Any]:
    """The arguments of a call with other leaves."""
    rest, seen = iter(leaves), {}
    return rebuild(args, rest, "args", copies, seen), rebuild(kwargs, rest, "kwargs", copies, seen)


def rebuild(value: Any, leaves: Iterator[object], text: str, copies: list[Copy], seen: dict[int, object]) -> Any:
    """Arguments with other leaves; the copies of containers are written down. Of a list or dict there is one copy."""
    kind: type = type(value)
    if kind is list or is_tuple(value):
        parts = [rebuild(element, leaves, f"{text}[{at}]", copies, seen) for at, element in enumerate(value)]
        made: Any = parts if kind is list else like_tuple(value, parts)
    elif type(value) is dict:
        made = {}
        for at, (key, entry) in enumerate(value.items()):
            path = f"{text}[{key!r}]" if type(key) in (int, str) else f"[*{text}.values()][{at}]"
            made[key] = rebuild(entry, leaves, path, copies, seen)
    else:
        return next(leaves)
    if kind in (list, dict) and id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = made
    if text not in ("args", "kwargs"):
        copies.append(Copy.of(made, value, text))
    return made


def _guarded_symbols(scope: Scope) -> set[SizeExpr]:
    """Symbols of which something was assumed: by a guard, an assert, or the user beforehand."""
    bounded = {symbol for symbol in scope.symbols.values() if symbol.facts.is_bounded}
    assumed = (*scope.guards, *scope.asserts)
    return bounded | {symbol for assumption in assumed for symbol in free_symbols(assumption.condition.expr)}


def random_names(position: int) -> tuple[str, str]:
    """Variables of an entry's function for the seed and first ordinal of random generator number `place`."""
    return f"seed{position}", f"ordinal{position}"


def without_unused_parameters(graph: Graph, used: Set[int], last: int, asked: Set[SizeExpr]) -> tuple[Graph, list[int]]:
    """Drops parameters that are not `used`, by identity, nor overwritten. Also gives the positions of those kept.

    The `last` ones stay, and those whose sizes are needed: by calls, or by the results' templates (`asked`).
    """
    used = used | {id(graph.parameters[position]) for position, _ in graph.mutations}
    count = len(graph.parameters) - last
    wanted = {position for position, call in enumerate(graph.parameters) if id(call) in used or position >= count}
    # Tangents are no inputs of the forward graph, and give no sizes.
    given = set(symbols_in([graph.parameters[position].type for position in wanted if position < count]))
    lacking = (asked | _symbols_of(graph)) - given
    for position, call in enumerate(graph.parameters[:count]):  # those that are only asked for their sizes
        if not lacking:
            break
        symbols = set(symbols_in([call.type]))
        if position not in wanted and symbols & lacking:
            wanted.add(position)
            lacking -= symbols
    kept = sorted(wanted)
    positions = {old: new for new, old in enumerate(kept)}
    mutations = tuple([(positions[position], call) for position, call in graph.mutations])
    parameters = tuple([graph.parameters[position] for position in kept])
    return replace(graph, parameters=parameters, mutations=mutations), kept


def _symbols_of(graph: Graph) -> set[SizeExpr]:
    """The symbols in the types and attributes of calls; calls that are alike share their types."""
    types = {id(call.type): call.type for call in (*graph.calls, *graph.outputs)}
    attributes = [value for call in graph.calls for _, value in call.attrs]
    return set(symbols_in([*types.values(), *attributes]))


def _template_symbols(templates: list[Template]) -> set[SizeExpr]:
    """The symbols that results are computed from in Python."""
    symbols: set[SizeExpr] = set()
    stack = list(templates)
    while stack:
        template = stack.pop()
        if isinstance(template, (Container, Made)):
            stack.extend(template.items)
        elif isinstance(template, SizeOf):
            symbols.update(free_symbols(template.expr))
        elif isinstance(template, InputRef) and isinstance(template.source, ViewSource):
            symbols.update(symbols_in([value for _, _, attrs in template.source.steps for value in attrs.values()]))
    return symbols
