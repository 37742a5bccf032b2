"""Writing an entry's function: arguments taken apart, guards, descriptors, the call, results and effects."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rushlight.capture.aliasing import alias_guards
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry import Entry, Planner, numbers_among
from rushlight.capture.guard import Guard
from rushlight.capture.hooks import hook_guards
from rushlight.capture.kept import Kept
from rushlight.capture.looped import looped
from rushlight.capture.program import Program, random_names
from rushlight.capture.segmented import Segmented, concrete
from rushlight.capture.snapshot import Snapshot, StateGuards
from rushlight.capture.source import ArgumentSource, GradientSource, NumberSource, Source, TensorSource, ViewSource
from rushlight.capture.state import Leaf, StateWalk
from rushlight.capture.values import Constant, Container, Number, Output, SizeOf, Taken, Template
from rushlight.eager.dispatch import STATE, backend_key, bit
from rushlight.eager.execution.plan import (
    CALL_NAMES,
    number_text,
    output_text,
    result_text,
    sheet_text,
    tensor_text,
)
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.runtime import descriptor
from rushlight.runtime.descriptor import number_slots
from rushlight.sym import SizeExpr, free_symbols, to_python

if TYPE_CHECKING:
    from rushlight.build import Executable

MISS = object()
_MANY = 8  # outputs: more are made by a loop


def argument_guards(arguments: Arguments, names: Names) -> list[Guard]:
    """What is assumed of the arguments' leaves."""
    guards: list[Guard] = []
    for name, value in arguments.leaves:
        if isinstance(value, Handle):
            wants = _wants(value)
            # A view has the key because its base may get a history; only then is the longer question asked.
            asked = f"{name}.keys & {AUTOGRAD} and {name}.requires_grad"
            failed = f"{name}.__class__ is not {names(type(value))} or {f'not ({asked})' if wants else asked}"
            guards.append(Guard("tensor", name, f"a tensor, requires_grad={wants}", failed))
        elif type(value) in (int, float):
            guards.append(type_guard(name, name, value, names))
        else:
            guards.append(constant_guard(name, name, value, names))
    return guards


def _wants(tensor: Any) -> bool:
    return bool(tensor.keys & AUTOGRAD and tensor.requires_grad)


def constant_guard(text: str, path: str, value: Any, names: Names) -> Guard:
    """That a value is still the same: equal for plain values, identical for objects."""
    if value is None or isinstance(value, bool):
        return Guard("constant", path, repr(value), f"{text} is not {value!r}")
    if isinstance(value, (int, float)):
        # 0.0 and -0.0 are two numbers
        differs = f"{text} != {names(value)}" if value else f"repr({text}) != {repr(value)!r}"
        if value != value:
            differs = f"{text} == {text}"
        return Guard("number", path, repr(value), f"{text}.__class__ is not {names(type(value))} or {differs}")
    if isinstance(value, (str, bytes)):
        return Guard("constant", path, repr(value), f"{text} != {value!r}")
    return Guard("object", path, f"the same {type(value).__name__}", f"{text} is not {names(value)}")


def type_guard(text: str, path: str, value: Any, names: Names) -> Guard:
    """That a number is still of its class."""
    return Guard("type", path, type(value).__name__, f"{text}.__class__ is not {names(type(value))}")


def loosen(leaves: Sequence[Leaf], names: Names, fixed: Collection[str], changed: Collection[tuple[int, Any]]) -> None:
    """Marks the leaves of which a program relies on the class alone.

    Those are numbers that it takes at run time and has not `fixed`, and tensors that it puts others in the place of.
    """
    for leaf in leaves:
        if leaf.is_number and leaf.runtime:
            leaf.loose = f"{names(leaf.container)}[{_key_text(leaf, names)}]" not in fixed
        elif isinstance(leaf.value, Handle):
            leaf.loose = (id(leaf.container), leaf.key) in changed


