"""Native backward passes against Python's: the same bits, the same order of hooks, the same errors and lifetimes."""

import gc
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest
from tests.eager.native_outcomes import both, native_only

import rushlight as rl
from rushlight.autodiff import backward
from rushlight.eager import python_calls
from rushlight.eager.autograd import driver
from rushlight.eager.autograd.operation import OperatorNode
from rushlight.eager.native import learning
from rushlight.runtime import allocator

pytestmark = [pytest.mark.core, pytest.mark.unpoisoned]
WAYS = {"python": python_calls, "native": learning.native_calls}


def bits(tensor):
    return None if tensor is None else (tensor.numpy(force=True).tobytes(), tuple(tensor.shape), tensor.stride())


def leaves():
    rng = np.random.default_rng(0)
    return [rl.tensor(rng.standard_normal((3, 3)).astype("float32")).requires_grad_() for _ in range(3)]


class Twice(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 2


def written_in_place(a, b, c):
    x = a * b
    x[1:].mul_(c[1:])
    return x * a


def after_retained(a, b, c):
    x = a * b
    x.retain_grad()
    return x.exp() * c


PROGRAMS = {
    "chain": lambda a, b, c: ((a * 2.0) * 3.0).exp(),
    "meets": lambda a, b, c: (a * b) + (a * c) - a,
    "same-twice": lambda a, b, c: a + a,
    "alias": lambda a, b, c: a + b,
    "square": lambda a, b, c: (a * a) * (b * b),
    "views": lambda a, b, c: a.mT[1:] * b[:2, :] + c[0],
    "broadcast": lambda a, b, c: a[0] * b * c[:, :1],
    "reductions": lambda a, b, c: (a * b).sum(0) * c.mean() + a.amax(1),
    "products": lambda a, b, c: (a @ b).relu() @ c,
    "several-results": lambda a, b, c: sum(part * c for part in (a * b).unbind()),
    "list": lambda a, b, c: rl.cat([a, b, a * c]),
    "integers": lambda a, b, c: rl.where(a > 0, a * b, c),
    "sorted": lambda a, b, c: (a * b).sort().values * c,
    "custom": lambda a, b, c: Twice.apply(a * b) + c,
    "in-place": written_in_place,
    "retained": after_retained,
    "parameter-alone": lambda a, b, c: a,
    "no-path": lambda a, b, c: a * b.detach(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_have_the_bits_of_python_passes(name):
    def program():
        inputs = leaves()
        result = PROGRAMS[name](*inputs)
        result.backward(rl.ones_like(result) * 0.5)
        first = [bits(one.grad) for one in inputs]
        if name != "parameter-alone":
            result = PROGRAMS[name](*inputs)
            result.backward(rl.ones_like(result), retain_graph=True)
            result.backward(rl.ones_like(result))
        return first, [bits(one.grad) for one in inputs], [one.grad is not None and one.grad._version for one in inputs]

    both(program)


def watched(log, name):
    def hook(*arguments):
        shown = [bits(one) if isinstance(one, rl.Tensor) else [bits(part) for part in one] for one in arguments]
        log.append((name, shown))

    return hook


def test_hooks_of_all_kinds_run_in_the_order_of_python_passes():
    def program():
        log = []
        a, b, c = leaves()
        x = a * b
        y = x.exp() + x
        z = y * c + a
        for name, tensor in {"a": a, "x": x, "y": y}.items():
            tensor.register_hook(watched(log, f"{name} tensor"))
        x.retain_grad()
        for name, tensor in {"x": x, "y": y, "z": z}.items():
            tensor.grad_fn.register_prehook(watched(log, f"{name} before"))
            tensor.grad_fn.register_hook(watched(log, f"{name} after"))
        for name, tensor in {"a": a, "c": c}.items():
            tensor.register_post_accumulate_grad_hook(watched(log, f"{name} accumulated"))
        z.backward(rl.ones(3, 3))
        return log, bits(x.grad), [bits(one.grad) for one in (a, b, c)]

    log, *_ = both(program)
    assert len(log) == 3 + 3 + 3 + 2


def test_a_hook_replaces_what_arrives():
    def program():
        a, b, _ = leaves()
        x = a * b
        x.register_hook(lambda gradient: gradient * 10)
        x.grad_fn.register_hook(lambda given, arrived: (given[0] * 2, None))
        (x * x).backward(rl.ones(3, 3))
        return bits(a.grad), bits(b.grad)

    assert both(program)[1] is None


STEPS = (
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a.sigmoid(),
    lambda a, b: a * 0.5,
    lambda a, b: a.mT,
    lambda a, b: rl.where(a < b, a, b),
)


def random_tape(seed):
    """Steps in random order on random earlier values, hooks on some; what the pass does."""
    rng = np.random.default_rng(seed)
    values = leaves()
    log = []
    for number in range(int(rng.integers(1, 40))):
        a, b = (values[int(at)] for at in rng.integers(max(0, len(values) - 8), len(values), 2))
        value = STEPS[int(rng.integers(0, len(STEPS)))](a, b)
        values.append(value)
        if rng.random() < 0.2 and value.requires_grad:
            value.register_hook(lambda gradient, number=number: log.append((number, bits(gradient))))
    roots = [value for value in values[3:] if rng.random() < 0.2 or value is values[-1]]
    rl.autograd.backward(roots, [rl.ones(3, 3)] * len(roots))
    return log, [bits(one.grad) for one in values[:3]]


@pytest.mark.parametrize("seed", range(12))
def test_random_tapes_give_what_python_passes_give(seed):
    both(lambda: random_tape(seed))


def aimed_tape(seed):
    """As `random_tape`, with the gradients at random values, some of them twice, and some that nothing leads to."""
    rng = np.random.default_rng(seed)
    values, log = leaves(), []
    for number in range(int(rng.integers(1, 40))):
        a, b = (values[int(at)] for at in rng.integers(max(0, len(values) - 8), len(values), 2))
        value = STEPS[int(rng.integers(0, len(STEPS)))](a, b)
        values.append(value)
        if rng.random() < 0.2 and value.requires_grad:
            value.register_hook(lambda gradient, number=number: log.append((number, bits(gradient))))
        if rng.random() < 0.1:
            value.retain_grad()
    if rng.random() < 0.5:
        values[1].register_hook(lambda gradient: gradient * 2)
    roots = [value for value in values[3:] if rng.random() < 0.2 or value is values[-1]]
    wanted = [values[int(at)] for at in rng.integers(0, len(values), int(rng.integers(1, 6)))]
    starts = [rl.ones(3, 3)] * len(roots)
    keep = bool(rng.random() < 0.5)
    found = rl.autograd.grad(roots, wanted, starts, retain_graph=keep, allow_unused=True)
    if keep:
        rl.autograd.backward(roots, starts, inputs=wanted[:2])
    kept = [bits(value.grad) for value in values if value.is_leaf or value.retains_grad]
    return (log, [bits(one) for one in found], kept), [step.grad_fn.released for step in values[3:]]


@pytest.mark.parametrize("seed", range(24))
def test_gradients_at_given_places_are_those_of_python_passes(seed):
    both(lambda: aimed_tape(seed)[0])


def test_gradients_at_given_places_free_the_steps_that_python_passes_free():
    for seed in range(24):
        both(lambda seed=seed: aimed_tape(seed)[1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_inputs_have_the_bits_of_python_passes(name):
    def program():
        inputs = leaves()
        result = PROGRAMS[name](*inputs)
        found = rl.autograd.grad(result, inputs, rl.ones_like(result) * 0.5, allow_unused=True)
        return [bits(one) for one in found], [one.grad is None for one in inputs]

    assert both(program)[1] == [True] * 3


def test_passes_to_inputs_run_only_what_leads_there():
    def program():
        a, b, c = leaves()
        ran = []
        x, y = a * b, b * c
        x.grad_fn.register_hook(lambda given, arrived: ran.append("x"))
        y.grad_fn.register_hook(lambda given, arrived: ran.append("y"))
        total = x + y
        first = rl.autograd.grad(total, a, rl.ones(3, 3), retain_graph=True)
        at_x = rl.autograd.grad(total, [x, x], rl.ones(3, 3), retain_graph=True)
        through = rl.autograd.grad(total, [x, b], rl.ones(3, 3))
        return ran, [bits(one) for one in (*first, *at_x, *through)], (x.grad_fn.released, y.grad_fn.released)

    assert both(program)[0] == ["x", "y", "x"]


def test_what_is_not_reached_is_an_error_or_none():
    for way in WAYS.values():
        with way():
            a, b, _ = leaves()
            x = a * 2.0
            assert rl.autograd.grad(x, [a, b], rl.ones(3, 3), retain_graph=True, allow_unused=True)[1] is None
            with pytest.raises(rl.RushlightError) as caught:
                rl.autograd.grad(x, b, rl.ones(3, 3))
            assert caught.value.code == "G009"


@native_only
@pytest.mark.parametrize("aimed", [False, True])
def test_ordinary_passes_run_no_python_step(aimed):
    a, b, _ = leaves()

    def program():
        x = a
        for _ in range(20):
            x = x * b.detach() + 0.5
        return x

    def walk(result):
        return rl.autograd.grad(result, a, start) if aimed else result.backward(start)

    start = rl.ones(3, 3)
    for _ in range(3):
        walk(program())
        a.grad = None
    called = []
    result = program()
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code) if event == "call" else None)
    try:
        walk(result)
    finally:
        sys.setprofile(None)
    names = {code.co_name for code in called}
    assert not {"take", "prepare", "finish", "accumulate", "saved_tensors"} & names
    assert OperatorNode.run.__code__ not in called
    assert backward.walk.__code__ not in called
    assert driver.Pass.walk.__code__ in called
    assert len(called) < 60


def test_a_pass_frees_what_it_used_and_says_so_the_second_time():
    a, b, _ = leaves()
    for _ in range(4):
        x = a * b
        x.backward(rl.ones(3, 3))
        assert x.grad_fn.released
        with pytest.raises(rl.RushlightError) as caught:
            x.backward(rl.ones(3, 3))
        assert caught.value.code == "G001"
    x = a + b
    x.backward(rl.ones(3, 3))
    x.backward(rl.ones(3, 3))  # sums save nothing


def test_a_write_to_what_was_saved_is_an_error_of_its_line():
    a, b, _ = leaves()
    b = b.detach()
    for _ in range(4):
        (a * b).backward(rl.ones(3, 3))
    x = (a * b) * 2.0
    b.add_(1)
    with pytest.raises(rl.RushlightError) as caught:
        x.backward(rl.ones(3, 3))
    assert caught.value.code == "G003"
    assert "x = (a * b) * 2.0" in str(caught.value.frame)


class Refused(Exception):
    """A hook's error."""


@pytest.mark.parametrize("error", [Refused, KeyboardInterrupt])
def test_errors_of_hooks_end_a_pass_and_leave_nothing(error):
    a, b, _ = leaves()
    start = rl.ones(3, 3)
    for _ in range(3):
        ((a * b) * b).backward(start)

    def refuse(gradient):
        raise error

    def program():
        x = a * b
        x.register_hook(refuse)
        y = x * b
        with pytest.raises(error):
            y.backward(start)
        return weakref.ref(x.grad_fn), weakref.ref(y)

    gc.collect()
    gc.disable()
    try:
        before = allocator.CPU.statistics().used_bytes
        assert [one() for one in program()] == [None, None]
        assert allocator.CPU.statistics().used_bytes == before
    finally:
        gc.enable()
    a.grad = None
    (a * b).backward(start)
    assert bits(a.grad) == bits(b.detach() * start)


def test_passes_leave_no_memory():
    a, b, c = leaves()
    start = rl.ones(3, 3)

    def program():
        a.grad = b.grad = c.grad = None
        x = (a * b).exp() + (a * c)
        y = x * x
        rl.autograd.grad(y, [x, a, a], start, retain_graph=True)
        y.backward(start)

    for _ in range(3):
        program()
    gc.collect()
    gc.disable()
    try:
        before = allocator.CPU.statistics().used_bytes, len(gc.get_objects())
        for _ in range(50):
            program()
        after = allocator.CPU.statistics().used_bytes, len(gc.get_objects())
        assert after[0] == before[0]
        assert abs(after[1] - before[1]) < 10
    finally:
        gc.enable()


def test_a_first_gradient_is_taken_where_nobody_else_has_it():
    def program():
        a, b, _ = leaves()
        start = rl.ones(3, 3)
        (a * b).backward(start)
        shared = (a.grad is start, b.grad is start)
        c = rl.zeros(3, 3, requires_grad=True)
        (c + 1.0).backward(start)
        d = rl.zeros(3, 3, requires_grad=True)
        (d + d).backward(start)
        e, f = rl.zeros(3, 3, requires_grad=True), rl.zeros(3, 3, requires_grad=True)
        (e + f).backward(start * 2.0)
        gradients = [one.grad for one in (a, b, c, d, e, f)]
        storages = [one.backing for one in (*gradients, start)]
        alone = [len([other for other in storages if other is one]) for one in storages]
        return shared, alone, [bits(one) for one in gradients]

    assert both(program)[1] == [1] * 7


def test_a_leaf_keeps_its_own_layout():
    def program():
        leaf = rl.zeros(3, 2).mT.requires_grad_()
        strange = rl.zeros(2, 3)[:, :2].requires_grad_()
        (leaf * rl.ones(2, 3)).backward(rl.ones(2, 3))
        (strange * rl.ones(2, 2)).backward(rl.ones(2, 2))
        return leaf.grad.stride(), strange.grad.stride()

    both(program)


def test_wide_and_long_tapes():
    def program():
        many = [rl.full((2,), float(number), requires_grad=True) for number in range(700)]
        total = many[0]
        for one in many[1:]:
            total = total + one * one
        for _ in range(2000):
            total = total * 1.0001
        total.backward(rl.ones(2))
        return [bits(one.grad) for one in many]

    both(program)


def test_a_pass_within_a_hook_and_in_threads():
    def program():
        a, b, c = leaves()
        x = a * b

        def walk_again(gradient):
            with rl.enable_grad():
                (b * c).backward(gradient.detach())

        x.register_hook(walk_again)
        (x * x).backward(rl.ones(3, 3))
        return [bits(one.grad) for one in (a, b, c)]

    expected = both(program)
    results = []
    threads = [threading.Thread(target=lambda: results.append([program() for _ in range(20)])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(itertools.chain(*results)) == [expected] * 60


def test_anomaly_mode_and_graphs_of_gradients_go_through_python():
    a, b, _ = leaves()
    for _ in range(3):
        (a * b).backward(rl.ones(3, 3))
    with rl.autograd.detect_anomaly(), pytest.raises(rl.RushlightError) as caught:
        (a * float("nan")).backward(rl.ones(3, 3))
    assert caught.value.code == "G021"
    a.grad = None
    (a * a).backward(rl.ones(3, 3), create_graph=True)
    assert a.grad.requires_grad
