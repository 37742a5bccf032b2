"""Text: readable, the same for the same structure, and read back as the same object."""

import pytest
from hypothesis import given, settings
from tests.sym.strategies import NAMES, SYMBOLS, expressions, values

from rushlight.support.errors import CompileError
from rushlight.sym import Scope, axis_symbol, evaluate, format_size, maximum, minimum, parse_size, to_python


@settings(max_examples=150, deadline=None)
@given(expressions)
def test_text_reads_back_as_the_same_object(pair):
    e = pair[0]
    again = parse_size(format_size(e), NAMES)
    assert again is e or (type(again) is int and again == e)


@settings(max_examples=80, deadline=None)
@given(expressions, values())
def test_python_source_computes_the_value(pair, point):
    e = pair[0]
    names = {symbol: f"v[{number}]" for number, symbol in enumerate(SYMBOLS)}
    assert eval(to_python(e, names), {"v": [point[symbol] for symbol in SYMBOLS]}) == evaluate(e, point)


def test_what_text_looks_like():
    scope = Scope()
    s0, s1, s2, s10 = (scope.symbol(name) for name in ("s0", "s1", "s2", "s10"))
    i = axis_symbol(s0, "i")
    for e, text in (
        (2 * s0 * s1 + s0 // 4 + 1, "2*s0*s1 + s0//4 + 1"),
        (minimum(s0, 8), "min(s0, 8)"),
        (maximum(s10, minimum(s2, s0)), "max(min(s0, s2), s10)"),
        (s10 + s2, "s2 + s10"),
        (s0 - s1 - 1, "s0 - s1 - 1"),
        (-s0, "-s0"),
        (-(s0 // 2), "-(s0//2)"),
        (4 * (s0 // 2) - 3, "4*(s0//2) - 3"),
        ((s0 + 3) // 4 * s1, "((s0 + 3)//4)*s1"),
        (s0 * s1 // 4, "s0*s1//4"),
        (2 * s0 // 3, "(2*s0)//3"),
        (s0 // (s1 * s2), "s0//(s1*s2)"),
        (s0 // (s1 + 1), "s0//(s1 + 1)"),
        (i * s1 + s2, "i*s1 + s2"),
        (s0 % 4, "s0%4"),
        (3 - 2 * (s0 % 4), "-2*(s0%4) + 3"),
        ((s0 + 1) % 4 + 2, "(s0 + 1)%4 + 2"),
        (s0 % s1 * s2, "(s0%s1)*s2"),
        (s0 % (s1 * s2), "s0%(s1*s2)"),
        (s0 % 12 % 5, "(s0%12)%5"),
        (s0 % 4 + s1 % 4 + s0 // 4, "s0 - 3*(s0//4) + s1%4"),
    ):
        assert format_size(e) == text
        assert parse_size(text, {"s0": s0, "s1": s1, "s2": s2, "s10": s10, "i": i}) is e
    assert format_size(-3) == "-3"


def test_names_can_be_given_and_decide_the_order():
    a, b = axis_symbol(4), axis_symbol(5)
    assert format_size(2 * a + b, {a: "j", b: "i"}) == "i + 2*j"
    assert format_size(2 * a + b, {a: "i", b: "j"}) == "2*i + j"


def test_parsing_follows_python():
    scope = Scope()
    s0, s1 = scope.symbol("s0"), scope.symbol("s1")
    for text, e in (
        ("s0 - s1 - 1", s0 - s1 - 1),
        ("-s0*-2", 2 * s0),
        ("- (s0 + 1) // 2", -(s0 + 1) // 2),
        ("s0 * (s1 + 2) % 3", s0 * (s1 + 2) % 3),
        ("min(s0, max(s1, 3), 7)", minimum(minimum(s0, maximum(s1, 3)), 7)),
        ("((((s0))))", s0),
        ("+s0 + +3", s0 + 3),
        ("7 // 2 * 2", 6),
        ("-7 // 2", -4),
        (" 12 ", 12),
    ):
        assert scope.parse(text) is e or (type(e) is int and scope.parse(text) == e), text


@pytest.mark.parametrize(
    "text",
    ["", "s0 +", "s0 s0", "(s0", "s0)", "s0,s0", "min(s0", "min()", "(s0, s0)", "s9", "s0 ** 2", "1.5", "* s0", "()"],
)
def test_text_that_is_no_size_is_refused(text):
    scope = Scope()
    scope.symbol("s0")
    with pytest.raises(CompileError, match="column") as caught:
        scope.parse(text)
    assert caught.value.code == "C009"


def test_deep_nesting_parses_without_recursion():
    scope = Scope()
    s0 = scope.symbol("s0")
    depth = 20_000
    assert scope.parse("(" * depth + "s0" + ")" * depth) is s0
