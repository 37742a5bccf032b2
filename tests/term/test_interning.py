"""Interning: equal terms are one object, unequal ones are not, and nothing is kept alive by the table."""

import copy
import gc
import math
import struct
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.term.languages import F32, OPS, apply, leaf, width

from rushlight.term import Op, Term, attr_key, interned, structural_digest
from rushlight.term.term import _table, forget_dead

scalars = st.one_of(
    st.booleans(),
    st.integers(-2, 2),
    st.floats(-2, 2, width=16),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, 1j]),
    st.text(max_size=2),
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)


def spelled(value: object) -> str:
    """A text that tells values apart as the bits and types do."""
    if isinstance(value, tuple):
        return f"({','.join(map(spelled, value))})"
    if isinstance(value, float):
        return f"float {struct.pack('<d', value).hex()}"
    return f"{type(value).__name__} {value!r}"


@given(values, values)
def test_terms_are_one_object_exactly_if_their_attributes_have_equal_bits_and_types(one, other):
    assert (leaf(one) is leaf(other)) == (spelled(one) == spelled(other))


def test_equal_looking_constants_are_kept_apart():
    kinds = [leaf(value) for value in (1, True, 1.0, "1", 1 + 0j, (1,), (True,), (1.0,))]
    zeros = [leaf(value) for value in (0, False, 0.0, -0.0, 0j, complex(0.0, -0.0), None, (0.0,), (-0.0,))]
    assert len({id(term) for term in kinds + zeros}) == len(kinds) + len(zeros)
    assert leaf(math.nan) is leaf(float("nan"))
    assert leaf((0.0, "x")) is leaf((0.0, "x"))
    assert attr_key(1) != attr_key(True)
    assert attr_key(0.0) != attr_key(-0.0)


def test_every_part_tells_terms_apart():
    class Other(Term):
        __slots__ = ()

    a, b = leaf("a"), leaf("b")
    different = [
        apply("add", a, b),
        apply("add", b, a),
        apply("mul", a, b),
        apply("add", a, b, axis=0),
        apply("add", a, b, axis=1),
        apply("add", a, b, dim=0),
        interned(Term, OPS["add"], (a, b), (), width("i8")),
        interned(Other, OPS["add"], (a, b), (), F32),
        interned(Term, Op("add"), (a, b), (), F32),
    ]
    assert len({id(term) for term in different}) == len(different)
    assert apply("add", a, b) is different[0]
    assert apply("add", a, b, axis=1).attr("axis") == 1
    with pytest.raises(KeyError):
        a.attr("axis")


def test_terms_are_immutable_and_copied_by_reference():
    a = leaf("a")
    for name in ("op", "operands", "attrs", "type", "anything"):
        with pytest.raises(AttributeError):
            setattr(a, name, None)
    assert copy.copy(a) is a
    assert copy.deepcopy([a])[0] is a


def entries() -> int:
    """Entries of the table; those of dead terms are dropped by the next new term."""
    forget_dead()
    return len(_table)


def test_unused_terms_are_freed_at_once_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        before = entries()
        a = leaf("freed")
        top = apply("add", apply("neg", a), a)
        refs = [weakref.ref(top), weakref.ref(top.operands[0]), weakref.ref(a)]
        assert entries() == before + 3
        del top
        forget_dead()
        assert [ref() is None for ref in refs] == [True, True, False]
        del a
        forget_dead()
        assert refs[2]() is None
        assert entries() == before
        again = leaf("freed")
        assert again is leaf("freed")
    finally:
        gc.enable()


def test_a_chain_of_100_000_terms_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        before = entries()
        chain = leaf("bottom")
        for _ in range(100_000):
            chain = apply("neg", chain)
        assert entries() == before + 100_001
        del chain
        assert entries() == before
    finally:
        gc.enable()


def test_threads_that_race_get_the_same_object():
    start = threading.Barrier(8)
    found: list[list[Term]] = []

    def build() -> None:
        start.wait()
        mine = []
        for number in range(400):
            a = leaf(("raced", number))
            mine.append(apply("add", a, apply("neg", a), index=number))
        found.append(mine)

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for mine in found[1:]:
        assert all(x is y for x, y in zip(found[0], mine, strict=True))


def test_threads_may_make_and_drop_the_same_terms():
    """What one thread drops another may be making: whatever it gets is one live, complete object."""
    start = threading.Barrier(4)
    wrong: list[object] = []

    def churn() -> None:
        start.wait()
        for number in range(3000):
            a = leaf(("churned", number % 7))
            b = leaf(("churned", number % 7))
            if a is not b or a.attr("value") != ("churned", number % 7):
                wrong.append((a, b))

    before = entries()
    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert entries() == before


def test_digests_depend_on_every_line():
    assert structural_digest(["a", "b"]) == structural_digest(iter(["a", "b"]))
    assert len({structural_digest(lines) for lines in (["a", "b"], ["ab"], ["b", "a"], ["a"], [], ["a", "b", ""])}) == 6
