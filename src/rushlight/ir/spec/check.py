"""Whether the arguments of a call fit a specification: fast where they do, with the reason where they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, LeafSpec, TensorSpec
from rushlight.ir.spec.size import ShapeExpr, ShapeVar, symbol_named
from rushlight.support.frozen import frozen
from rushlight.sym import Condition, Size, SizeExpr, evaluate, format_size, free_symbols, is_symbol
from rushlight.sym.condition import compares
from rushlight.sym.expr import FLOORDIV, constant_of, terms

_Value = Callable[[Sequence[int]], int]
_NOTHING = ()


@frozen
class Binding:
    """Where a variable's value comes from: size `dim` of leaf `leaf`, or an integer leaf itself where `dim` is None.

    What is found there is scale*value + offset.
    """

    leaf: int
    dim: int | None
    scale: int = 1
    offset: int = 0

    def value(self, actual: int) -> int:
        """The variable's value, given what is found at the place; exact for what fits."""
        return (actual - self.offset) // self.scale


class Check:
    """The check of one specification, prepared once.

    Sizes of tensors and integers are laid out one after the other as they are met; `_places` says what is where.
    """

    def __init__(
        self,
        leaves: Sequence[LeafSpec],
        paths: Sequence[str],
        variables: Mapping[str, ShapeVar],
        bindings: Mapping[str, Binding],
        conditions: Sequence[Condition],
    ) -> None:
        self._leaves = leaves
        self._paths = paths
        self._variables = variables
        self._conditions = conditions
        self._rows = [_row(leaf) for leaf in leaves]
        self._places = _places(leaves)
        self._bound = {name: self._places.index((binding.leaf, binding.dim)) for name, binding in bindings.items()}
        self._values = {symbol_named(name): self._value(name, binding) for name, binding in bindings.items()}
        self._forms = [self._form(position) for position in self._places]
        fixed = [position for position, form in enumerate(self._forms) if isinstance(form, int)]
        self._fixed = itemgetter(*fixed) if fixed else _nothing
        self._constants = self._fixed(self._forms)
        again = [position for position, form in enumerate(self._forms) if self._first(form) not in (None, position)]
        self._again = itemgetter(*again) if again else _nothing
        self._before = itemgetter(*[self._first(self._forms[position]) for position in again]) if again else _nothing
        self._ranges = [
            (self._values[symbol_named(name)], *variable.facts[1:4]) for name, variable in variables.items()
        ]
        self._derived = [
            (position, self._compiled(form))
            for position, form in enumerate(self._forms)
            if isinstance(form, SizeExpr) and not is_symbol(form)
        ]
        self._related = [(self._compiled(condition.expr), condition.relation) for condition in conditions]

    def fits(self, leaves: Sequence[object]) -> bool:
        """Whether the leaves of a call fit."""
        if len(leaves) != len(self._rows):
            return False
        sizes = _sizes(leaves, self._rows)
        if sizes is None or self._fixed(sizes) != self._constants or self._again(sizes) != self._before(sizes):
            return False
        for value, lower, upper, step in self._ranges:
            actual = value(sizes)
            if (lower is not None and actual < lower) or (upper is not None and actual > upper) or actual % step:
                return False
        for position, value in self._derived:
            if sizes[position] != value(sizes):
                return False
        return all(compares(relation, value(sizes)) for value, relation in self._related)

    def explain(self, leaves: Sequence[object]) -> str | None:
        """The first thing that does not fit; None if all does."""
        if len(leaves) != len(self._leaves):
            return f"there are {len(leaves)} arguments, and the specification has {len(self._leaves)}"
        for spec, row, path, leaf in zip(self._leaves, self._rows, self._paths, leaves, strict=True):
            if _sizes([leaf], [row]) is None:
                return _misfit(spec, path, leaf)
        sizes = _sizes(leaves, self._rows) or []
        return self._wrong_size(sizes) or self._wrong_value(sizes) or self._wrong_relation(sizes)

    def _wrong_size(self, sizes: Sequence[int]) -> str | None:
        for position, form in enumerate(self._forms):
            first = self._first(form)
            if isinstance(form, int) and sizes[position] != form:
                return f"{self._said(position)} is {sizes[position]}, not {form}"
            if first is not None and sizes[position] != sizes[first]:
                one, other = f"{sizes[first]} as {self._said(first)}", f"{sizes[position]} as {self._said(position)}"
                return f"{form} is {one} and {other}"
        for position, value in self._derived:
            form = self._forms[position]
            if sizes[position] != value(sizes) and isinstance(form, SizeExpr):
                where = self._values_of(form, sizes, without=position)
                no = f", where {where}" if where else f": no {format_size(free_symbols(form)[0])} makes it that"
                return f"{self._said(position)} is {sizes[position]}, not {format_size(form)}{no}"
        return None

    def _wrong_value(self, sizes: Sequence[int]) -> str | None:
        for (value, lower, upper, step), name in zip(self._ranges, self._variables, strict=True):
            actual = value(sizes)
            said = f"{name} is {actual} ({self._said(self._bound[name])})"
            if lower is not None and actual < lower:
                return f"{said}, but {name} >= {lower}"
            if upper is not None and actual > upper:
                return f"{said}, but {name} <= {upper}"
            if actual % step:
                return f"{said}, but {name} % {step} == 0"
        return None

    def _wrong_relation(self, sizes: Sequence[int]) -> str | None:
        for (value, relation), condition in zip(self._related, self._conditions, strict=True):
            if not compares(relation, value(sizes)):
                return f"{condition} does not hold: {self._values_of(condition.expr, sizes)}"
        return None

    def _values_of(self, e: SizeExpr, sizes: Sequence[int], without: int | None = None) -> str:
        names = sorted([symbol.facts.name for symbol in free_symbols(e)])
        bound = [name for name in names if self._bound[name] != without]
        return ", ".join([f"{name} is {self._values[symbol_named(name)](sizes)}" for name in bound])

    def _said(self, position: int) -> str:
        leaf, dim = self._places[position]
        return self._paths[leaf] if dim is None else f"dim {dim} of {self._paths[leaf]}"

    def _form(self, position: tuple[int, int | None]) -> Size | None:
        leaf = self._leaves[position[0]]
        if isinstance(leaf, IntSpec):
            return None if leaf.variable is None else leaf.variable.size
        size = leaf.shape[position[1]] if isinstance(leaf, TensorSpec) and position[1] is not None else None
        return size.size if isinstance(size, ShapeExpr) else size

    def _first(self, form: Size | None) -> int | None:
        """The place that a variable is read from."""
        return self._bound[form.facts.name] if isinstance(form, SizeExpr) and is_symbol(form) else None

    def _value(self, name: str, binding: Binding) -> _Value:
        position = self._bound[name]
        if (binding.scale, binding.offset) == (1, 0):
            return itemgetter(position)
        return lambda sizes: binding.value(sizes[position])

    def _compiled(self, e: Size | None) -> _Value:
        """What computes an expression of variables from the sizes."""
        assert isinstance(e, SizeExpr)
        weights, constant = [(self._product(product), scale) for product, scale in terms(e)], constant_of(e)
        if not constant and weights[0][1] == 1 and len(weights) == 1:
            return weights[0][0]
        return lambda sizes: sum([value(sizes) * scale for value, scale in weights], constant)

    def _product(self, product: SizeExpr) -> _Value:
        if is_symbol(product):
            return self._values[product]
        if product.op is FLOORDIV:
            dividend, divisor = self._compiled(product.operands[0]), product.operands[1]
            return lambda sizes: dividend(sizes) // divisor
        values = [(symbol, self._values[symbol]) for symbol in free_symbols(product)]
        return lambda sizes: evaluate(product, {symbol: value(sizes) for symbol, value in values})


