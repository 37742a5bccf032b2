"""Generates an entry's function from a Program: unpacks arguments, checks guards, launches, commits effects.

The text is compiled once per trace, so that a later call is straight-line Python around one native call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rushlight.capture.aliasing import alias_guards
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry.argument_guards import argument_guards, wants, wants_text
from rushlight.capture.entry.commits import CommitText, ended_texts, has_writes, holds_number
from rushlight.capture.entry.constant_cache import ConstantCache
from rushlight.capture.entry.entry import MISS, Entry, Planner, numbers_among
from rushlight.capture.entry.loop_rolling import rolled
from rushlight.capture.entry.measuring import as_graph, made
from rushlight.capture.entry.value_guards import (
    constant_guard,
    defined_guards,
    is_partial,
    number_differs,
    text_guards,
    type_guard,
)
from rushlight.capture.entry.value_texts import ValueTexts, replay_view
from rushlight.capture.gradients.inputs import Owner
from rushlight.capture.gradients.joint import attach_ended, rewritten
from rushlight.capture.guard import Guard, is_same
from rushlight.capture.hooks import hook_guards
from rushlight.capture.program import Program, random_names
from rushlight.capture.segmented import Segmented
from rushlight.capture.source import (
    DYNAMIC,
    ArgumentSource,
    GradientSource,
    NumberSource,
    OutputSource,
    Source,
    StateSource,
    TensorSource,
)
from rushlight.capture.state.places import Leaf, differs
from rushlight.capture.state.reachable import StateWalk
from rushlight.capture.state.snapshot import Memory, Snapshot, StateGuards
from rushlight.capture.values import Output, Reached, Template
from rushlight.eager.dispatch import STATE, backend_key, bit
from rushlight.eager.execution.plan import (
    CALL_NAMES,
    MOST_ARGUMENTS,
    MOST_RESULTS,
    guarded_text,
    number_text,
    output_text,
    result_text,
    sheet_text,
    tensor_text,
)
from rushlight.eager.handle import AUTOGRAD, SPARSE, Handle, adopted, gradient_of
from rushlight.ir.type import CPU
from rushlight.ops.promote import DEFAULT_DTYPE
from rushlight.runtime import descriptor
from rushlight.runtime.backend import allocate_on
from rushlight.runtime.descriptor import Slot, number_slots

if TYPE_CHECKING:
    from rushlight.build import Executable

_FIND = "plan = plans.get(key) or make_plan(key)"
_MANY = 8  # outputs: more are made by a loop


def _filled(numbers: Iterable[tuple[str, type, Slot]], ints: bool) -> list[str]:
    """Lines that fill in the ints, which may be too large for a word, or the other numbers."""
    return [line for text, kind, slot in numbers if (kind is int) is ints for line in number_text(text, kind, slot)]


def number_guards(program: Program, names: Names) -> list[Guard]:
    """Variables for numbers whose text is long, and that those which a program relies on are the same."""
    variables = program.inputs.numbers.items()
    guards = [Guard("number", name, "defined", f"({name} := {text}) is None") for name, text in variables]
    for text, value in program.inputs.fixed.items():
        guards.append(Guard("number", text, repr(value), number_differs(text, value, names)))
    return guards


def attempted(lines: list[str], errors: str, undo: list[str]) -> list[str]:
    """Lines that fill in numbers; where one is undefined the call needs another trace."""
    if not lines:
        return []
    return [
        "try:",
        *[f"    {line}" for line in lines],
        f"except {errors}:",
        *[f"    {line}" for line in [*undo, "return MISS"]],
    ]


def returned_draws(program: Program, names: Names) -> list[str]:
    """Gives back the random numbers that the call has drawn."""
    draws = enumerate(program.effects.draws.items())
    return [f"if reserved: {names(generator)}.give_back({count}, reserved[{at}])" for at, (generator, count) in draws]


def overwritten(program: Program, text_of: Callable[[Source], str]) -> list[str]:
    """The arguments that a program writes to."""
    written = dict(program.graph.mutations)
    sources = [source for at, source in enumerate(program.inputs.sources) if at in written]
    return [text_of(source) for source in sources if isinstance(source, ArgumentSource)]


def mark_type_only(
    leaves: Sequence[Leaf], names: Names, program: Program, changed: Collection[tuple[int, object]]
) -> None:
    """Marks the leaves for which the program depends only on the value's type.

    Those are numbers that it takes at run time and has not `fixed`, and tensors that it puts others in the place of,
    but for those that are `constant` to it.
    """
    for leaf in leaves:
        if leaf.is_number and leaf.runtime:
            leaf.type_only = leaf.text(names) not in program.inputs.fixed
        elif issubclass(type(leaf.value), Handle):
            replaced = (id(leaf.container), leaf.key) in changed
            leaf.type_only = replaced and id(leaf.value) not in program.inputs.constants


def replaced_guards(leaves: Sequence[Leaf], names: Names) -> list[Guard]:
    """Guards on the tensors that a program replaces: everything but their elements."""
    guards: list[Guard] = []
    for leaf in leaves:
        if leaf.type_only and not leaf.unread and isinstance(leaf.value, Handle):
            text, form = leaf.text(names), leaf.value.form
            failed = f"{text}.form is not {names(form)} or {wants_text(text, leaf.value)}"
            failed += "" if leaf.value.view_of else f" or {text}.view_of is not None"
            guards.append(Guard("tensor", leaf.path, str(form.type), failed))
    return guards


def unextended_containers(walk: StateWalk, changed: Collection[tuple[int, object]]) -> set[int]:
    """The ids of containers that a call adds no entries to. The snapshot guards them."""
    grown = {container for container, key in changed if key not in walk.before.get(container, ())}
    return {id(container) for container, _ in walk.containers} - grown


def state_guards(containers: Sequence[tuple[object, str]], leaves: Sequence[Leaf], names: Names) -> list[Guard]:
    """What is assumed of modules, optimizers and their containers."""
    guards: list[Guard] = []
    keys: dict[int, list[object]] = {id(container): [] for container, _ in containers}
    for leaf in leaves:
        keys.setdefault(id(leaf.container), []).append(leaf.key)
    unread: dict[int, list[object]] = {}
    for leaf in leaves:
        if leaf.unread and isinstance(leaf.container, dict):
            unread.setdefault(id(leaf.container), []).append(leaf.key)
    for container, path in containers:
        text, size = names(container), len(keys[id(container)])
        failed = f"len({text}) != {size}" if size else text
        if id(container) in unread:  # no other name has taken the place of one
            failed += f" or not {text}.keys() >= {names(frozenset(unread[id(container)]))}"
        elif size and isinstance(container, dict):  # programs may walk through it
            failed += f" or not {names(is_same)}(tuple({text}), {names(tuple(keys[id(container)]))})"
        guards.append(Guard("container", path, f"{size} entries", failed))
    for leaf in [leaf for leaf in leaves if not leaf.unread]:
        text = leaf.text(names)
        if leaf.type_only and leaf.is_number:
            guards.append(type_guard(text, leaf.path, leaf.value, names))
        elif leaf.type_only:
            guards.append(Guard("tensor", leaf.path, "a tensor", f"{text}.__class__ is not {names(type(leaf.value))}"))
        elif leaf.is_numbers and leaf.runtime:
            failed = f"{text}.__class__ is not {names(tuple)} or len({text}) != {len(leaf.value)}"
            guards.append(Guard("type", leaf.path, f"a tuple of {len(leaf.value)}", failed))
            for at, number in enumerate(leaf.value):  # those that were asked for are in `fixed`, and guarded there
                guards.append(type_guard(f"{text}[{at}]", f"{leaf.path}[{at}]", number, names))
        else:
            guards.append(constant_guard(text, leaf.path, leaf.value, names))
    return guards


def collection_guards(walk: StateWalk, names: Names) -> list[Guard]:
    """Guards that sets, deques and bytearrays hold the same objects."""
    guards: list[Guard] = []
    for container, path in walk.collections:
        before = tuple(walk.before[id(container)].values())
        # Most are empty, as modules' sets of names are: that is asked without a call.
        failed = f"{names(differs)}({names(container)}, {names(before)})" if before else names(container)
        guards.append(Guard("container", path, f"{len(container)} entries", failed))
    return guards


def snapshot_guards(names: Names, snapshot: Snapshot) -> list[Guard]:
    """What is assumed of the containers and tensors of a snapshot."""
    guards = state_guards(snapshot.containers, snapshot.leaves, names)
    for tensor, memory in zip(snapshot.tensors, snapshot.memory, strict=True):
        text = names(tensor)
        failed = f"{text}.backing is not {names(memory.storage)} or {text}.form is not {names(memory.form)}"
        if memory.storage is not None:  # which may have moved
            failed += f" or {text}.backing.address != {memory.address}"
        if memory.storage is None or memory.form.nbytes < memory.storage.nbytes:  # it may show another part
            failed += f" or {text}.offset != {memory.offset}"
        guards.append(Guard("tensor", text, str(memory.form.type), failed))
        guards.append(Guard("tensor", text, f"requires_grad={memory.required}", _required_text(text, memory)))
    return [*guards, *[part.guard(names) for part in snapshot.parts]]


def _required_text(text: str, memory: Memory) -> str:
    now = f"{text}.gradient is not None and {text}.gradient.required"
    return f"not ({now})" if memory.required else f"({now})"


def mode_guards(names: Names) -> list[Guard]:
    """Guards on what scopes of the caller say of all operators."""
    dtype, device = DEFAULT_DTYPE[0], STATE.device
    setting = "None" if STATE.autocast is None else names(STATE.autocast)
    ranks = "None" if STATE.ranks is None else names(STATE.ranks)  # interned: a program may depend on its rank
    # Devices are compared by value; where there is none, identity costs less at each call.
    is_other_device = "state.device is not None" if device is None else f"state.device != {names(device)}"
    return [
        Guard("grad mode", "grad mode", str(STATE.grad), f"state.grad is not {STATE.grad}"),
        Guard("dtype", "dtype of Python floats", str(dtype), f"{names(DEFAULT_DTYPE)}[0] is not {names(dtype)}"),
        Guard("device", "device of new tensors", str(device), is_other_device),
        Guard("autocast", "autocast", "as it was", f"state.autocast is not {setting}"),
        Guard("ranks", "process groups", str(STATE.ranks), f"state.ranks is not {ranks}"),
    ]


def packing(attach: object, program: Program) -> list[str]:
    """Gives the hooks for saved tensors what is saved, once it is computed."""
    return [] if attach is None or program.backward is None else ["if state.saving: histories.node.pack()"]


def history_guards(program: Program, text_of: Callable[[Source], str]) -> list[Guard]:
    """What is assumed of the place in autograd of inputs that are written to with gradients."""
    guards: list[Guard] = []
    if program.backward is None:
        return guards
    for source in program.backward.written:
        text = text_of(source)
        if isinstance(source, TensorSource):
            wanted = wants(source.tensor)
            guards.append(Guard("tensor", text, f"requires_grad={wanted}", wants_text(text, source.tensor)))
        if source in program.backward.intermediate:
            guards.append(Guard("tensor", text, "no leaf", f"{text}.is_leaf"))
    return guards


def gradient_guards(program: Program, text_of: Callable[[Owner], str]) -> list[Guard]:
    """Which inputs have a gradient before the call, of those of which the program relies on it."""
    records = [f"{text_of(owner)}.gradient" for owner in program.inputs.with_gradient]
    guards = [_gradient_guard(f"{it}.grad", f"{it} is None or {it}.grad is None") for it in records]
    for owner in program.inputs.without_gradient:
        text = f"{text_of(owner)}.gradient"
        failed = f"({text} is not None and {text}.grad is not None)"
        guards.append(Guard("gradient", f"{text}.grad", "no gradient", failed))
    return guards


def _gradient_guard(text: str, absent: str) -> Guard:
    """That there is a gradient which a graph can hold: dense, and without a history."""
    refused = f"({text}.keys & {SPARSE | AUTOGRAD} and ({text}.keys & {SPARSE} or {text}.requires_grad))"
    return Guard("gradient", text, "a gradient without a history", f"{absent} or {refused}")


def _snapshot(program: Program, walk: StateWalk, kept: Collection[int]) -> Snapshot:
    """What is compared natively; of containers those that are `kept`, by identity."""
    sources = program.inputs.sources
    given = {id(source.tensor): source.tensor for source in sources if isinstance(source, TensorSource)}
    # Those that the graph does not need have told whether results require gradients.
    given |= {key: tensor for key, tensor in walk.assumed.tensors.items() if key in program.inputs.constants}
    given |= walk.assumed.asked
    return Snapshot(
        [container for container in walk.containers if id(container[0]) in kept],
        [leaf for leaf in walk.leaves if id(leaf.container) in kept],
        [*given.values()],
        [*walk.assumed.parts()],
    )


def _read_gradients(program: Program, owner: Callable[[Owner], str]) -> list[Guard]:
    """That the gradients which the graph reads are there."""
    texts = [f"{owner(one.owner)}.gradient.grad" for one in program.inputs.sources if isinstance(one, GradientSource)]
    return [_gradient_guard(text, f"{text} is None") for text in texts]


class Writer(ValueTexts):
    """Writes the function of one entry."""

    def __init__(
        self, program: Program, executable: Executable | Segmented, arguments: Arguments, walk: StateWalk, names: Names
    ) -> None:
        super().__init__()
        self.program = program
        self.constants = _constant_cache(program, executable)
        self.sources: list[Source] = [*program.inputs.sources]
        if self.constants is not None:
            self.sources += [TensorSource(result) for result in self.constants.results]
        self.executable = executable
        self.commits = has_writes(program)
        self.has_many = len(executable.output_types) > _MANY
        self.arguments = arguments
        self.names = names
        self._held: dict[str, str] = {}  # the variables of tensors that stand in places of state
        self.views = () if program.backward is None else program.backward.views
        types = (*executable.input_types, *executable.output_types)
        words = [descriptor.HEADER_WORDS + 2 * len(type_.shape) for type_ in types]
        self.starts = [0, *accumulate(words)]
        asserts = tuple(program.scope.asserts)  # later ones are those of the backward pass
        sizes = list(program.inputs.sizes.values())
        self.planner = Planner(executable, self.sources, program.guards, asserts, sizes, self.commits)
        entries = [entry for entry in program.effects.entries if not isinstance(entry.container, Reached)]
        changed = {(id(entry.container), entry.key) for entry in entries}
        mark_type_only(walk.leaves, names, program, changed)
        kept = unextended_containers(walk, changed)
        others = [container for container in walk.containers if id(container[0]) not in kept]
        leaves = [leaf for leaf in walk.leaves if id(leaf.container) not in kept]
        self.guards = [
            *argument_guards(program, arguments, names, walk.assumed),
            *state_guards(others, leaves, names),
        ]
        self.guards += [*collection_guards(walk, names), *replaced_guards(walk.leaves, names)]
        self.guards += [*walk.assumed.guards(names), *text_guards(arguments, walk, names)]
        self.guards += mode_guards(names)
        self.guards += number_guards(program, names)
        self.guards += _read_gradients(program, self.owner)
        snapshot = _snapshot(program, walk, kept)
        self.state = StateGuards(snapshot, snapshot_guards)
        for position, first in program.inputs.duplicates:
            text, other = arguments.leaves[position][0], self.owner(first)
            self.guards.append(Guard("memory", text, f"the same tensor as {other}", f"{text} is not {other}"))
        written = {position for position, _ in program.graph.mutations}
        self.guards += alias_guards(program.inputs.sources, written, lambda number: arguments.leaves[number][0], names)
        self.guards += history_guards(program, self.input_text)
        self.guards += hook_guards(program.inputs.hooked, arguments, names)
        self.guards += gradient_guards(program, self.owner)

    def entry(self, attach: Callable[..., Any] | None) -> Entry:
        """The finished entry. `attach` ties a backward pass to the results."""
        space = self.names.space
        space.update(
            MISS=MISS,
            state=STATE,
            plans=self.planner.plans,
            make_plan=self.planner.plan,
            attach=attach,
            attach_ended=attach_ended,
            rewritten=rewritten,
            gradient_of=gradient_of,
            replay_view=replay_view,
            BROKEN=(LookupError, AttributeError, RuntimeError, ArithmeticError, ValueError),
            UNDEFINED=(ArithmeticError, TypeError),  # a power that is complex is no operand
            **CALL_NAMES,
            allocate=allocate_on(next((type_.device for type_ in self.executable.output_types), CPU)),
        )
        body = [*self._inputs(), *self._drawing(self._run(attach))]
        lines = ["def call(args, kwargs):", "    try:"]
        lines += [f"        {line}" for line in self.arguments.lines]
        self.guards += defined_guards(self.numbers_read)
        # One condition: Python compiles it in less than half the time of as many statements.
        failed = [guard.failed for guard in self.guards]
        if not self.state.snapshot.is_empty:
            failed.append(f"not {self.names(self.state.snapshot.test)}() and {self.names(self.state)}.fail(globals())")
        lines += [f"        if {' or '.join(failed)}: return MISS", "    except BROKEN:", "        return MISS"]
        held = [f"{name} = {text}" for text, name in self._held.items()]
        lines += [f"    {line}" for line in [*held, *body]]
        text = "\n".join(lines)
        exec(compile(text, f"<rushlight {self.program.graph.name}>", "exec"), space)  # noqa: S102 - our own text
        entry = Entry(
            space.pop("call"),  # whose globals these are
            tuple(self.arguments.unpack),
            (*held, self._key()),
            self.planner.misfit,
            (*self.arguments.guards, *self.guards),
            self.state,
            text,
            self.executable.executables if isinstance(self.executable, Segmented) else (self.executable,),
            tuple(self.program.effects.written),
            weakref.ref(self.program.scope),
            self.program.observed,
        )
        return made(entry)

    def input_text(self, source: Source) -> str:
        """An input of the graph."""
        if isinstance(source, ArgumentSource):
            return self.arguments.leaves[source.position][0]
        if isinstance(source, GradientSource):
            return f"{self.owner(source.owner)}.gradient.grad"
        if isinstance(source, NumberSource):
            return source.text
        if isinstance(source, OutputSource):
            return self.output(source.position)
        if isinstance(source, StateSource):
            return self._held.setdefault(source.text, source.name)
        assert isinstance(source, TensorSource)
        return self.owner(source.tensor)

    def owner(self, owner: Owner) -> str:
        """A tensor that has a gradient."""
        return self.arguments.leaves[owner.position][0] if isinstance(owner, ArgumentSource) else self.names(owner)

    def _inputs(self) -> list[str]:
        return ["# aot_prologue", self._key(), _FIND, "if plan is None: return MISS", *self._refresh()]

    def _key(self) -> str:
        """What the plan of a call is found by: the forms of dynamic inputs, and integers."""
        dynamic = [source for source in self.sources if isinstance(source, DYNAMIC)]
        forms = [f"{self.input_text(source)}.form, " for source in dynamic]
        return f"key = ({''.join([*forms, *[f'{text}, ' for text in self.program.inputs.sizes]])})"

    def _drawing(self, run: list[str]) -> list[str]:
        """The call with the random numbers that it draws, which it gives back where it fails."""
        draws = self.program.effects.draws
        if not draws:
            return run
        lines = [f"reserved = [None] * {len(draws)}"]
        for position, (generator, count) in enumerate(draws.items()):
            seed, ordinal = random_names(position)
            name = self.names(generator)
            lines.append(f"{seed}, {ordinal} = {name}.reserve({count}, reserved, {position})")
            lines.append(f"if {seed} >> 63: {seed} -= {1 << 64}")  # operators take signed 64-bit integers
        first, *rest = [*lines, *run]
        inside = [f"    {line}" for line in rest]
        after = [f"    {line}" for line in returned_draws(self.program, self.names)]
        return [first, "try:", *inside, "except BaseException:", *after, "    raise"]

    def _sheet(self) -> list[str]:
        """A sheet of descriptors with the inputs filled in."""
        sources = self.sources
        lines = sheet_text("plan.free", "plan.fresh")
        kinds = dict(numbers_among(sources))
        slots = number_slots(kinds.items(), self.starts[len(sources) + len(self.executable.output_types)])
        numbers = [(self.input_text(sources[slot.position]), kinds[slot.position], slot) for slot in slots]
        filled = _filled(numbers, False)
        undo = [*returned_draws(self.program, self.names), "plan.free.append(sheet)"]
        partial = any(is_partial(text) for text, _, _ in numbers)
        ints = guarded_text(_filled(numbers, True), [text for text, kind, _ in numbers if kind is int])
        lines += attempted(ints, "ZeroDivisionError", undo) if partial else ints
        for position, source in enumerate(sources):
            if isinstance(source, DYNAMIC):
                itemsize = self.executable.input_types[position].dtype.itemsize
                filled.append(tensor_text(self.input_text(source), self.starts[position], itemsize))
        filled = rolled(filled, self.names)
        return [*lines, *(attempted(filled, "UNDEFINED", undo) if partial else filled)]

    def _refresh(self) -> list[str]:
        """Recomputes constants if a frozen tensor that they depend on was written to."""
        if self.constants is None:
            return []
        cache, counters = self.names(self.constants), self.names(self.constants.counters)
        return [f"if {cache}.seen != [counter.value for counter in {counters}]: {cache}.refresh()"]

    def _run(self, attach: object) -> list[str]:
        """The call, with the writes that belong to it, and the result."""
        before, after = self._result()
        run = self._segments if isinstance(self.executable, Segmented) else self._native
        return [*run(attach, f"result = {before}"), f"return {after}"]

    def _result(self) -> tuple[str, str]:
        """What to evaluate as `result` before anything is written, and then what gives the call's result."""
        template = self.program.result
        if not self.commits:
            return "", self.value(template)
        if not holds_number(template, self.is_number):
            return self.value(template), "result"
        self._hoisted = []
        after = self.value(template)
        before = f"({''.join([f'{text}, ' for text in self._hoisted])})"
        self._hoisted = None
        return before, after

    def is_number(self, template: Template) -> bool:
        """Whether a template is an output that counted as a Python number: it is known only after the call."""
        return isinstance(template, Output) and self.executable.output_types[template.place].weak

    def _segments(self, attach: object, result: str) -> list[str]:
        """The run of several steps; the commit is made of the results before the last step computes them."""
        self.numbers_read += [source.text for source in self.sources if isinstance(source, NumberSource)]
        inputs = "".join([f"{self.input_text(source)}, " for source in self.sources])
        run = f"plan = {self.names(self.executable)}.run(({inputs}), plan.values"
        unpacked = [f"{self.outputs_text()} = plan.outputs"] if self.executable.output_types else []
        if not self.commits:
            return [*as_graph(f"{run})"), *unpacked, *self._attached(attach), *packing(attach, self.program)]
        commit = CommitText(self.program, self, overwritten(self.program, self.input_text)).lines()
        made = ["nonlocal result, histories", *unpacked, *self._attached(attach), result, *commit, "return commit"]
        after = [*as_graph(f"{run}, committed)"), *unpacked, *packing(attach, self.program)]
        return ["result = histories = None", "def committed(plan):", *[f"    {line}" for line in made], *after]

    def _attached(self, attach: object) -> list[str]:
        """Views of inputs among the results, and the backward pass tied to all results."""
        ended, rewritten = ended_texts(self.program, self.input_text, self.output)
        backward = self.program.backward
        if attach is None or backward is None:
            return [*ended, *[f"histories = {text}" for text in rewritten]]
        views = [f"w{position} = {self.view_text(source)}" for position, source in enumerate(self.views)]
        sources = (backward.written, self.program.inputs.sources, backward.joint.wanted)
        given = [[self.input_text(source) for source in items] for items in sources]
        lists = [f"[{', '.join(texts)}]" for texts in ([text.partition(" ")[0] for text in views], *given)]
        outputs = f"outputs = [*{self.outputs_text()}]"
        attached = f"histories = attach(outputs, {', '.join(lists)}, plan)"
        return [*ended, outputs, *views, attached, *[f"histories += {text}" for text in rewritten]]

    def _native(self, attach: object, result: str) -> list[str]:
        """The native call on allocated outputs. If the call commits, they become tensors before it, else after it."""
        types = self.executable.output_types
        tensor = self.names(_tensor_class(self.program))
        starts = [self.starts[len(self.sources) + position] for position in range(len(types))]
        if self.has_many:
            allocated = ["s = allocate(plan.nbytes)"]
            pairs = f"zip({self.names(tuple(starts))}, s)"
            allocated.append(f"for start, storage in {pairs}: words[start] = storage.address")
            each = [*result_text("made", "storage", "form", "form.keys", tensor), "r.append(made)"]
            made = ["r = []", "for storage, form in zip(s, plan.forms):", *[f"    {line}" for line in each]]
        else:
            allocated, made = output_text(starts, "plan.nbytes"), []
            for index, type_ in enumerate(types):
                keys = bit(backend_key(type_.device.type))
                made += result_text(f"r{index}", f"s{index}", f"plan.forms[{index}]", keys, tensor)
        if not self.commits:
            launch = [*as_graph("plan.launch(sheet)"), "plan.free.append(sheet)"]
            run = [*self._sheet(), *allocated, *launch, *made]
            return [*native_text(self, run), *self._attached(attach), *packing(attach, self.program)]
        made += self._attached(attach)
        commit = CommitText(self.program, self, overwritten(self.program, self.input_text)).lines()
        launch = [*as_graph("plan.launch(sheet, commit)"), "plan.free.append(sheet)"]
        return [*self._sheet(), *allocated, *made, result, *commit, *launch, *packing(attach, self.program)]

    def outputs_text(self) -> str:
        """All outputs, as what can be assigned to."""
        texts = [f"{self.output(position)}, " for position in range(len(self.executable.output_types))]
        return "r" if self.has_many else f"({''.join(texts)})"

    def output(self, position: int) -> str:
        """An output of the graph, as a tensor."""
        return f"r[{position}]" if self.has_many else f"r{position}"


