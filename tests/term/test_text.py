"""Text: what is printed parses back to the same objects."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.term.languages import OPS, TOY, apply, leaf, width

from rushlight.term import Reader, Term, TermSyntaxError, format_terms, format_value, interned, parse_terms

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.just(math.nan),
    st.text(max_size=5),
    st.sampled_from([width("f32"), width("i8")]),
)
attributes = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@st.composite
def programs(draw: st.DrawFn) -> list[Term]:
    made: list[Term] = [leaf("x")]
    for number in range(draw(st.integers(0, 8))):
        op = draw(st.sampled_from(sorted(OPS)))
        operands = tuple(draw(st.lists(st.sampled_from(made), max_size=3)))
        attrs = tuple((f"key{number}", draw(attributes)) for number in range(draw(st.integers(0, 2))))
        made.append(interned(Term, OPS[op], operands, attrs, draw(st.sampled_from([width("f32"), width("i64")]))))
    return draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))


@settings(max_examples=150, deadline=None)
@given(programs())
def test_printed_terms_parse_back_to_the_same_objects(roots):
    lines = format_terms(roots, TOY)
    again = parse_terms(lines, TOY)
    assert len(again) == len(roots)
    assert all(x is y for x, y in zip(roots, again, strict=True))
    assert format_terms(again, TOY) == lines


@settings(max_examples=150, deadline=None)
@given(attributes)
def test_values_read_back_equal(value):
    again = Reader(format_value(value, TOY), TOY).value()
    assert leaf(again) is leaf(value)


def test_text_of_a_program():
    x = leaf("x")
    root = apply("add", apply("neg", x), x, axis=(0, -1), scale=-0.5, strict=True)
    assert format_terms([root, x], TOY) == [
        '%0 = leaf() {value="x"} : f32',
        "%1 = neg(%0) : f32",
        "%2 = add(%1, %0) {axis=[0, -1], scale=-0.5, strict=true} : f32",
        "return %2, %0",
    ]
    assert format_terms([root], TOY, {x: "%x"}) == [
        "%0 = neg(%x) : f32",
        "%1 = add(%0, %x) {axis=[0, -1], scale=-0.5, strict=true} : f32",
        "return %1",
    ]
    assert parse_terms(format_terms([root], TOY, {x: "%x"}), TOY, {"%x": x}) == [root]


def test_each_term_is_shown_to_the_listener_in_order():
    root = apply("neg", apply("neg", leaf("x")))
    seen: list[Term] = []
    parse_terms(format_terms([root], TOY), TOY, seen=seen.append)
    assert [term.op.name for term in seen] == ["leaf", "neg", "neg"]


@pytest.mark.parametrize(
    "line",
    [
        "%0 = neg(%9) : f32",
        "%0 = neg(%x : f32",
        "%0 = neg(%x) {a=} : f32",
        "%0 = neg(%x) {a=[1, 2} : f32",
        "%0 = neg(%x) {a 1} : f32",
        "%0 = nothing(%x) : f32",
        "%0 neg(%x) : f32",
        "%0 = neg(%x)",
        "%0 = neg(%x) : f31",
        "%0 = neg(%x) : f32 f32",
        "%0 = neg(%x) {a=$} : f32",
        '%0 = neg(%x) {a="x} : f32',
    ],
)
def test_broken_lines_are_refused(line):
    with pytest.raises(TermSyntaxError):
        parse_terms([line, "return %0"], TOY, {"%x": leaf("x")})


def test_a_program_must_return():
    with pytest.raises(TermSyntaxError, match="return"):
        parse_terms(["%0 = neg(%x) : f32"], TOY, {"%x": leaf("x")})
    with pytest.raises(TermSyntaxError, match="%7"):
        parse_terms(["return %7"], TOY)


def test_values_of_unknown_kinds_are_refused():
    with pytest.raises(TypeError, match="object"):
        format_value(object(), TOY)


def test_a_chain_of_100_000_terms_prints_and_parses():
    chain = leaf("x")
    for _ in range(100_000):
        chain = apply("neg", chain)
    lines = format_terms([chain], TOY)
    assert len(lines) == 100_002
    (again,) = parse_terms(lines, TOY)
    assert again is chain
