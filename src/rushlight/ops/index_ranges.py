"""In which range the indices of an operator have to be: eager code and compiled code ask the same rules.

Kernels read 0 at an index out of range and leave a write there out. So indices are checked apart: in eager code before
the call, in compiled code by asserts of the graph (`build.index_asserts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.ir.dtype import Kind, int64
from rushlight.ir.value import Value
from rushlight.ops.record import OPERATORS, Operator
from rushlight.ops.segments import segment_numbers
from rushlight.sym import Size, product


class Derived(NamedTuple):
    """What is in range in place of an index itself, and what that says of the index.

    It is a value of the index and of further `operands`. `code` is that of the error.
    """

    of: Callable[..., Value]
    must: str
    operands: tuple[str, ...] = ()
    code: str = "I001"


CODES = frozenset({"I001", "E003", "E004", "E006"})
"""The errors of indices that are out of range."""


class Range(NamedTuple):
    """Indices must be in [low, high), or `ignored`; without `high` they are values, not below `low`.

    `operand` is the operand's name.
    """

    operand: str
    low: Size
    high: Size | None
    ignored: int | None = None
    member: int | None = None  # of a list operand
    derived: Derived | None = None
    message: str | None = None  # of the error, in place of `requirement`

    def requirement(self, op: Operator) -> str:
        """What the operand must be, where that is no index: the text of the error."""
        if self.message is not None:
            return self.message
        must = f"not be below {self.low}" if self.derived is None else self.derived.must
        return f"{op.name}: {self.operand} must {must}"

    def others(self, named: Mapping[str, Any]) -> list[Any]:
        """The further operands that it is asked of."""
        return [] if self.derived is None else [named[name] for name in self.derived.operands]

    def read(self, named: Mapping[str, Any]) -> Any:
        """The operand, or the member of it, among operands by name."""
        operand = named[self.operand]
        return operand if self.member is None else operand[self.member]


Named = Mapping[str, Any]  # operands' types and attributes by name
Rule = Callable[[Named], list[Range]]


def _wrapping(operand: str, size: Size, member: int | None = None) -> Range:
    return Range(operand, -size, size, None, member)


def _along_dim(named: Named) -> list[Range]:
    return [_wrapping("index", _size_along(named["input"].shape, named["dim"]))]


def _taken_along_dim(named: Named) -> list[Range]:
    shape, dim = named["input"].shape, named["dim"]
    return [_wrapping("indices", product(shape) if dim is None else _size_along(shape, dim))]


def _size_along(shape: Sequence[Size], dim: int) -> Size:
    """The size of a dim, 1 where there is none: place 0 alone exists."""
    return shape[dim] if shape else 1


def _in_order(named: Named) -> list[Range]:
    return [] if named["sorter"] is None else [_wrapping("sorter", named["sorted_sequence"].shape[-1])]


def _in_dims(named: Named) -> list[Range]:
    shape = named["input"].shape
    return [_wrapping("indices", shape[dim], member) for member, dim in enumerate(named["dims"])]


def _put_in_dims(named: Named) -> list[Range]:
    if not named["ascending"]:
        return _in_dims(named)
    size = named["input"].shape[named["dims"][0]]
    return [Range("indices", 0, size, None, 0), Range("indices", 1, None, None, 0, _EACH_ABOVE)]


def _in_table(named: Named) -> list[Range]:
    return [Range("input", 0, named["weight"].shape[0])]


def _in_bags(named: Named) -> list[Range]:
    bags = [] if named["offsets"] is None else _offsets({**named, "end": product(named["input"].shape)})
    return [*_in_table(named), *bags]


def _offsets(named: Named) -> list[Range]:
    end = named["end"]
    return [
        Range("offsets", 0, end + 1),
        Range("offsets", 0, None, derived=_ASCENDING),
        Range("offsets", 0, 1, derived=_FROM_ZERO),
        *([Range("offsets", end, end + 1, derived=_TO_END)] if named.get("whole") else []),
    ]


def _rows_of_features(named: Named) -> list[Range]:
    return [Range("ids", 0, None, derived=_IN_TABLE)]


def _lengths(named: Named) -> list[Range]:
    count = named["count"]
    return [Range("lengths", 0, None, derived=_LENGTHS), Range("lengths", count, count + 1, derived=_TOTAL)]


def _not_negative(named: Named) -> list[Range]:
    return [Range("input", 0, None)]


def _holding(named: Named) -> list[Range]:
    return [Range("holds", 1, None, derived=Derived(_themselves, "", (), named["code"]), message=named["message"])]


def _steps(index: Value) -> Value:
    return OPERATORS["sub"](OPERATORS["slice"](index, -1, 1, None), OPERATORS["slice"](index, -1, 0, -1))


def _first(index: Value) -> Value:
    return OPERATORS["slice"](index, -1, 0, 1)


def _last(index: Value) -> Value:
    return OPERATORS["slice"](index, -1, -1, None)


def _margins(ids: Value, starts: Value, limits: Value) -> Value:
    """How far an id is from what its feature's table does not have: negative where it is beyond."""
    (count,) = ids.shape
    limits = OPERATORS["to_dtype"](limits, int64)
    feature = segment_numbers(starts, count)
    limit = OPERATORS["index_select"](limits, 0, feature)  # 0, below which no id is, for an id of no feature
    return OPERATORS["minimum"](ids, limit - 1 - ids)


