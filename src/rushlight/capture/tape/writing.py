"""The program of a backward pass: a Python function that calls steps and hooks in the tape's order.

The order is that of `autodiff.backward.walk`, which is run on names: what it would run or add is a line of text.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rushlight.autodiff.backward import walk
from rushlight.capture.code.effects import is_interchangeable, is_quiet
from rushlight.capture.tape.reading import Reading
from rushlight.capture.tape.steps import NativeStep, add
from rushlight.eager.autograd.accumulate import AccumulateGrad, accumulate, refuse_replacement
from rushlight.eager.autograd.node import Node, add_retained, fitting
from rushlight.eager.dispatch import STATE, refuse_in_graphs
from rushlight.eager.handle import Handle
from rushlight.support.frozen import frozen

Hook = Callable[..., object]
Load = Callable[[Reading], list[object]]
"""Arguments of a program: what it takes of a reading."""


class Tool:
    """A function of ours that programs call, which is no part of what they reach."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *args: object) -> object:
        """What the function gives."""
        return self._function(*args)


def _accumulated(variable: Handle, gradient: Handle) -> None:
    accumulate(variable, gradient, STATE.grad, False)


def _fitted(replaced: object, before: object, name: str) -> object:
    return fitting((replaced,), (before,), name)[0]


_ADD, _ACCUMULATE, _FIT_ONE, _FIT, _KEEP, _REFUSE = range(6)
_TOOLS = tuple(map(Tool, (add, _accumulated, _fitted, fitting, add_retained, refuse_replacement)))


