"""Specifications of a function's arguments, which compilation without guards starts from.

    f32[B, T], i64[B], mask=bool[B, T] where 1 <= B <= 64, T % 8 == 0, hint B = 4

`ir.spec_text` has the grammar. What is compiled for a specification holds for all arguments that fit it and for no
others, so each call is checked against it, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from rushlight.ir.spec.check import Binding, Check
from rushlight.ir.spec.facts import assumed, binding_of
from rushlight.ir.spec.leaf import MAKERS, ConstSpec, FloatSpec, IntSpec, LeafSpec, TensorSpec
from rushlight.ir.spec.size import Assumption, ShapeExpr, ShapeVar, symbol_named
from rushlight.ir.spec.text import SpecReader
from rushlight.ir.type import CPU, TensorType
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.sym import Condition, Origin, OriginKind, Scope, Size, SizeExpr, ge, statically_known, substitute
from rushlight.sym.condition import normalized

_LEAVES = (TensorSpec, IntSpec, FloatSpec, ConstSpec)


@frozen(eq=False)
class OpenSpec:
    """A specification whose variables are symbols of a scope that knows the assumptions.

    `leaves` has for each leaf a TensorType, the symbol of an integer, the FloatSpec or the ConstSpec; `types` has the
    tensors' alone. `conditions` are the assumptions beyond bounds and divisors of single variables. `bindings` says
    where the values of all symbols but strides come from.
    """

    spec: ParamsSpec
    scope: Scope
    leaves: tuple[TensorType | SizeExpr | FloatSpec | ConstSpec, ...]
    types: tuple[TensorType, ...]
    symbols: Mapping[str, SizeExpr]
    conditions: tuple[Condition, ...]
    bindings: Mapping[SizeExpr, Binding]


class ParamsSpec:
    """The arguments of one function: specifications nested in tuples, lists and dicts as the arguments are.

    Numbers, text, bools and None stand for themselves (`ConstSpec`). `assumptions` are relations between variables, as
    objects or as text. `leaves` are the specifications in order, positional arguments first, and `paths` their names in
    messages; `variables` has what is assumed of each variable alone, `conditions` what else is assumed.

    Errors: C017 for malformed text, C018 for an unknown variable, C019 for contradictions, C020 for a variable whose
    value the arguments do not show.
    """

    __slots__ = ("_check", "_text", "args", "bindings", "conditions", "kwargs", "leaves", "paths", "variables")

    args: tuple[object, ...]
    kwargs: Mapping[str, Any]
    leaves: tuple[LeafSpec, ...]
    paths: tuple[str, ...]
    variables: Mapping[str, ShapeVar]
    conditions: tuple[Condition, ...]
    bindings: Mapping[str, Binding]

    def __init__(self, *args: object, assumptions: Iterable[Assumption | str] = (), **kwargs: Any) -> None:
        self.args = tuple([_nested(arg) for arg in args])
        self.kwargs = {name: _nested(kwarg) for name, kwarg in kwargs.items()}
        named = [(f"argument {position}", arg) for position, arg in enumerate(self.args)]
        rows = [row for path, argument in (*named, *self.kwargs.items()) for row in _leaves(argument, path)]
        self.paths = tuple([path for path, _ in rows])
        self.leaves = tuple([leaf for _, leaf in rows])
        facts = [fact for assumption in assumptions for fact in _facts_of(assumption)]
        self.variables, self.conditions = assumed(self.leaves, facts)
        self.bindings = {name: binding_of(name, self.leaves) for name in self.variables}
        self._check = Check(self.leaves, self.paths, self.variables, self.bindings, self.conditions)
        self._text = _text(self)

    @staticmethod
    def parse(text: str) -> ParamsSpec:
        """The specification that `text` denotes: `f32[B, T], mask=bool[B, T] where 1 <= B <= 64, T % 8 == 0`."""
        specification = SpecReader(text, MAKERS).specification()
        return ParamsSpec(*specification.args, assumptions=specification.assumptions, **specification.kwargs)

    def open(self, scope: Scope | None = None, examples: Mapping[str, int] = MappingProxyType({})) -> OpenSpec:
        """Symbols for the variables, in `scope` or a new one, which learns what is assumed of them.

        Those with `examples` are backed: a trace may ask about them, and guards what it was told.
        """
        return _Opening(self, Scope() if scope is None else scope, examples).result()

    def arguments(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Any]:
        """The leaves of a call's arguments, in the order of `leaves`; C022 if they are nested in another way."""
        _require_same(len(args) == len(self.args), "the call", f"{len(self.args)} positional arguments", len(args))
        _require_same(set(kwargs) == set(self.kwargs), "the call", f"keywords {list(self.kwargs)}", list(kwargs))
        leaves: list[Any] = []
        for position, arg in enumerate(self.args):
            _flatten(arg, args[position], f"argument {position}", leaves)
        for name, arg in self.kwargs.items():
            _flatten(arg, kwargs[name], name, leaves)
        return leaves

    def fits(self, leaves: Sequence[object]) -> bool:
        """Whether a call fits; `leaves` as for `violation`."""
        return self._check.fits(leaves)

    def violation(self, leaves: Sequence[object]) -> str | None:
        """Names the first value of a call that breaks an assumption, and the assumption; else None.

        `leaves` are those of the call in order: types or forms of tensors, integers, floats, and values held fixed.
        """
        return None if self._check.fits(leaves) else self._check.explain(leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParamsSpec) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"ParamsSpec.parse({self._text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ParamsSpec.parse, (self._text,)