def _constant_cache(program: Program, executable: Executable | Segmented) -> ConstantCache | None:
    if isinstance(executable, Segmented) or executable.once is None:
        return None
    sources = [program.inputs.sources[position] for position in executable.reads]
    return ConstantCache(executable.once, [source.tensor for source in sources if isinstance(source, TensorSource)])


def native_text(writer: Writer, run: list[str]) -> list[str]:
    """Lets native code run a call of few tensors; where it does not, the lines of Python's way do."""
    inputs = [source for source in writer.sources if not isinstance(source, TensorSource)]
    few = len(inputs) <= MOST_ARGUMENTS and 0 < len(writer.executable.output_types) <= MOST_RESULTS
    plain = all(isinstance(source, DYNAMIC) for source in inputs) and _tensor_class(writer.program) is adopted()
    if not (few and plain and inputs):
        return run
    given = "".join([f"{writer.input_text(source)}, " for source in inputs])
    lines = [
        *as_graph(f"made = plan.run(({given})) if plan.run is not None else ()"),
        f"if made: {writer.outputs_text()} = made",
        "else:",
    ]
    return [*lines, *[f"    {line}" for line in ["# aot_prologue", *run]]]


def _tensor_class(program: Program) -> type:
    return type(program.outputs[0]) if program.outputs else Handle