_IN_TABLE = Derived(_margins, "name rows of their feature's table", ("starts", "limits"), "E006")


def _themselves(index: Value) -> Value:
    return index


def _total(index: Value) -> Value:
    return OPERATORS["sum"](index, (0,), keepdim=True)


_LENGTHS = Derived(_themselves, "not be negative", (), "E004")
_TOTAL = Derived(_total, "sum to the number of values", (), "E003")
_TO_END = Derived(_last, "end with the number of values", (), "E003")
_EACH_ABOVE = Derived(_steps, "ascend, each above the one before")
_ASCENDING, _FROM_ZERO = Derived(_steps, "ascend"), Derived(_first, "begin with 0")


def _in_space(named: Named) -> list[Range]:
    return [Range("indices", 0, product(named["output_size"]))]


def _of_classes(named: Named) -> list[Range]:
    return [Range("tensor", 0, named["num_classes"])]


def _observed(named: Named) -> list[Range]:
    return [Range(name, 0, None) for name in ("fweights", "aweights") if named[name] is not None]


def _classes(named: Named) -> list[Range]:
    shape, target = named["input"].shape, named["target"]
    number = isinstance(target, int | float | complex)  # which is refused
    if not number and (target.dtype.kind is not Kind.INT or not shape):
        return []
    return [Range("target", 0, shape[0 if len(shape) == 1 else 1], named["ignore_index"])]


# Which operand holds indices of what. An operator outside this table has none.
_RULES: dict[str, Rule] = {
    "gather": _along_dim,
    "scatter": _along_dim,
    "scatter_add": _along_dim,
    "scatter_reduce": _along_dim,
    "index_select": _along_dim,
    "take_along_dim": _taken_along_dim,
    "searchsorted": _in_order,
    "index_add": _along_dim,
    "index": _in_dims,
    "index_put": _put_in_dims,
    "embedding": _in_table,
    "embedding_bag": _in_bags,
    "max_unpool": _in_space,
    "nll_loss": _classes,
    "one_hot": _of_classes,
    "cov": _observed,
    "not_negative": _not_negative,
    "asserted": _holding,
    "ids_within": _rows_of_features,
    "offsets_within": _offsets,
    "lengths_within": _lengths,
    "cross_entropy": _classes,
    "class_cross_entropy": _classes,
}
RULES: dict[Operator, Rule] = {OPERATORS[name]: rule for name, rule in _RULES.items() if name in OPERATORS}


def ranges_of(op: Operator, types: Sequence[object], attrs: Mapping[str, object]) -> list[Range]:
    """The ranges of an operator's indices; `types` are those of its operands."""
    rule = RULES.get(op)
    return [] if rule is None else rule(op.named(tuple(types), attrs))


def any_outside(
    index: Value, low: Any, high: Any, ignored: Any, derived: Derived | None, others: Sequence[Value] = ()
) -> Any:
    """Whether an element is not in [low, high) and not `ignored`: bounds are numbers, values, or None for none.

    With `derived` that is asked of what is derived from the index, and from `others`.
    """
    call = {name: OPERATORS[name] for name in ("lt", "ge", "ne", "bitwise_or", "bitwise_and", "any")}
    if index.dtype.kind <= Kind.INT:  # an unsigned index would make -size a large number
        index = OPERATORS["to_dtype"](index, int64)
    if derived is not None:
        index = derived.of(index, *others)
    outside = call["lt"](index, low)
    if high is not None:
        outside = call["bitwise_or"](outside, call["ge"](index, high))
    if ignored is not None:
        outside = call["bitwise_and"](outside, call["ne"](index, ignored))
    return call["any"](outside)
