"""ExportedModule: an exported program as a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.capture.source import ArgumentSource
from rushlight.capture.values import Constant, Container, InputRef, Number, Output, SizeOf, Template
from rushlight.eager.composite.replaying import Interpreter, bind
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import Handle
from rushlight.eager.random import random_state
from rushlight.eager.symbols import SymBool, holds, unwrap_size, wrap_size
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.eager.tracing import TracedNumber
from rushlight.export.expression import evaluated
from rushlight.export.naming import kinds_of
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec
from rushlight.ir.spec.specification import OpenSpec
from rushlight.ir.type import TensorType
from rushlight.nn import Module
from rushlight.support.errors import fail
from rushlight.support.provenance import replayed
from rushlight.sym import Condition, Size, SizeExpr, eq, floordiv, ge, le, mod, substitute
from rushlight.sym.condition import normalized

if TYPE_CHECKING:
    from rushlight.export.parts import Parts


class ExportedModule(Module):
    """Runs an exported program. Parameters and buffers keep their names in the original module.

    Gradients flow as they did there. Compiled, or exported again, it is traced call by call, under the user's lines.
    """

    def __init__(self, program: Parts) -> None:
        super().__init__()
        self.program = program
        self.argument_names = program.names
        self._constants = dict(program.state.constants)
        self.answers: dict[int, Callable[[tuple[Any, ...]], Any]] = {}
        self._places: dict[str, tuple[Module, str] | None] = {}
        for name, tensor in program.state.tensors.items():
            owner, key = self._owner(name)
            kind = program.state.kinds[name]
            if kind == "parameter":
                assert isinstance(tensor, Parameter)
                owner.register_parameter(key, tensor)
            else:
                owner.register_buffer(key, tensor, persistent=kind == "buffer")
            self._places[name] = owner, key
        for name, other in program.state.ties.items():
            owner, key = self._owner(name)
            setattr(owner, key, program.state.tensors[other])

    def withhold(self, name: str) -> Tensor:
        """Take a parameter or buffer out, and return it: all calls that read it have answers of their own.

        `answers` says, by identity of a call of the graph, what gives its value in place of the operator.
        """
        place = self._places[name]
        assert place is not None
        self._places[name] = None
        return getattr(*place)

    def _owner(self, name: str) -> tuple[Module, str]:
        """The submodule that owns a tensor of this name, made on demand, and the tensor's name there."""
        owner: Any = self
        *path, key = name.split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        return owner, key

    def forward(self, *args: object, **kwargs: object) -> object:
        """Run the program. C022 where the arguments do not fit it, R002 where a check fails."""
        program = self.program
        leaves = program.spec.arguments(args, kwargs)
        sizes = _bound(program.opened, leaves)
        names = {f"a{index}": leaf for index, leaf in enumerate(leaves)}
        feed = self._feed(leaves, names)
        run = Interpreter(sizes, program.checks, self.answers)
        values = run.run(program.graph, feed)
        for position, value in program.graph.mutations:
            own = program.inputs[position].kind != "argument"
            with replayed(value.frames), Scope(grad=STATE.grad and not own):
                feed[position].copy_(values[id(value)])
        outputs = [values[id(call)] for call in program.graph.outputs]
        return _Built(outputs, leaves, names, run).value(program.result)

    def _feed(self, leaves: Sequence[object], names: Mapping[str, object]) -> list[Any]:
        """What feeds the inputs of the graph."""
        values: list[Any] = []
        draws = _Draws(self.program)
        for source in self.program.inputs:
            if source.kind == "argument":
                values.append(leaves[int(source.target)])
            elif source.kind == "constant":
                values.append(self._constants[str(source.target)])
            elif source.kind in ("parameter", "buffer"):
                place = self._places[str(source.target)]
                values.append(None if place is None else getattr(*place))
            elif source.kind == "number":
                values.append(evaluated(str(source.target), names))
            else:
                values.append(draws.seed if source.kind == "seed" else draws.ordinals[int(source.target)])
        return values

    def extra_repr(self) -> str:
        """The constraints on arguments."""
        return str(self.program.spec)


class _Draws:
    """The seed and the ordinals of a run's random calls, as many as the program draws."""

    def __init__(self, program: Parts) -> None:
        starts = sorted({int(input_.target) for input_ in program.inputs if input_.kind == "ordinal"})
        self.seed: object = None
        self.ordinals: dict[int, object] = {}
        if not program.draws:
            return
        if starts[:1] != [0]:
            random_state(None, starts[0] if starts else program.draws)
        for start, end in zip(starts, [*starts[1:], program.draws], strict=True):
            self.seed, self.ordinals[start] = random_state(None, end - start)