def lasting(walk: StateWalk, changed: Collection[tuple[int, Any]]) -> set[int]:
    """The ids of containers that a call gives no new entries: they have to be as they were."""
    grown = {container for container, key in changed if key not in walk.keys.get(container, ())}
    return {id(container) for container, _ in walk.containers} - grown


def state_guards(containers: Sequence[tuple[Any, str]], leaves: Sequence[Leaf], names: Names) -> list[Guard]:
    """What is assumed of modules, optimizers and their containers."""
    guards: list[Guard] = []
    sizes = Counter([id(leaf.container) for leaf in leaves])
    for container, path in containers:
        text, size = names(container), sizes[id(container)]
        guards.append(Guard("container", path, f"{size} entries", f"len({text}) != {size}" if size else text))
    for leaf in leaves:
        text = f"{names(leaf.container)}[{_key_text(leaf, names)}]"
        if leaf.loose and leaf.is_number:
            guards.append(type_guard(text, leaf.path, leaf.value, names))
        elif leaf.loose:
            guards.append(Guard("tensor", leaf.path, "a tensor", f"{text}.__class__ is not {names(type(leaf.value))}"))
        elif leaf.is_numbers and leaf.runtime:
            failed = f"{text}.__class__ is not {names(tuple)} or len({text}) != {len(leaf.value)}"
            guards.append(Guard("type", leaf.path, f"a tuple of {len(leaf.value)}", failed))
            for at, item in enumerate(leaf.value):  # those that were asked for are in `fixed`, and guarded there
                guards.append(type_guard(f"{text}[{at}]", f"{leaf.path}[{at}]", item, names))
        else:
            guards.append(constant_guard(text, leaf.path, leaf.value, names))
    return guards


def _key_text(leaf: Leaf, names: Names) -> str:
    return names(leaf.key) if isinstance(leaf.key, Handle) else repr(leaf.key)


def snapshot_guards(names: Names, snapshot: Snapshot) -> list[Guard]:
    """What is assumed of the containers and tensors of a snapshot."""
    guards = state_guards(snapshot.containers, snapshot.leaves, names)
    for tensor, memory in zip(snapshot.tensors, snapshot.memory, strict=True):
        text = names(tensor)
        failed = f"{text}.storage is not {names(memory.storage)} or {text}.form is not {names(memory.form)}"
        if memory.storage is None or memory.form.nbytes < memory.storage.nbytes:  # it may show another part
            failed += f" or {text}.offset != {memory.offset}"
        guards.append(Guard("tensor", text, str(memory.form.type), failed))
    return guards


