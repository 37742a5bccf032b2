"""Dispatch against a reference interpreter of thirty lines, with random registrations and scopes."""

import itertools
import threading

import pytest
from tests.eager.dispatch_reference import Keyed, differing, without_kernels

from rushlight.eager.dispatch import (
    ALL_KEYS,
    BACKENDS,
    FALLTHROUGH,
    STATE,
    Alias,
    Key,
    bit,
    call_below,
    dispatch,
    exclude_keys,
    include_keys,
    reenter,
    register,
    register_fallback,
    table_of,
)
from rushlight.ops import record
from rushlight.support.errors import RushlightError
from rushlight.term import Op


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A table without anybody's kernels."""
    yield from without_kernels(monkeypatch)


@pytest.fixture
def registered():
    """`register`, undone at the end."""
    made = []

    def keep(*args, **kwargs):
        made.append(register(*args, **kwargs))
        return made[-1]

    yield keep
    for registration in made:
        registration.remove()


@pytest.mark.generated
@pytest.mark.row("1.2")
@pytest.mark.parametrize("seed", range(250))
def test_random_registrations_agree_with_the_reference(seed, registered):
    assert not differing(seed, registered)


def test_the_order_of_registration_does_not_matter():
    op = Op("test::order")
    slots = [(Key.DEVICE_1, "own"), (Alias.BACKENDS, "backends"), (Alias.ALL, "all"), (Key.AUTOCAST, "autocast")]
    functions = {name: (lambda *args, found=name: found) for _, name in slots}
    seen = set()
    for order in itertools.permutations(slots):
        made = [register(op, key, functions[name]) for key, name in order]
        seen.add(tuple(kernel and kernel.function for kernel in table_of(op).kernels))
        for registration in made:
            registration.remove()
    assert len(seen) == 1
    table = seen.pop()
    assert table[Key.DEVICE_1] is functions["own"]
    assert table[Key.DEVICE_2] is functions["backends"]
    assert table[Key.AUTOCAST] is functions["autocast"]
    assert table[Key.AUTOGRAD] is not functions["all"]  # a kernel for all devices makes the operator a unit


def test_an_implicit_composite_is_seen_through_by_autograd(registered):
    op = Op("test::implicit")
    registered(op, Alias.ALL, lambda *args: "parts")
    assert table_of(op).kernels[Key.AUTOGRAD].function is table_of(op).kernels[Key.DEVICE_2].function


def test_a_second_kernel_in_one_place_is_refused_and_removal_frees_it(registered):
    op = Op("test::twice")
    first = registered(op, Key.DEVICE_1, lambda *args: 1)
    with pytest.raises(RushlightError, match="already is a kernel") as error:
        register(op, Key.DEVICE_1, lambda *args: 2)
    assert error.value.code == "A004"
    first.remove()
    registered(op, Key.DEVICE_1, lambda *args: 2)
    first.remove()  # which is not its own any more
    assert dispatch(op, (Keyed(Key.DEVICE_1),), {}) == 2


def test_a_removed_kernel_leaves_a_clean_error(registered):
    op = Op("test::gone")
    registered(op, Key.DEVICE_1, lambda *args: 1).remove()
    with pytest.raises(RushlightError, match="no kernel answers") as error:
        dispatch(op, (Keyed(Key.DEVICE_1),), {})
    assert "DEVICE_1" in str(error.value)


def test_a_change_of_the_operators_clears_the_tables():
    op = Op("test::generation")
    before = table_of(op)
    assert table_of(op) is before
    record.GENERATION[0] += 1
    assert table_of(op) is not before


def test_fallthrough_passes_over_a_fallback(registered):
    op = Op("test::fall")
    calls = []

    def fallback(op, active, operands, attrs):
        calls.append(op.name)
        return call_below(Key.BATCHED, op, active, operands, attrs)

    keep = register_fallback(Key.BATCHED, fallback)
    try:
        registered(op, Key.DEVICE_1, lambda *args: "device")
        assert dispatch(op, (Keyed(Key.DEVICE_1, Key.BATCHED),), {}) == "device"
        assert calls == ["test::fall"]
        registered(op, Key.BATCHED, FALLTHROUGH)
        assert dispatch(op, (Keyed(Key.DEVICE_1, Key.BATCHED),), {}) == "device"
        assert calls == ["test::fall"]
    finally:
        keep.remove()


