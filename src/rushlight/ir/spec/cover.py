"""Whether several specifications take, between them, every call that one specification allows."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.ir.spec.check import Binding
from rushlight.ir.spec.facts import own_facts
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, LeafSpec, TensorSpec
from rushlight.ir.spec.size import ShapeExpr, symbol_named
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.support.errors import fail
from rushlight.sym import Condition, Scope, Size, SizeExpr, eq, floordiv, substitute
from rushlight.sym.condition import condition
from rushlight.sym.coverage import uncovered

Fact = bool | Condition
_Places = dict[tuple[int, int | None], Size]  # sizes of tensors by leaf and dim, and integers


def coverage_hole(domain: ParamsSpec, parts: Sequence[ParamsSpec]) -> dict[str, int] | None:
    """Variable values in the domain that no part accepts, or None if the parts cover the domain.

    Names of variables belong to one specification: sizes are matched by argument and dim, and dims without a name are
    called by that position. Errors: C023 where that is too hard to decide.
    """
    places = _places(domain)
    shape = _shape(domain)
    fitting = [part for part in parts if _shape(part) == shape and _takes_kinds(domain, part)]
    point = uncovered(_facts(domain, places), [_facts(part, places) for part in fitting])
    if point is None:
        return None
    hole: dict[str, int] = {}
    for name, binding in domain.bindings.items():
        hole[name] = binding.value(_value(places[binding.leaf, binding.dim], point))
    for (leaf, dim), size in places.items():
        if _form(domain.leaves[leaf], dim) is None:
            path = domain.paths[leaf]
            hole[path if dim is None else f"dim {dim} of {path}"] = _value(size, point)
    return hole


def require_coverage(domain: ParamsSpec, parts: Sequence[ParamsSpec]) -> None:
    """C021 with sizes that no part takes, unless every call in the domain fits some part."""
    hole = coverage_hole(domain, parts)
    if hole is None:
        return
    said = ", ".join([f"{name} = {value}" for name, value in hole.items()]) or "any call"
    texts = {f"specification {position}": str(part) for position, part in enumerate(parts)}
    values: dict[str, object] = {"domain": str(domain), **texts}
    fail("C021", f"spec: no specification takes {said}", hint=None, frame=None, **values)


def _shape(spec: ParamsSpec) -> object:
    """How the arguments are nested, and the names of keywords."""
    return spec.paths, _nesting(spec.args), {name: _nesting(kwarg) for name, kwarg in spec.kwargs.items()}


def _nesting(argument: object) -> object:
    if isinstance(argument, tuple | list):
        return type(argument), [_nesting(part) for part in argument]
    return {key: _nesting(part) for key, part in argument.items()} if isinstance(argument, dict) else None


def _takes_kinds(domain: ParamsSpec, part: ParamsSpec) -> bool:
    """Whether the part takes the domain's dtypes, ranks, strides and values, sizes and integers aside."""
    return all(_takes(part_leaf, leaf) for leaf, part_leaf in zip(domain.leaves, part.leaves, strict=True))


def _takes(part: LeafSpec, leaf: LeafSpec) -> bool:
    if isinstance(leaf, TensorSpec):
        if not isinstance(part, TensorSpec) or part.dtype is not leaf.dtype or len(part.shape) != len(leaf.shape):
            return False
        return part.strides == "any" or leaf.strides == "contiguous"
    if isinstance(leaf, FloatSpec) or (isinstance(leaf, ConstSpec) and type(leaf.value) is float):
        return isinstance(part, FloatSpec) or part == leaf
    return _is_integer(part) if _is_integer(leaf) else part == leaf


def _is_integer(leaf: LeafSpec) -> bool:
    return isinstance(leaf, IntSpec) or (isinstance(leaf, ConstSpec) and type(leaf.value) is int)


def _places(spec: ParamsSpec) -> _Places:
    """A symbol for each size and each integer."""
    scope = Scope()
    places: _Places = {}
    for number, leaf in enumerate(spec.leaves):
        if isinstance(leaf, TensorSpec):
            for dim in range(len(leaf.shape)):
                places[number, dim] = scope.symbol(lower=0)
        elif _is_integer(leaf):
            places[number, None] = scope.symbol(lower=None)
    return places


def _form(leaf: LeafSpec, dim: int | None) -> Size | None:
    """What a specification has at a place."""
    if isinstance(leaf, ConstSpec):
        return int(leaf.value)
    if isinstance(leaf, IntSpec):
        return None if leaf.variable is None else leaf.variable.size
    size = leaf.shape[dim] if isinstance(leaf, TensorSpec) and dim is not None else None
    return size.size if isinstance(size, ShapeExpr) else size


def _facts(spec: ParamsSpec, places: _Places) -> list[Fact]:
    """What a specification says of the places, its variables being worked out from them as in a call."""
    images: dict[SizeExpr, Size] = {}
    facts: list[Fact] = []
    for name, binding in spec.bindings.items():
        images[symbol_named(name)] = image = _read(binding, places[binding.leaf, binding.dim])
        facts.extend(own_facts(spec.variables[name], image))
    for (leaf, dim), size in places.items():
        form = _form(spec.leaves[leaf], dim)
        facts.append(True if form is None else eq(size, substitute(form, images)))
    facts.extend(
        [condition(assumption.relation, substitute(assumption.expr, images)) for assumption in spec.conditions]
    )
    return facts


def _read(binding: Binding, size: Size) -> Size:
    sign = 1 if binding.scale > 0 else -1
    return floordiv((size - binding.offset) * sign, binding.scale * sign)


def _value(size: Size, point: dict[SizeExpr, int]) -> int:
    return size if isinstance(size, int) else point.get(size, 0)
