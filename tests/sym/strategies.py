"""Random expressions together with what they mean in Python's own arithmetic."""

from collections.abc import Callable

from hypothesis import strategies as st

from rushlight.sym import Scope, Size, SizeExpr, axis_size, axis_symbol, evaluate, maximum, minimum

Values = dict[SizeExpr, int]
Meaning = Callable[[Values], int]
Pair = tuple[Size, Meaning]

SCOPE = Scope()
SIZES = [SCOPE.symbol(f"s{number}", lower=1) for number in range(3)]
AXES = [
    axis_symbol(SIZES[0], "i"),
    axis_symbol(SIZES[1], "j"),
    axis_symbol(6, "k"),
    axis_symbol((SIZES[0] + 1) // 2, "m"),
    axis_symbol(SIZES[1] * SIZES[2], "n"),
]
SYMBOLS = [*SIZES, *AXES]
NAMES = {symbol.attr("name"): symbol for symbol in SYMBOLS}


def _symbol(symbol: SizeExpr) -> Pair:
    return symbol, lambda values: values[symbol]


def _integer(value: int) -> Pair:
    return value, lambda values: value


def _combined(op: str, left: Pair, right: Pair) -> Pair:
    (a, x), (b, y) = left, right
    if op == "+":
        return a + b, lambda values: x(values) + y(values)
    if op == "-":
        return a - b, lambda values: x(values) - y(values)
    if op == "*":
        return a * b, lambda values: x(values) * y(values)
    if op == "min":
        return minimum(a, b), lambda values: min(x(values), y(values))
    return maximum(a, b), lambda values: max(x(values), y(values))


def _divided(op: str, left: Pair, divisor: Pair) -> Pair:
    (a, x), (b, y) = left, divisor
    if op == "//":
        return a // b, lambda values: x(values) // y(values)
    return a % b, lambda values: x(values) % y(values)


integers = st.integers(-9, 9).map(_integer)
symbols = st.sampled_from(SYMBOLS).map(_symbol)
divisors = st.one_of(
    st.sampled_from([(SIZES[0] + 1) // 2, SIZES[1] * SIZES[2]]).map(lambda size: (size, lambda v: evaluate(size, v))),
    st.integers(1, 7).map(_integer),
    st.sampled_from(SIZES).map(_symbol),
    st.tuples(st.sampled_from(SIZES).map(_symbol), st.sampled_from(SIZES).map(_symbol)).map(
        lambda pair: _combined("*", *pair)
    ),
    st.tuples(st.sampled_from(SIZES).map(_symbol), st.integers(1, 4).map(_integer)).map(
        lambda pair: _combined("+", *pair)
    ),
)


def _grown(smaller: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "+", "-", "min", "max"]), smaller, smaller).map(
            lambda made: _combined(*made)
        ),
        st.tuples(st.sampled_from(["//", "%"]), smaller, divisors).map(lambda made: _divided(*made)),
    )


expressions = st.recursive(st.one_of(symbols, symbols, integers), _grown, max_leaves=7)


@st.composite
def values(draw: st.DrawFn) -> Values:
    found = {size: draw(st.integers(1, 9)) for size in SIZES}
    for axis in AXES:
        found[axis] = draw(st.integers(0, evaluate(axis_size(axis), found) - 1))
    return found