@frozen(eq=False)
class Program:
    """A function for backward passes of one key, and what its arguments are. `dynamic` sizes are arguments."""

    function: Callable[..., Sequence[object]]
    loads: Sequence[Load]
    sizes: Sequence[int | None]
    text: str

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether the sizes that are fixed are these."""
        return all(fixed is None or fixed == size for fixed, size in zip(self.sizes, sizes, strict=True))

    def arguments(self, reading: Reading) -> list[object]:
        """The arguments for a pass. Errors: G001, G003."""
        return [argument for load in self.loads for argument in load(reading)]


def write(reading: Reading, dynamic: set[int], number: int) -> Program:
    """The program of a pass; sizes at the positions `dynamic` are arguments."""
    return _Writer(reading, dynamic).program(number)


class _Writer:
    def __init__(self, reading: Reading, dynamic: set[int]) -> None:
        self._reading = reading
        self._parts: list[object] = list(_TOOLS)
        self._loads: list[Load] = []
        self._parameters = 0
        self._names = 0
        self._lines: list[str] = []
        self._captured: dict[tuple[int, int], str] = {}
        self._sizes = [None if at in dynamic else size for at, size in enumerate(reading.sizes)]
        self._size_names: dict[int, str] = {}

    def program(self, number: int) -> Program:
        """The program."""
        reading = self._reading
        starts = self._loaded(lambda reading: [gradient for _, gradient in reading.roots])
        roots = [(edge, name) for (edge, _), name in zip(reading.roots, starts, strict=True)]
        walk(
            roots,
            self._run,
            self._add,
            prepare=self._prepare,
            targets=reading.targets,
            captured=self._capture,
            until_targets=reading.partial,
            merged=partial(_merged, reading.wanted()),
        )
        gradients = [self._captured.get((id(edge[0]), edge[1]), "None") for edge in reading.targets]
        if reading.inputs is not None:
            self._accumulate_in_inputs(gradients)
            gradients = []
        self._say(f"return ({''.join([f'{name}, ' for name in gradients])})")
        parameters = ", ".join([f"p{at}" for at in range(self._parameters)])
        body = "\n".join([f"        {line}" for line in self._lines])
        text = f"def bind(part):\n    def backward({parameters}):\n{body}\n    return backward\n"
        path = f"<compiled autograd {number}>"
        space: dict[str, Any] = {"__name__": "compiled_autograd"}
        exec(compile(text, path, "exec"), space)  # noqa: S102 - of text that is written here
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        function = space["bind"](tuple(self._parts))
        return Program(function, self._loads, self._sizes, text)

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _name(self) -> str:
        self._names += 1
        return f"g{self._names}"

    def _loaded(self, load: Load) -> list[str]:
        """Names of arguments that are loaded so."""
        count = len(load(self._reading))
        self._loads.append(load)
        self._parameters += count
        return [f"p{at}" for at in range(self._parameters - count, self._parameters)]

    def _hooks(self, load: Callable[[Reading], Sequence[Hook]]) -> list[str]:
        """Names of hooks: parts of the program, arguments, or arguments that graphs pass by."""
        names: list[str] = []
        for at, hook in enumerate(load(self._reading)):
            if not is_quiet(hook):
                names += self._loaded(partial(_passed, load, at))
            elif is_interchangeable(hook):
                names.append(self._part(hook))
            else:
                names += self._loaded(partial(_hook, load, at))
        return names

    def _part(self, value: object) -> str:
        self._parts.append(value)
        return f"part[{len(self._parts) - 1}]"

    def _size(self, at: int) -> str:
        if self._sizes[at] is not None:
            return str(self._sizes[at])
        if at not in self._size_names:
            (self._size_names[at],) = self._loaded(lambda reading: [reading.sizes[at]])
        return self._size_names[at]

    def _add(self, before: str, gradient: str) -> str:
        name = self._name()
        self._say(f"{name} = part[{_ADD}]({before}, {gradient})")
        return name

    def _capture(self, edge: Any, gradient: str | None) -> None:
        if gradient is not None:
            self._captured[id(edge[0]), edge[1]] = gradient

    def _prepare(self, node: Any, gradients: list[str | None], runs: bool) -> None:
        number, hooks, name = self._reading.numbers[id(node)], node.hooks(), node.name()
        calls = self._hooks(lambda reading: [hook for _, hook in reading.nodes[number].hooks().of_outputs])
        for (output, _), call in zip(hooks.of_outputs, calls, strict=True):
            gradient = gradients[output] if output < len(gradients) else None
            if gradient is not None:
                self._say(f"if {gradient} is not None:")
                self._say(f"    r = {call}({gradient})")
                self._say("    if r is not None:")
                self._say(f'        {gradient} = part[{_FIT_ONE}](r, {gradient}, "a tensor\'s hook")')
        kept = self._loaded(lambda reading: [tensor for _, tensor in reading.nodes[number].hooks().retained])
        for (output, _), tensor in zip(hooks.retained, kept, strict=True):
            gradient = gradients[output] if output < len(gradients) else None
            if gradient is not None:
                self._say(f"if {gradient} is not None:")
                self._say(f"    part[{_KEEP}]({tensor}, {gradient})")
        if runs or self._reading.inputs is not None:
            if hooks.before:
                self._named(gradients)
            for call in self._hooks(lambda reading: reading.nodes[number].hooks().before):
                self._replace(gradients, f"{call}({_tuple(gradients)})", name)

    def _named(self, gradients: list[str | None]) -> None:
        """Gives names to gradients that there are not: hooks may put others in their place."""
        for output, gradient in enumerate(gradients):
            if gradient is None:
                gradients[output] = name = self._name()
                self._say(f"{name} = None")

    def _replace(self, gradients: Sequence[str | None], call: str, name: str, indent: str = "") -> None:
        """Calls a hook on several gradients, which may replace them."""
        self._say(f"{indent}r = {call}")
        self._say(f"{indent}if r is not None:")
        target = f"{_tuple(gradients)} = " if gradients else ""
        self._say(f"{indent}    {target}part[{_FIT}](r, {_tuple(gradients)}, {name!r})")

    def _run(self, node: Any, gradients: list[str | None], begun: Mapping[int, str]) -> list[str]:
        if isinstance(node, AccumulateGrad):
            self._accumulate(node, gradients)
            return []
        reading = self._reading
        number = self._number_of(node)
        edges = node.edges
        waiting = f"({''.join([f'({position}, {name}), ' for position, name in begun.items()])})"
        results = [self._name() for _ in edges]
        kind = reading.kinds[number]
        given = _tuple(gradients)
        if kind is None:
            (step,) = self._loaded(partial(_native, number, node is not reading.nodes[number]))
            call = f"{step}({given}, {len(edges)}, {waiting})"
        else:
            values = _tuple(self._loaded(lambda reading: kind.values_of(reading.nodes[number])))
            sizes = _tuple([self._size(at) for at in reading.sizes_of(number)])
            step = kind(node)
            step.number = number
            call = f"{self._part(step)}({given}, {values}, {sizes}, {len(edges)}, {waiting})"
        self._say(f"{_tuple(results)} = {call}" if results else call)
        after = self._hooks(lambda reading: reading.nodes[number].hooks().after)
        for hook in after:
            self._say(f"if not ({' and '.join([f'{one} is None' for one in gradients if one])}):")
            self._replace(results, f"{hook}({_tuple(results)}, {given})", node.name(), "    ")
        return results

    def _number_of(self, node: Any) -> int:
        """The number of a node, or of the first of those that run as one."""
        number = self._reading.numbers.get(id(node))
        return self._reading.numbers[id(node.steps[0])] if number is None else number

    def _accumulate(self, node: AccumulateGrad, gradients: Sequence[str | None]) -> None:
        """Adds what has arrived to a leaf's gradient, and runs the hooks that come after that."""
        (gradient,) = gradients
        if gradient is None:
            return
        number = self._reading.numbers[id(node)]
        (variable,) = self._loaded(lambda reading: [_leaf(reading.nodes[number])])
        self._say(f"if {gradient} is not None:")
        self._say(f"    part[{_ACCUMULATE}]({variable}, {gradient})")
        for call in self._hooks(lambda reading: reading.nodes[number].hooks().accumulated):
            self._say(f"    part[{_REFUSE}]({call}({variable}))")
        for call in self._hooks(lambda reading: reading.nodes[number].hooks().after):
            self._replace([], f"{call}((), ({gradient},))", node.name(), "    ")

    def _accumulate_in_inputs(self, gradients: Sequence[str]) -> None:
        """Adds the gradients at the targets to those of the tensors there."""
        for at, ((node, _), gradient) in enumerate(zip(self._reading.targets, gradients, strict=True)):
            if gradient == "None":
                continue
            if isinstance(node, AccumulateGrad):
                self._accumulate(node, (gradient,))
                continue
            (variable,) = self._loaded(partial(_input, at))
            self._say(f"if {gradient} is not None:")
            self._say(f"    part[{_ACCUMULATE}]({variable}, {gradient})")