_Row = tuple[type, DType | None, int, bool, LeafSpec]


def _row(leaf: LeafSpec) -> _Row:
    if isinstance(leaf, TensorSpec):
        return TensorSpec, leaf.dtype, len(leaf.shape), leaf.strides == "contiguous", leaf
    return type(leaf), None, 0, False, leaf


def _places(leaves: Sequence[LeafSpec]) -> list[tuple[int, int | None]]:
    places: list[tuple[int, int | None]] = []
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, TensorSpec):
            places.extend([(number, dim) for dim in range(len(leaf.shape))])
        elif isinstance(leaf, IntSpec):
            places.append((number, None))
    return places


def _nothing(sizes: Sequence[object]) -> object:
    return _NOTHING


def _sizes(leaves: Sequence[Any], rows: Sequence[_Row]) -> list[int] | None:
    """The sizes and integers of a call's leaves; None if one is not of the kind that it should be."""
    sizes: list[int] = []
    for leaf, (kind, dtype, rank, contiguous, spec) in zip(leaves, rows):
        if kind is TensorSpec:
            try:
                shape = leaf.shape
                if leaf.dtype is not dtype or len(shape) != rank:
                    return None
            except AttributeError:
                return None
            if contiguous and leaf.is_contiguous is not True and not _is_row_major(shape, leaf.strides):
                return None
            sizes += shape
        elif kind is IntSpec:
            if type(leaf) is not int:
                return None
            sizes.append(leaf)
        elif not (type(leaf) is float if kind is FloatSpec else isinstance(spec, ConstSpec) and spec.takes(leaf)):
            return None
    return sizes


def _is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie in row-major order; dims of size 1 may have any stride."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


def _misfit(spec: LeafSpec, path: str, leaf: Any) -> str:
    if not (hasattr(leaf, "shape") and isinstance(getattr(leaf, "dtype", None), DType)):
        kind = type(leaf).__name__
        said = f"{leaf!r} ({kind})" if isinstance(leaf, bool | int | float | str) else kind
        return f"{path} is {said}, not {spec}"
    actual = f"{SHORT_NAMES[leaf.dtype]}{list(leaf.shape)}"
    if isinstance(spec, TensorSpec) and leaf.dtype is spec.dtype and len(leaf.shape) == len(spec.shape):
        return f"{path} has strides {list(leaf.strides)}, and {spec} is row-major"
    return f"{path} is {actual}, not {spec}"