class _Built:
    """Builds a result."""

    def __init__(
        self, outputs: Sequence[object], leaves: Sequence[object], names: Mapping[str, object], run: Interpreter
    ) -> None:
        self.outputs = outputs
        self.leaves = leaves
        self.names = names
        self.run = run

    def value(self, template: Template) -> object:
        """The value of a template."""
        if isinstance(template, Output):
            return self.outputs[template.place]
        if isinstance(template, InputRef):
            assert isinstance(template.source, ArgumentSource)
            return self.leaves[template.source.position]
        if isinstance(template, Number):
            return evaluated(template.text, self.names)
        if isinstance(template, SizeOf):
            return wrap_size(self.run.size(template.expr))
        if isinstance(template, Constant):
            return template.value
        assert isinstance(template, Container)
        parts = [self.value(element) for element in template.items]
        return dict(zip(template.keys, parts, strict=True)) if template.kind is dict else template.kind(parts)


def _bound(opened: OpenSpec, leaves: Sequence[Any]) -> dict[SizeExpr, Size]:
    """The values of a specification's symbols for the leaves of a call; C022 where these do not fit it."""
    if STATE.tracer is None:
        reason = opened.spec.violation(kinds_of(leaves))
        if reason is not None:
            _refuse(opened, reason)
    sizes: dict[SizeExpr, Size] = {}
    for symbol, binding in opened.bindings.items():
        leaf = leaves[binding.leaf]
        size = _integer(leaf) if binding.dim is None else leaf.form.type.shape[binding.dim]
        sizes[symbol] = binding.value(size) if isinstance(size, int) else _divided(size - binding.offset, binding.scale)
    for type_, leaf in zip(opened.leaves, leaves, strict=True):
        if isinstance(type_, TensorType):
            bind(type_, leaf, sizes)
    if STATE.tracer is not None:
        _require_fit(opened, leaves, sizes)
    return sizes


def _divided(size: Size, scale: int) -> Size:
    return size if scale == 1 else floordiv(size, scale)


def _integer(leaf: object) -> Size:
    return leaf.size() if isinstance(leaf, TracedNumber) else unwrap_size(leaf)


def _require_fit(opened: OpenSpec, leaves: Sequence[Any], sizes: Mapping[SizeExpr, Size]) -> None:
    """Makes the program that is being traced rely on what the specification says."""
    wanted: list[bool | Condition] = []
    for position, (type_, leaf) in enumerate(zip(opened.leaves, leaves, strict=True)):
        if isinstance(type_, TensorType):
            form = leaf.form if isinstance(leaf, Handle) else None
            same = form is not None and form.dtype is type_.dtype and len(form.type.shape) == len(type_.shape)
            if not same:
                _refuse(opened, f"{opened.spec.paths[position]} is {leaf!r}")
            pairs = zip(type_.shape, leaf.form.type.shape, strict=True)
            wanted += [eq(substitute(size, sizes), result) for size, result in pairs]
        elif isinstance(type_, ConstSpec):
            value = leaf.item() if isinstance(leaf, TracedNumber) else leaf
            if not type_.takes(value):
                _refuse(opened, f"{opened.spec.paths[position]} is {value!r}")
        else:
            number = isinstance(leaf, TracedNumber) or unwrap_size(leaf) is not leaf
            kind = float if isinstance(type_, FloatSpec) else int
            if not (number or type(leaf) is kind):
                _refuse(opened, f"{opened.spec.paths[position]} is {leaf!r}")
    for symbol in opened.symbols.values():
        value, facts = sizes[symbol], symbol.facts
        wanted += [] if facts.lower is None else [ge(value, facts.lower)]
        wanted += [] if facts.upper is None else [le(value, facts.upper)]
        wanted += [] if facts.multiple_of == 1 else [eq(mod(value, facts.multiple_of), 0)]
    wanted += [normalized(fact.relation, substitute(fact.expr, sizes)) for fact in opened.conditions]
    for condition in wanted:
        if not holds(SymBool(condition), f"the arguments fit {opened.spec}"):
            _refuse(opened, f"not {condition}")


def _refuse(opened: OpenSpec, reason: str | None) -> NoReturn:
    fail("C022", f"the call does not fit what was exported, {opened.spec}: {reason}")