def _hook(load: Callable[[Reading], Sequence[Hook]], at: int, reading: Reading) -> list[object]:
    return [load(reading)[at]]


def _passed(load: Callable[[Reading], Sequence[Hook]], at: int, reading: Reading) -> list[object]:
    return [partial(_called, load(reading)[at])]


def _called(hook: Hook, *args: object) -> object:
    """What a hook gives that no interpreter looks into."""
    refuse_in_graphs(f"the hook {getattr(hook, '__qualname__', type(hook).__name__)}", "it does more than compute")
    return hook(*args)


def _tuple(names: Sequence[object]) -> str:
    return f"({''.join([f'{name}, ' for name in names])})"


def _merged(wanted: set[int], node: Any) -> Any:
    return node.merged(wanted)


def _native(number: int, merged: bool, reading: Reading) -> list[object]:
    """What runs a node as it is, or with those that follow."""
    node = reading.nodes[number]
    step = NativeStep(node.merged(reading.wanted()) if merged else node, reading.create_graph)
    return [partial(step)]  # which graphs pass by


def _leaf(node: Node) -> Handle:
    assert isinstance(node, AccumulateGrad), "gradients are added up at leaves"
    return node.variable


def _input(at: int, reading: Reading) -> list[object]:
    assert reading.inputs is not None
    return [reading.inputs[at]]