class Writer:
    """Writes the function of one entry."""

    def __init__(
        self,
        program: Program,
        executable: Executable | Segmented,
        arguments: Arguments,
        walk: StateWalk,
        names: Names,
    ) -> None:
        self.program = program
        self.kept = _kept(program, executable)
        self.sources: list[Source] = [*program.sources]
        if self.kept is not None:
            self.sources += [TensorSource(item) for item in self.kept.results]
        self.executable = executable
        self.has_many = len(executable.output_types) > _MANY
        self.arguments = arguments
        self.names = names
        types = (*executable.input_types, *executable.output_types)
        words = [descriptor.HEADER_WORDS + 2 * len(type_.shape) for type_ in types]
        self.starts = [0, *accumulate(words)]
        conditions = [guard.condition for guard in program.guards]
        asserts = tuple(program.scope.asserts)  # later ones are those of the backward pass
        self.planner = Planner(executable, self.sources, conditions, asserts, list(program.sizes.values()))
        changed = {(id(effect.container), effect.key) for effect in program.effects}
        loosen(walk.leaves, names, program.fixed, changed)
        kept = lasting(walk, changed)
        others = [item for item in walk.containers if id(item[0]) not in kept]
        leaves = [leaf for leaf in walk.leaves if id(leaf.container) not in kept]
        self.guards = [*argument_guards(arguments, names), *state_guards(others, leaves, names)]
        self.guards.append(Guard("grad mode", "grad mode", str(STATE.grad), f"state.grad is not {STATE.grad}"))
        for text, value in program.fixed.items():
            self.guards.append(Guard("number", text, repr(value), f"{text} != {names(value)}"))
        for source in program.sources:
            if isinstance(source, GradientSource):
                text = f"{self._owner(source.owner)}.gradient.grad"
                self.guards.append(Guard("gradient", text, "a gradient", f"{text} is None"))
        snapshot = Snapshot(
            [item for item in walk.containers if id(item[0]) in kept],
            [leaf for leaf in walk.leaves if id(leaf.container) in kept],
            [source.tensor for source in program.sources if isinstance(source, TensorSource)],
        )
        self.state = StateGuards(snapshot, snapshot_guards)
        for position, first in program.same:
            text, other = arguments.leaves[position][0], self._owner(first)
            self.guards.append(Guard("memory", text, f"the same tensor as {other}", f"{text} is not {other}"))
        written = {position for position, _ in program.graph.mutations}
        self.guards += alias_guards(program.sources, written, lambda place: arguments.leaves[place][0], names)
        self.guards += hook_guards(program.hooked, arguments, names)
        for owner in program.absent:
            text = f"{self._owner(owner)}.gradient.grad"
            self.guards.append(Guard("gradient", text, "no gradient", f"{text} is not None"))

    def entry(self, attach: Callable[..., Any] | None) -> Entry:
        """The finished entry. `attach` ties a backward pass to the results."""
        space = self.names.space
        space.update(
            MISS=MISS,
            state=STATE,
            plans=self.planner.plans,
            make_plan=self.planner.plan,
            attach=attach,
            replay_view=replay_view,
            BROKEN=(KeyError, IndexError, AttributeError, RuntimeError),
            **CALL_NAMES,
        )
        lines = ["def call(args, kwargs):", "    try:"]
        lines += [f"        {line}" for line in self.arguments.lines]
        # One condition: Python compiles it in less than half the time of as many statements.
        failed = [guard.failed for guard in self.guards]
        if not self.state.snapshot.is_empty:
            failed.append(f"not {self.names(self.state.snapshot)}.holds() and {self.names(self.state)}.fail(globals())")
        lines.append(f"        if {' or '.join(failed)}: return MISS")
        lines += ["    except BROKEN:", "        return MISS"]
        lines += [f"    {line}" for line in [*self._inputs(), *self._outputs(attach), *self._effects()]]
        text = "\n".join(lines)
        exec(compile(text, f"<rushlight {self.program.graph.name}>", "exec"), space)  # noqa: S102 - our own text
        return Entry(
            space.pop("call"),  # whose globals these are
            tuple(self.arguments.unpack),
            (*self.arguments.guards, *self.guards),
            self.state,
            text,
            self.executable.executables if isinstance(self.executable, Segmented) else (self.executable,),
            tuple(self.program.written),
            weakref.ref(self.program.scope),
            self.program.observed,
        )

    def _input_text(self, source: Source) -> str:
        if isinstance(source, ArgumentSource):
            return self.arguments.leaves[source.position][0]
        if isinstance(source, GradientSource):
            return f"{self._owner(source.owner)}.gradient.grad"
        if isinstance(source, NumberSource):
            return source.text
        assert isinstance(source, TensorSource)
        return self._owner(source.tensor)

    def _owner(self, owner: Handle | ArgumentSource) -> str:
        return self.arguments.leaves[owner.position][0] if isinstance(owner, ArgumentSource) else self.names(owner)

    def _inputs(self) -> list[str]:
        sources = self.sources
        dynamic = [source for source in sources if isinstance(source, (ArgumentSource, GradientSource))]
        forms = [f"{self._input_text(source)}.form, " for source in dynamic]
        lines = [f"key = ({''.join([*forms, *[f'{text}, ' for text in self.program.sizes]])})"]
        lines += ["plan = plans.get(key) or make_plan(key)", "if plan is None: return MISS", *self._refresh()]
        for place, (generator, count) in enumerate(self.program.draws.items()):
            seed, ordinal = random_names(place)
            lines.append(f"{seed}, {ordinal} = {self.names(generator)}.next_ordinal({count})")
            lines.append(f"if {seed} >> 63: {seed} -= {1 << 64}")  # operators take signed 64-bit integers
        return lines

    def _sheet(self) -> list[str]:
        """A sheet of descriptors with the inputs filled in."""
        sources = self.sources
        lines = sheet_text("plan.free", "plan.fresh")
        kinds = dict(numbers_among(sources))
        filled: list[str] = []
        for slot in number_slots(kinds.items(), self.starts[len(sources) + len(self.executable.output_types)]):
            filled += number_text(self._input_text(sources[slot.position]), kinds[slot.position], slot)
        for place, source in enumerate(sources):
            if isinstance(source, (ArgumentSource, GradientSource)):
                itemsize = self.executable.input_types[place].dtype.itemsize
                filled.append(tensor_text(self._input_text(source), self.starts[place], itemsize))
        return [*lines, *looped(filled, self.names)]

    def _refresh(self) -> list[str]:
        """What is kept is made again where a tensor that it was made of has been written to."""
        if self.kept is None:
            return []
        kept, counters = self.names(self.kept), self.names(self.kept.counters)
        return [f"if {kept}.seen != [counter.value for counter in {counters}]: {kept}.refresh()"]

    def _outputs(self, attach: Any) -> list[str]:
        count = len(self.executable.output_types)
        if isinstance(self.executable, Segmented):
            inputs = "".join([f"{self._input_text(source)}, " for source in self.sources])
            lines = [f"plan = {self.names(self.executable)}.run(({inputs}), plan.values)", *self._dropped_gradients()]
            lines += [f"{self._outputs_text()} = plan.outputs"] if count else []
        else:
            lines = [*self._sheet(), *self._dropped_gradients(), *self._native()]
        if attach is not None:
            lines.append(f"outputs = [*{self._outputs_text()}]")
        if self.program.written:
            versions = self.names(tuple([item.version for item in self.program.written if item.storage is not None]))
            lines += [f"for version in {versions}:", "    version.value += 1"]
        written = dict(self.program.graph.mutations)
        for position, source in enumerate(self.program.sources):
            if isinstance(source, ArgumentSource) and position in written:
                lines.append(f"{self._input_text(source)}.version.value += 1")
        if attach is not None and self.program.joint is not None:
            lines += self._attached(self.program.joint.wanted)
        return lines

    def _attached(self, wanted: Sequence[Source]) -> list[str]:
        """Views of inputs among the results, and the backward pass tied to all results."""
        views = [f"w{place} = {self._view_text(source)}" for place, source in enumerate(self.program.views)]
        given = [[self._input_text(item) for item in items] for items in (self.program.sources, wanted)]
        lists = [f"[{', '.join(texts)}]" for texts in ([text.partition(" ")[0] for text in views], *given)]
        return [*views, f"attach(outputs, {', '.join(lists)}, plan)"]

    def _view_text(self, source: ViewSource) -> str:
        return f"replay_view({self._input_text(source.base)}, {self.names(source.steps)}, plan.values)"

    def _native(self) -> list[str]:
        """The native call on outputs allocated before it, which become tensors after it."""
        types = self.executable.output_types
        tensor = self.names(_tensor_class(self.program))
        starts = [self.starts[len(self.sources) + place] for place in range(len(types))]
        call = ["plan.launch(sheet)", "plan.free.append(sheet)"]
        if self.has_many:
            lines = ["s = allocate(plan.nbytes)"]
            lines.append(f"for start, storage in zip({self.names(tuple(starts))}, s): words[start] = storage.address")
            lines += [*call, "r = []", "for storage, form in zip(s, plan.forms):"]
            made = [*result_text("made", "storage", "form", "form.keys", tensor), "r.append(made)"]
            return [*lines, *[f"    {line}" for line in made]]
        lines = [*output_text(starts, "plan.nbytes"), *call]
        for place, type_ in enumerate(types):
            keys = bit(backend_key(type_.device.type))
            lines += result_text(f"r{place}", f"s{place}", f"plan.forms[{place}]", keys, tensor)
        return lines

    def _outputs_text(self) -> str:
        if self.has_many:
            return "r"
        return f"({''.join([f'{self._output_text(place)}, ' for place in range(len(self.executable.output_types))])})"

    def _output_text(self, place: int) -> str:
        return f"r[{place}]" if self.has_many else f"r{place}"

    def _dropped_gradients(self) -> list[str]:
        """Gradients that the program replaces without reading them go before there are new ones: these may lie there.

        A program that drops its gradients itself, as `zero_grad` does, has none either if it fails later on.
        """
        sources = [source for source in self.program.sources if isinstance(source, GradientSource)]
        read = {id(source.owner) for source in sources}
        owners = [owner for owner, _ in self.program.gradients if id(owner) not in read]
        return looped([f"{self._owner(owner)}.gradient.grad = None" for owner in owners], self.names)

    def _effects(self) -> list[str]:
        effects = self.program.effects
        lines = [f"e = [None] * {len(effects)}"] if effects else []
        lines += looped([f"e[{at}] = {self._value(effect.value)}" for at, effect in enumerate(effects)], self.names)
        writes: list[str] = []
        for place, effect in enumerate(effects):
            key = self.names(effect.key) if isinstance(effect.key, Handle) else repr(effect.key)
            writes.append(f"{self.names(effect.container)}[{key}] = e[{place}]")
        for tensor, template in self.program.gradients:
            writes.append(
                f"{self._owner(tensor)}.gradient.grad = {'None' if template is None else self._value(template)}"
            )
        return [*lines, *looped(writes, self.names), f"return {self._value(self.program.result)}"]

    def _value(self, template: Template) -> str:
        if isinstance(template, Output):
            weak = self.executable.output_types[template.place].weak  # it counted as a Python number
            return f"{self._output_text(template.place)}{'.item()' if weak else ''}"
        if isinstance(template, Taken):
            source = template.source
            if isinstance(source, ViewSource):
                made = [place for place, view in enumerate(self.program.views) if view is source]
                return f"w{made[0]}" if made else self._view_text(source)
            return self._input_text(source)
        if isinstance(template, Number):
            return template.text
        if isinstance(template, SizeOf):
            return to_python(
                template.expr, {symbol: f"plan.values[{self.names(symbol)}]" for symbol in free_symbols(template.expr)}
            )
        if isinstance(template, Constant):
            value = template.value
            return repr(value) if value is None or type(value) in (bool, int, str) else self.names(value)
        assert isinstance(template, Container)
        items = [self._value(item) for item in template.items]
        kind = template.kind
        if issubclass(kind, dict):
            pairs = [f"{self.names(key)}: {item}" for key, item in zip(template.keys, items, strict=True)]
            text = f"{{{', '.join(pairs)}}}"
            return text if kind is dict else f"{self.names(kind)}({text})"
        if kind is list:
            return f"[{', '.join(items)}]"
        inner = f"({''.join([f'{item}, ' for item in items])})"
        named = hasattr(kind, "_fields")  # a NamedTuple takes its items one by one, other sequences take one sequence
        return inner if kind is tuple else f"{self.names(kind)}({'*' if named else ''}{inner})"


def _kept(program: Program, executable: Executable | Segmented) -> Kept | None:
    if isinstance(executable, Segmented) or executable.once is None:
        return None
    sources = [program.sources[place] for place in executable.reads]
    return Kept(executable.once, [source.tensor for source in sources if isinstance(source, TensorSource)])


def replay_view(base: Any, steps: Any, values: Mapping[SizeExpr, int]) -> Any:
    """A view of a tensor made again by the steps that a trace recorded; sizes in their attributes take their values."""
    for op, others, attrs in steps:
        base = base.apply(op, (base, *others), {name: concrete(value, values) for name, value in attrs.items()})
    return base


def _tensor_class(program: Program) -> type:
    return type(program.outputs[0]) if program.outputs else Handle