def test_kernels_written_in_each_other_end_in_an_error_that_names_them(registered):
    bmm, mm = Op("test::bmm"), Op("test::mm")
    registered(bmm, Key.DEVICE_1, lambda *args: dispatch(mm, args, {}))
    registered(mm, Key.DEVICE_1, lambda *args: dispatch(bmm, args, {}))
    with pytest.raises(RushlightError) as error:
        dispatch(bmm, (Keyed(Key.DEVICE_1),), {})
    assert error.value.code == "A006"
    assert "test::bmm at DEVICE_1" in str(error.value)


def test_endless_reentry_names_the_cycle(registered):
    one, two = Op("test::one"), Op("test::two")
    registered(one, Key.DEVICE_1, lambda *args: dispatch(two, args, {}), reenters=True)
    registered(two, Key.DEVICE_1, lambda *args: dispatch(one, args, {}), reenters=True)
    with pytest.raises(RushlightError, match="without end") as error:
        dispatch(one, (Keyed(Key.DEVICE_1),), {})
    assert "test::one at DEVICE_1 > test::two at DEVICE_1" in str(error.value).replace(
        "test::two at DEVICE_1 > ", "", 1
    ) or ("test::two at DEVICE_1 > test::one at DEVICE_1" in str(error.value))
    assert STATE.running == ()
    assert STATE.excluded == 0


def test_a_kernel_may_opt_in_to_its_own_key_and_the_state_is_restored(registered):
    bmm, mm = Op("test::bmm"), Op("test::mm")

    def rows(tensor, count):
        assert STATE.excluded & bit(Key.DEVICE_1)
        with reenter(Key.DEVICE_1):
            found = [dispatch(mm, (tensor,), {}) for _ in range(count)]
        assert STATE.excluded & bit(Key.DEVICE_1)
        return found

    registered(bmm, Key.DEVICE_1, lambda tensor: rows(tensor, 3))
    registered(mm, Key.DEVICE_1, lambda tensor: "row")
    assert dispatch(bmm, (Keyed(Key.DEVICE_1),), {}) == ["row"] * 3
    assert STATE.excluded == 0


def test_declining_is_not_raising(registered):
    op = Op("test::decline")
    registered(op, Key.DEVICE_2, lambda *args: NotImplemented)
    registered(op, Key.DEVICE_1, lambda *args: "one")
    assert dispatch(op, (Keyed(Key.DEVICE_1, Key.DEVICE_2),), {}) == "one"
    registered(op, Key.DEVICE_3, lambda *args: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        dispatch(op, (Keyed(Key.DEVICE_1, Key.DEVICE_3),), {})


def test_scopes_are_restored_after_exceptions(registered):
    op = Op("test::raise")
    registered(op, Key.DEVICE_1, lambda *args: 1 // 0)
    with include_keys(bit(Key.AUTOCAST)):
        with pytest.raises(ZeroDivisionError), exclude_keys(bit(Key.BATCHED)):
            dispatch(op, (Keyed(Key.DEVICE_1),), {})
        assert (STATE.included, STATE.excluded, STATE.running) == (bit(Key.AUTOCAST), 0, ())
    assert STATE.included == 0


@pytest.mark.row("1.2")
def test_threads_do_not_see_each_others_scopes(registered):
    op = Op("test::threads")
    registered(op, Key.DEVICE_1, lambda *args: "device")
    registered(op, Key.AUTOCAST, lambda *args: "autocast")
    registered(op, Key.BATCHED, lambda *args: "batched")
    barrier = threading.Barrier(3)
    found = {}

    def work(key):
        scope = include_keys(bit(key)) if key is not None else include_keys(0)
        with scope:
            barrier.wait(10)
            found[key] = [dispatch(op, (Keyed(Key.DEVICE_1),), {}) for _ in range(50)]
            barrier.wait(10)

    threads = [threading.Thread(target=work, args=(key,)) for key in (Key.AUTOCAST, Key.BATCHED, None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {Key.AUTOCAST: ["autocast"] * 50, Key.BATCHED: ["batched"] * 50, None: ["device"] * 50}


def test_members_of_tensor_lists_count(registered):
    op = Op("test::list")
    registered(op, Key.DEVICE_1, lambda *args: "one")
    registered(op, Key.DEVICE_2, lambda *args: "two")
    assert dispatch(op, (Keyed(Key.DEVICE_1), (None, Keyed(Key.DEVICE_2)), 1.0), {}) == "two"


def test_backends_are_the_lowest_keys():
    assert BACKENDS & ALL_KEYS == BACKENDS
    assert BACKENDS < bit(Key.TRACING) < bit(Key.PYTHON) < bit(Key.AUTOGRAD)
