"""Dispatch against a reference interpreter of thirty lines, with random registrations and scopes."""

import itertools
import random
import threading

import pytest

from rushlight.eager.dispatch import (
    ALL_KEYS,
    BACKENDS,
    FALLTHROUGH,
    STATE,
    Alias,
    Dispatched,
    Key,
    bit,
    call_below,
    dispatch,
    exclude_keys,
    include_keys,
    reenter,
    register,
    register_fallback,
    table,
    table_of,
)
from rushlight.ops import record
from rushlight.support.errors import RushlightError
from rushlight.term import Op

FREE = [Key.DEVICE_1, Key.DEVICE_2, Key.DEVICE_3, Key.PYTHON, Key.FUNCTIONALIZE, Key.AUTOCAST, Key.BATCHED]


class Keyed(Dispatched):
    """A value that is nothing but its keys."""

    __slots__ = ()

    def __init__(self, *keys):
        self.keys = sum({bit(key) for key in keys})

    def apply(self, op, args, attrs):
        return dispatch(op, args, attrs)

    shape = dtype = device = None


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A table without anybody's kernels."""
    monkeypatch.setattr(table, "_kernels", {})
    table.tables.clear()
    yield
    table.tables.clear()


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


# The reference: an operator is a dict from keys to (what it does, whether it re-enters). Doing is "return", "decline",
# or ("call", the name of another operator).
def reference(ops, name, tensor, included, excluded, log, depth=0):
    active = (tensor | included) & ~excluded
    for key in sorted(FREE, reverse=True):
        if not active >> key & 1 or key not in ops[name]:
            continue
        does, reenters = ops[name][key]
        log.append((name, key.name))
        if does == "decline":
            continue
        if does == "return":
            return key
        if depth > 6:
            raise RecursionError
        inner = excluded if reenters else excluded | bit(key)
        return reference(ops, does[1], tensor, included, inner, log, depth + 1)
    raise LookupError(name)


def build(ops, log, registered):
    """The same operators in the real tables."""
    made = {name: Op(f"test::{name}") for name in ops}
    for name, kernels in ops.items():
        for key, (does, reenters) in kernels.items():

            def kernel(*operands, name=name, key=key, does=does):
                log.append((name, key.name))
                if does == "decline":
                    return NotImplemented
                if does == "return":
                    return key
                if len(STATE.running) > 7:
                    raise RecursionError
                return dispatch(made[does[1]], operands, {})

            registered(made[name], key, kernel, reenters=reenters)
    return made


@pytest.mark.parametrize("seed", range(250))
def test_random_registrations_agree_with_the_reference(seed, registered):
    rng = random.Random(seed)
    names = ["a", "b", "c"]
    ops = {
        name: {
            key: (
                rng.choice(["return", "return", "decline", ("call", rng.choice(names))]),
                rng.random() < 0.15,
            )
            for key in FREE
            if rng.random() < 0.6
        }
        for name in names
    }
    log = []
    made = build(ops, log, registered)
    for _ in range(40):
        tensors = [Keyed(*rng.sample(FREE, rng.randrange(0, 4))) for _ in range(2)]
        included = sum({bit(key) for key in FREE if rng.random() < 0.15})
        excluded = sum({bit(key) for key in FREE if rng.random() < 0.15})
        name = rng.choice(names)
        expected_log, log[:] = [], []
        keys = tensors[0].keys | tensors[1].keys
        try:
            expected = reference(ops, name, keys, included, excluded, expected_log)
        except (LookupError, RecursionError) as error:
            expected = type(error)
        before = (STATE.included, STATE.excluded, STATE.running)
        STATE.included, STATE.excluded = included, excluded
        try:
            found = dispatch(made[name], tuple(tensors), {})
        except RushlightError as error:
            assert error.code == "A006"
            found = LookupError
        except RecursionError:
            found = RecursionError
        finally:
            assert (STATE.included, STATE.excluded, STATE.running) == (included, excluded, before[2])
            STATE.included, STATE.excluded, STATE.running = before
        assert found == expected
        if expected is not RecursionError:
            assert log == expected_log


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
    record.generation += 1
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
