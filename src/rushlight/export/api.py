"""`export`: a function or module as one graph; `save` and `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from rushlight.capture import CompiledFunction, CompiledModule
from rushlight.capture.program import Program
from rushlight.capture.source import ArgumentSource, NumberSource, TensorSource
from rushlight.capture.values import Constant, Container, Made, Output, Template
from rushlight.data.checkpoint import load as load_tensors
from rushlight.data.checkpoint import save_structure as save_tensors
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.export.dynamic_shapes import argument_names, specification
from rushlight.export.expression import names_in
from rushlight.export.inputs import Input, State
from rushlight.export.naming import SEED, ordinal_of
from rushlight.export.parse import parse_program
from rushlight.export.program import ExportedProgram
from rushlight.export.trace import Tracing
from rushlight.ir.graph import Graph
from rushlight.ir.spec.specification import OpenSpec, ParamsSpec
from rushlight.nn import Module
from rushlight.runtime.generator import default_generator
from rushlight.support import garbage, profiling
from rushlight.support.errors import fail, require

_FORMAT = "rushlight.export"


def export(
    mod: object,
    args: tuple[object, ...] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    dynamic_shapes: str | ParamsSpec | Mapping[str, object] | Sequence[object] | None = None,
    strict: bool = False,
) -> ExportedProgram:
    """The graph of a function or module, for all arguments that fit a specification.

    It holds the operators that the function calls on arguments like `args` and `kwargs`: before autograd, so that
    gradients flow through it as they did, and with control flow (`rl.cond` and others) as single calls.

    `dynamic_shapes` is a specification (`rushlight.shapes`) as text or object, or PyTorch's form: by the arguments'
    names, or in their order, what their dims are: `{"x": {0: Dim("batch", max=64)}}`. Dims that such a form leaves out
    are those of the example. Without it every size, and every number, is open as far as the function allows: what it
    asks of them when it is run on the example becomes part of the specification, which says what came of it
    (`program.spec`). What a specification does not decide the function may not ask (C002, C011).

    The function may write to its arguments, parameters and buffers; other side effects are C034, and what ends a graph
    of `rl.compile` is an error (C002, C003, C039). `strict` is taken for PyTorch's sake: capture is always of the whole
    function, by its bytecode.
    """
    function = mod
    if isinstance(mod, CompiledModule):
        function = mod._orig_mod
    elif isinstance(mod, CompiledFunction):
        function = mod.function
    if not callable(function):
        fail("A001", "export: this cannot be called", value=type(mod).__name__)
    require(isinstance(args, tuple), "A001", "export: args is a tuple", args=type(args).__name__, hint="write (x,)")
    named = dict(kwargs or {})
    names = argument_names(function, args)
    given = specification(names, args, named, dynamic_shapes)
    with profiling.profiled("export"), garbage.uncollected():
        state = _State(function)
        program, opened = Tracing(function, args, named).traced(given)
        return _Maker(program, opened, state, names).made()


def save(
    ep: ExportedProgram, f: str | os.PathLike[str] | BinaryIO, *, extra_files: Mapping[str, str] | None = None
) -> None:
    """Write a program to one safetensors file: its text is in the file's metadata. Nothing is pickled.

    `extra_files` are texts by name that go along.
    """
    state = ep.state
    entries = {"text": str(ep), "tensors": dict(state.tensors), "constants": dict(state.constants)}
    extra = {"extra": dict(extra_files)} if extra_files else {}
    save_tensors({"format": _FORMAT, **entries, **extra}, f)


def load(f: str | os.PathLike[str] | BinaryIO, *, extra_files: dict[str, str] | None = None) -> ExportedProgram:
    """Read a program that `save` wrote. P005 where the file holds something else.

    The texts that `extra_files` names are put into it, as far as the file has them. Custom operators that the program
    calls must be defined before (C009).
    """
    contents = load_tensors(f)
    is_program = isinstance(contents, dict) and contents.get("format") == _FORMAT
    require(is_program, "P005", "export.load: the file holds no exported program")
    text, tensors, constants = contents.get("text"), contents.get("tensors"), contents.get("constants")
    if not (isinstance(text, str) and isinstance(tensors, dict) and isinstance(constants, dict)):
        fail("P002", "export.load: the file's structure is damaged", parts=list(contents))
    if extra_files is not None:
        extra = contents.get("extra", {})
        readable = isinstance(extra, dict) and all(isinstance(one, str) for one in extra.values())
        require(readable, "P002", "export.load: the file's structure is damaged", parts=["extra"])
        extra_files.update({name: extra[name] for name in extra_files if name in extra})
    return parse_program(text, tensors, constants)


class _State:
    """The tensors of a module by name; a function has none."""

    def __init__(self, function: object) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.kinds: dict[str, str] = {}
        self.ties: dict[str, str] = {}
        self.names: dict[int, str] = {}
        if isinstance(function, Module):
            for kind, pairs in (
                ("parameter", function.named_parameters(remove_duplicate=False)),
                ("buffer", function.named_buffers(remove_duplicate=False)),
            ):
                for name, tensor in pairs:
                    self._add(name, tensor, kind)
            kept = function.state_dict()
            self.kinds = {name: kind if name in kept else "volatile" for name, kind in self.kinds.items()}

    def _add(self, name: str, tensor: Tensor, kind: str) -> None:
        first = self.names.setdefault(id(tensor), name)
        if first != name:
            self.ties[name] = first
        else:
            self.tensors[name], self.kinds[name] = tensor, kind


class _Maker:
    """Makes an exported program of a trace."""

    def __init__(self, program: Program, opened: OpenSpec, state: _State, names: tuple[str, ...]) -> None:
        self.program = program
        self.opened = opened
        self.state = state
        self.names = names
        self.constants: dict[str, Tensor] = {}

    def made(self) -> ExportedProgram:
        """The program."""
        self._refuse_effects()
        pairs = zip(self.program.graph.parameters, self.program.inputs.sources, strict=True)
        inputs = [self._input(call.attr("name"), source) for call, source in pairs]
        graph, result = _without_unused_outputs(self.program.graph, self.program.result)
        constants = {name: tensor.detach() for name, tensor in self.constants.items()}
        state = State(self.state.tensors, self.state.kinds, self.state.ties, constants)
        draws = sum(self.program.effects.draws.values())
        return ExportedProgram(graph, self.opened, self.names, inputs, result, draws, state)

    def _refuse_effects(self) -> None:
        program = self.program
        hint = "return what it computes instead"
        for effect in program.effects.entries:
            fail("C034", f"export: the function changes {effect.path}", hint=hint)
        require(not program.effects.gradients, "C034", "export: the function changes gradients", hint=hint)
        others = [draw for draw in program.effects.draws if draw is not default_generator]
        require(
            not others, "C034", "export: the function draws from a generator of its own", hint="use the default one"
        )

    def _input(self, name: str, source: object) -> Input:
        if isinstance(source, ArgumentSource):
            return Input("argument", name, source.position)
        if isinstance(source, TensorSource):
            return self._tensor(name, source.tensor)
        if not isinstance(source, NumberSource):
            fail("C034", "export: the function reads a gradient", hint="pass it as an argument")
        if source.text == SEED:
            return Input("seed", name, 0)
        ordinal = ordinal_of(source.text)
        if ordinal is not None:
            return Input("ordinal", name, ordinal)
        leaves = {f"a{position}" for position in range(len(self.opened.leaves))}
        fits = names_in(source.text) <= leaves
        require(
            fits, "C034", "export: a number of an object would have to be looked up at each call", number=source.text
        )
        return Input("number", name, source.text)

    def _tensor(self, name: str, tensor: Handle) -> Input:
        result = self.state.names.get(id(tensor))
        if result is not None:
            return Input("parameter" if self.state.kinds[result] == "parameter" else "buffer", name, result)
        assert isinstance(tensor, Tensor)
        self.constants[name] = tensor
        return Input("constant", name, name)


def _without_unused_outputs(graph: Graph, result: Template) -> tuple[Graph, Template]:
    """The graph with the outputs that the result is made of, in that order."""
    order: list[int] = []

    def renamed(template: Template) -> Template:
        if isinstance(template, Output):
            if template.place not in order:
                order.append(template.place)
            return Output(order.index(template.place))
        if isinstance(template, Container):
            plain = template.kind in (tuple, list, dict)
            hint = "return tensors, numbers and text, in tuples, lists and dicts"
            require(plain, "C034", f"export: a result is a {template.kind.__name__}", hint=hint)
            return replace(template, items=tuple([renamed(part) for part in template.items]))
        if isinstance(template, Made):
            fail("C034", "export: a result is a sparse tensor", hint="return x.to_dense()")
        if isinstance(template, Constant):
            plain = template.value is None or isinstance(template.value, (bool, int, float, str))
            hint = "return tensors, numbers and text, in tuples, lists and dicts"
            require(plain, "C034", f"export: a result is a {type(template.value).__name__}", hint=hint)
        return template

    template = renamed(result)
    return replace(graph, outputs=tuple([graph.outputs[position] for position in order])), template