def _nested(argument: Any) -> object:
    if isinstance(argument, _LEAVES):
        return argument
    if type(argument) in (tuple, list):
        return type(argument)([_nested(part) for part in argument])
    if type(argument) is dict:
        return {key: _nested(part) for key, part in cast(dict[object, object], argument).items()}
    plain = argument is None or isinstance(argument, bool | int | float | str)
    hint = "hold a value fixed with ConstSpec"
    require(plain, "A001", f"ParamsSpec: {type(argument).__name__} specifies no argument", hint=hint)
    return ConstSpec(argument)


def _leaves(argument: Any, path: str) -> Iterator[tuple[str, LeafSpec]]:
    if isinstance(argument, _LEAVES):
        yield path, argument
        return
    for key, part in argument.items() if isinstance(argument, dict) else enumerate(argument):
        yield from _leaves(part, f"{path}[{key!r}]")


def _flatten(spec: Any, value: Any, path: str, leaves: list[Any]) -> None:
    if isinstance(spec, _LEAVES):
        leaves.append(value)
        return
    _require_same(type(value) is type(spec), path, f"a {type(spec).__name__}", type(value).__name__)
    if isinstance(spec, dict):
        _require_same(set(value) == set(spec), path, f"keys {list(spec)}", list(value))
    else:
        _require_same(len(value) == len(spec), path, f"{len(spec)} entries", len(value))
    for key, part in spec.items() if isinstance(spec, dict) else enumerate(spec):
        _flatten(part, value[key], f"{path}[{key!r}]", leaves)


def _require_same(same: bool, path: str, wanted: str, actual: object) -> None:
    require(same, "C022", f"spec: {path} has {actual} where the specification has {wanted}")


def _facts_of(fact: Assumption | str) -> list[Assumption]:
    if isinstance(fact, str):
        reader = SpecReader(fact, MAKERS)
        facts = reader.facts()
        reader.finish()
        return facts
    if not isinstance(fact, Assumption):
        fail("A001", f"ParamsSpec: {fact!r} is no assumption", hint="compare expressions of ShapeVars, or write text")
    return [fact]


def _text(spec: ParamsSpec) -> str:
    arguments = [_item_text(arg) for arg in spec.args]
    arguments += [f"{name}={_item_text(kwarg)}" for name, kwarg in spec.kwargs.items()]
    in_shapes = {variable.name for leaf in spec.leaves if isinstance(leaf, TensorSpec) for variable in leaf.variables}
    facts: list[str] = []
    for name, variable in spec.variables.items():
        facts.extend(_facts_text(variable, 0 if name in in_shapes else None))
    facts += [str(condition) for condition in spec.conditions]
    facts += [
        f"hint {name} = {shape_var.hint}" for name, shape_var in spec.variables.items() if shape_var.hint is not None
    ]
    return ", ".join(arguments) + (f" where {', '.join(facts)}" if facts else "")


def _facts_text(variable: ShapeVar, usual: int | None) -> list[str]:
    name, lower, upper, step, _ = variable.facts
    said: list[str] = []
    if lower is not None and lower == upper:
        said.append(f"{name} == {lower}")
    elif upper is not None:
        said.append(f"{name} <= {upper}" if lower == usual else f"{lower} <= {name} <= {upper}")
    elif lower != usual:
        said.append(f"{name} >= {lower}")
    return [*said, f"{name} % {step} == 0"] if step > 1 else said


