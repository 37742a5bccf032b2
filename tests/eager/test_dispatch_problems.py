"""The nine problems from which a dispatcher follows, each as the program that it is solved for."""

import pytest
from tests.eager.dispatch_reference import Keyed, without_kernels

from rushlight.eager.dispatch import (
    STATE,
    Alias,
    Key,
    backend_key,
    bit,
    call_below,
    dispatch,
    include_keys,
    reenter,
    register,
    register_backend,
    register_fallback,
    table,
)
from rushlight.support.errors import RushlightError
from rushlight.term import Op

ONE, TWO = Key.DEVICE_1, Key.DEVICE_2


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A table without anybody's kernels."""
    yield from without_kernels(monkeypatch)


@pytest.mark.row("1.3")
def test_problem_1_each_backend_has_a_kernel_of_its_own():
    add = Op("test::add")
    register(add, ONE, lambda a, b: "one's sum")
    register(add, TWO, lambda a, b: "two's sum")
    assert dispatch(add, (Keyed(ONE), Keyed(ONE)), {}) == "one's sum"
    assert dispatch(add, (Keyed(TWO), Keyed(TWO)), {}) == "two's sum"


@pytest.mark.row("1.3")
def test_problem_2_a_decomposition_serves_all_backends_that_have_no_kernel():
    sub, add, neg = Op("test::sub"), Op("test::add"), Op("test::neg")
    register(sub, Alias.BACKENDS, lambda a, b: dispatch(add, (a, dispatch(neg, (b,), {})), {}), reenters=True)
    for key in (ONE, TWO):
        register(add, key, lambda a, b, key=key: Keyed(key))
        register(neg, key, lambda a, key=key: Keyed(key))
    register(sub, TWO, lambda a, b: "fused")
    assert dispatch(sub, (Keyed(ONE), Keyed(ONE)), {}).keys == bit(ONE)
    assert dispatch(sub, (Keyed(TWO), Keyed(TWO)), {}) == "fused"


@pytest.mark.row("1.3")
def test_problem_3_an_operator_is_added_while_the_program_runs():
    fresh = Op("test::fresh")
    with pytest.raises(RushlightError, match="no kernel answers"):
        dispatch(fresh, (Keyed(ONE),), {})
    registration = register(fresh, ONE, lambda a: "answered")
    assert dispatch(fresh, (Keyed(ONE),), {}) == "answered"
    registration.remove()
    with pytest.raises(RushlightError, match="no kernel answers"):
        dispatch(fresh, (Keyed(ONE),), {})


@pytest.mark.row("1.3")
def test_problem_4_the_arguments_choose_the_backend():
    add = Op("test::add")
    register(add, ONE, lambda *operands: "one")
    register(add, TWO, lambda *operands: "two")
    assert dispatch(add, (1.0, Keyed(ONE)), {}) == "one"
    assert dispatch(add, ((Keyed(ONE), None), Keyed(TWO)), {}) == "two"


@pytest.mark.row("1.3")
def test_problem_5_backends_are_found_in_a_registry(monkeypatch):
    monkeypatch.setattr(table, "_device_keys", {"cpu": Key.CPU, "meta": Key.META})
    key = register_backend("fruit")
    assert key == backend_key("fruit") == register_backend("fruit")
    add = Op("test::add")
    register(add, key, lambda a: "fruit's")
    assert dispatch(add, (Keyed(key),), {}) == "fruit's"
    with pytest.raises(RushlightError, match="there is no device"):
        backend_key("vegetable")


@pytest.mark.row("1.3")
def test_problem_6_the_first_that_applies_answers_and_a_fallback_serves_the_rest():
    add, mul = Op("test::add"), Op("test::mul")
    register_fallback(ONE, lambda op, active, operands, attrs: f"fallback of {op.name}")
    register(add, ONE, lambda a: "its own")
    assert dispatch(add, (Keyed(ONE),), {}) == "its own"
    assert dispatch(mul, (Keyed(ONE),), {}) == "fallback of test::mul"


@pytest.mark.row("1.3")
def test_problem_7_a_kernel_may_decline_while_it_runs():
    asked = []
    add = Op("test::add")
    register(add, TWO, lambda a, n: asked.append("two") or (NotImplemented if n > 3 else "two"))
    register(add, ONE, lambda a, n: "one")
    assert dispatch(add, (Keyed(ONE, TWO), 1), {}) == "two"
    assert dispatch(add, (Keyed(ONE, TWO), 5), {}) == "one"
    assert asked == ["two", "two"]


@pytest.mark.row("1.3")
def test_problem_8_decompositions_in_each_other_end():
    add, sub = Op("test::add"), Op("test::sub")
    register(add, ONE, lambda a: dispatch(sub, (a,), {}))
    register(sub, ONE, lambda a: dispatch(add, (a,), {}))
    with pytest.raises(RushlightError) as error:
        dispatch(add, (Keyed(ONE),), {})
    assert "test::add at DEVICE_1" in str(error.value)
    register(sub, TWO, lambda a: "computed")
    assert dispatch(add, (Keyed(ONE, TWO),), {}) == "computed"


@pytest.mark.row("1.3")
def test_problem_9_a_kernel_may_be_written_in_its_own_key():
    bmm, mm = Op("test::bmm"), Op("test::mm")

    def rows(a, count):
        if count == 0:
            raise ZeroDivisionError
        with reenter(ONE):
            return [dispatch(mm, (a,), {}) for _ in range(count)]

    register(bmm, ONE, rows)
    register(mm, ONE, lambda a: "row")
    assert dispatch(bmm, (Keyed(ONE), 3), {}) == ["row"] * 3
    with pytest.raises(ZeroDivisionError):
        dispatch(bmm, (Keyed(ONE), 0), {})
    assert (STATE.excluded, STATE.running) == (0, ())


@pytest.mark.row("1.3")
def test_a_mode_is_a_key_that_takes_all_and_redispatches():
    log = []
    add = Op("test::add")
    register(add, ONE, lambda a: "computed")

    def note(op, active, operands, attrs):
        log.append(op.name)
        return call_below(Key.AUTOCAST, op, active, operands, attrs)

    register_fallback(Key.AUTOCAST, note)
    with include_keys(bit(Key.AUTOCAST)):
        assert dispatch(add, (Keyed(ONE),), {}) == "computed"
    assert dispatch(add, (Keyed(ONE),), {}) == "computed"
    assert log == ["test::add"]