def _item_text(argument: object) -> str:
    if isinstance(argument, tuple):
        parts = [_item_text(part) for part in cast(tuple[object, ...], argument)]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if isinstance(argument, list):
        return f"[{', '.join([_item_text(part) for part in cast(list[object], argument)])}]"
    if isinstance(argument, dict):
        items = cast(dict[object, object], argument).items()
        return f"{{{', '.join([f'{_key_text(key)}: {_item_text(part)}' for key, part in items])}}}"
    return str(argument)


def _key_text(key: object) -> str:
    return key if isinstance(key, str) and key.isidentifier() and key.isascii() else repr(key)


class _Opening:
    """One specification being given symbols of a scope."""

    def __init__(self, spec: ParamsSpec, scope: Scope, examples: Mapping[str, int]) -> None:
        self.spec = spec
        self.scope = scope
        self.examples = examples
        self.bindings: dict[SizeExpr, Binding] = {}
        self.symbols = {name: self._named(variable) for name, variable in spec.variables.items()}
        self.images: dict[SizeExpr, Size] = {symbol_named(name): symbol for name, symbol in self.symbols.items()}

    def result(self) -> OpenSpec:
        """The leaves' types, and the scope with what is assumed of its symbols."""
        leaves = tuple([self._leaf(number, leaf) for number, leaf in enumerate(self.spec.leaves)])
        types = tuple([leaf for leaf in leaves if isinstance(leaf, TensorType)])
        for size in [size for type_ in types for size in type_.shape]:
            self._learn(ge(size, 0))
        conditions = [self._image(condition) for condition in self.spec.conditions]
        for element in conditions:
            self._learn(element)
        stated = tuple([condition for condition in conditions if isinstance(condition, Condition)])
        return OpenSpec(self.spec, self.scope, leaves, types, self.symbols, stated, self.bindings)

    def _named(self, variable: ShapeVar) -> SizeExpr:
        name, lower, upper, step, hint = variable.facts
        free = None if name in self.scope.symbols else name
        location = self._place(self.spec.bindings[name])
        origin = Origin(f"{location} in {self.spec}", OriginKind.SPECIFIED, None, name)
        symbol = self.scope.symbol(free, self.examples.get(name), lower, upper, step, origin, hint)
        self.bindings[symbol] = self.spec.bindings[name]
        return symbol

    def _place(self, binding: Binding) -> str:
        path = self.spec.paths[binding.leaf]
        location = path if binding.dim is None else f"dim {binding.dim} of {path}"
        return location if (binding.scale, binding.offset) == (1, 0) else f"worked out from {location}"

    def _unnamed(self, number: int, dim: int | None) -> SizeExpr:
        binding = Binding(number, dim)
        origin = Origin(f"{self._place(binding)} in {self.spec}")
        symbol = self.scope.symbol(lower=None if dim is None else 0, source=origin)
        self.bindings[symbol] = binding
        return symbol

    def _leaf(self, number: int, leaf: LeafSpec) -> TensorType | SizeExpr | FloatSpec | ConstSpec:
        if isinstance(leaf, IntSpec):
            return self._unnamed(number, None) if leaf.variable is None else self.symbols[leaf.variable.name]
        if not isinstance(leaf, TensorSpec):
            return leaf
        shape = tuple([self._size(number, dim, size) for dim, size in enumerate(leaf.shape)])
        strides = None if leaf.strides == "contiguous" else self._strides(number, len(shape))
        return TensorType(shape, leaf.dtype, CPU, strides)

    def _size(self, number: int, dim: int, size: int | ShapeExpr | None) -> Size:
        if size is None:
            return self._unnamed(number, dim)
        return substitute(size.size, self.images) if isinstance(size, ShapeExpr) else size

    def _strides(self, number: int, rank: int) -> tuple[Size, ...]:
        source = f"of {self.spec.paths[number]} in {self.spec}"
        return tuple([self.scope.symbol(lower=0, source=Origin(f"stride {dim} {source}")) for dim in range(rank)])

    def _image(self, condition: Condition) -> bool | Condition:
        return normalized(condition.relation, substitute(condition.expr, self.images))

    def _learn(self, fact: bool | Condition) -> None:
        denied = not fact if isinstance(fact, bool) else statically_known(fact.negate())
        require(not denied, "C019", "spec: the assumptions contradict each other", specification=str(self.spec))
        if isinstance(fact, Condition) and not statically_known(fact):
            self.scope.learn(fact)
