"""Native eager calls against Python's: the same results, errors and bookkeeping, with no frame of Python in between."""

import gc
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from tests.eager.native_outcomes import described, frames, later_frames, native_only, outcome, tape_of

import rushlight as rl
from rushlight.eager import python_calls
from rushlight.eager.autograd.operation import OperatorNode
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import Key, register
from rushlight.eager.native import layout, learning
from rushlight.ops.record import OPERATORS
from rushlight.runtime import allocator

pytestmark = [pytest.mark.core, pytest.mark.unpoisoned]


CALLS = {
    "add": lambda x, y: x + y,
    "sub-number": lambda x, y: x - 2.5,
    "mul-whole": lambda x, y: x * 3,
    "power": lambda x, y: x.abs() ** 1.5,
    "relu": lambda x, y: x.relu(),
    "less": lambda x, y: x < y,
    "where": lambda x, y: rl.where(x < y, x, y),
    "maximum": lambda x, y: rl.maximum(x, y),
    "detach": lambda x, y: x.detach(),
}


@native_only
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_run_no_python_below_the_method(name):
    x, y = rl.tensor([1.0, -2.0, 3.0]), rl.tensor([0.5, 0.5, 4.0])
    call = CALLS[name]
    names = later_frames(lambda: call(x, y))
    assert "dispatch" not in names
    assert "run_on_cpu" not in names
    with python_calls():
        assert "run_on_cpu" in frames(lambda: call(x, y))


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.mT,
    "offset": lambda x: x[1:, 1:],
    "stepped": lambda x: x[::2, ::2],
    "expanded": lambda x: x[:1].expand(4, 4),
    "0-d": lambda x: x[0, 0],
}


@pytest.mark.parametrize("layout_name", LAYOUTS)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int32, rl.uint8, rl.bool, rl.bfloat16, rl.complex64])
def test_results_have_the_bits_and_strides_of_python_calls(dtype, layout_name):
    x = rl.arange(16).reshape(4, 4).to(dtype)
    y = (rl.arange(16).reshape(4, 4) % 3).to(dtype)
    x, y = LAYOUTS[layout_name](x), LAYOUTS[layout_name](y)
    for name, call in CALLS.items():
        outcomes = []
        for scope in (python_calls, learning.native_calls, learning.native_calls):
            with scope():
                try:
                    outcomes.append(described(rl.view_as_real(r) if (r := call(x, y)).dtype.is_complex else r))
                except rl.RushlightError as error:
                    outcomes.append((error.code, error.message))
        assert outcomes[0] == outcomes[1] == outcomes[2], name


@pytest.mark.parametrize("dtype", [rl.uint8, rl.int64, rl.float16, rl.float32, rl.float64])
def test_numbers_give_what_they_give_in_python(dtype):
    x = rl.ones(3, dtype=dtype)
    calls = [
        lambda x, n: x + n,
        lambda x, n: x < n,
        lambda x, n: rl.where(x == 1, x, n),
        lambda x, n: x.masked_fill(x == 1, n),
    ]
    for number, call in [(number, call) for number in (1, True, 2.5) for call in calls]:
        for _ in range(3):
            call(x, number)
    numbers = (3, -3, 300, 1 << 40, 1 << 63, -(1 << 70), True, 1.5, -2.0, 1e39, -1e300, float("inf"), float("nan"))
    for call in calls:
        for number in numbers:
            with python_calls():
                expected = outcome(lambda number=number, call=call: call(x, number))
            for _ in range(3):
                assert outcome(lambda number=number, call=call: call(x, number)) == expected, number


@native_only
def test_a_registration_is_asked_at_once():
    x = rl.ones(3)
    for _ in range(3):
        x.relu()
    seven = rl.full((3,), 7.0)
    registration = register(OPERATORS["relu"], Key.CPU, lambda x: seven)
    try:
        assert x.relu().tolist() == [7, 7, 7]
    finally:
        registration.remove()
    for _ in range(3):
        assert x.relu().tolist() == [1, 1, 1]
    assert "run_on_cpu" not in frames(x.relu)


def test_a_scope_in_a_compiled_function_is_that_of_eager_calls():
    w = rl.ones(3).requires_grad_()

    def called(x):
        with python_calls():
            y = x * 2.0
        return y, y.form.symbolic, y.grad_fn.name()

    compiled = rl.compile(called)
    for _ in range(3):
        assert compiled(w)[1:] == called(w)[1:] == (False, "MulBackward0")


def test_scopes_are_of_one_thread():
    x, w = rl.ones(3), rl.ones(3).requires_grad_()
    for _ in range(3):
        x + x
    results = {}
    begun, go = threading.Barrier(2), threading.Barrier(2)

    def work():
        with rl.no_grad():
            begun.wait()
            results["inside"] = [(w * x).requires_grad for _ in range(50)]
            go.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert all((w * x).requires_grad for _ in range(50))
    go.wait()
    thread.join()
    assert not any(results["inside"])


def test_no_grad_calls_are_native_and_recorded_ones_have_a_history():
    x = rl.ones(3).requires_grad_()
    with rl.no_grad():
        for _ in range(3):
            assert not (x * x).requires_grad
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


RECORDED = {
    "product": lambda w, x: w * x,
    "product-of-itself": lambda w, x: w * w,
    "second-operand": lambda w, x: x - w,
    "attribute": lambda w, x: x / w,
    "number": lambda w, x: w * 2.5,
    "whole-number": lambda w, x: w + 3,
    "saves-result": lambda w, x: w.exp(),
    "saves-result-and-operand": lambda w, x: (w.abs() + 1) ** x,
    "three-operands": lambda w, x: rl.where(w < x, w, x),
    "of-a-step": lambda w, x: (w * x).sigmoid() - w,
    "view": lambda w, x: w.mT * x,
    "view-of-a-step": lambda w, x: (w * x)[1:] * 2.0,
    "no-derivative": lambda w, x: w < x,
    "constant": lambda w, x: w.detach() * x,
}


PARTLY_PYTHON = ("view", "view-of-a-step", "constant")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_calls_write_the_tape_that_python_writes(name):
    w = rl.arange(9.0).reshape(3, 3).requires_grad_()
    x = rl.full((3, 3), 2.0)
    call = RECORDED[name]
    for _ in range(3):
        call(w, x)
    results = []
    for scope in (python_calls, learning.native_calls):
        with scope():
            results.append(call(w, x))
    assert tape_of(results[0]) == tape_of(results[1])
    assert described(results[0].detach()) == described(results[1].detach())
    if results[0].requires_grad:
        gradients = [rl.autograd.grad(one.sum(), w)[0] for one in results]
        assert described(gradients[0]) == described(gradients[1])


@native_only
@pytest.mark.parametrize("name", [name for name in RECORDED if name not in PARTLY_PYTHON])
def test_recorded_calls_run_no_python_below_the_method(name):
    w, x = rl.arange(9.0).reshape(3, 3).requires_grad_(), rl.full((3, 3), 2.0)
    call = RECORDED[name]
    assert not {"dispatch", "record", "run_on_cpu", "user_frame"} & set(later_frames(lambda: call(w, x)))


@native_only
def test_derivatives_are_computed_natively():
    x, w = rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]).requires_grad_()
    for _ in range(4):
        (w * x).sum().backward()
    assert w.grad.tolist() == [4, 8]
    result = (w * x).exp()
    start = rl.ones(2)
    result.backward(start)
    result = (w * x).exp()
    assert "allocate_many" not in frames(lambda: result.backward(start, inputs=[w]))
    with python_calls():
        result = (w * x).exp()
        assert "allocate_many" in frames(lambda: result.backward(start, inputs=[w]))


def learned(call):
    for _ in range(3):
        call()
    return call


def test_what_a_recorded_call_saved_is_checked_for_writes():
    w, x = rl.ones(3).requires_grad_(), rl.ones(3)
    result = learned(lambda: w * x)()
    x.add_(1)
    with pytest.raises(rl.RushlightError, match="changed in place") as caught:
        result.sum().backward()
    assert caught.value.code == "G003"
    assert "w * x" in str(caught.value.frame)
    result = learned(w.exp)()
    with rl.no_grad():
        result.mul_(2)
    with pytest.raises(rl.RushlightError, match="changed in place"):
        result.sum().backward()


def test_hooks_see_what_recorded_calls_save():
    w, x = rl.ones(3).requires_grad_(), rl.full((3,), 2.0)
    call = learned(lambda: w * x)
    seen = []
    with rl.autograd.graph.saved_tensors_hooks(
        lambda tensor: seen.append(tensor.tolist()) or tensor, lambda kept: kept
    ):
        call()
    assert seen == [[2.0, 2.0, 2.0]]


def test_recorded_calls_follow_a_base_that_was_written_to():
    w, x = rl.ones(3).requires_grad_(), rl.full((3,), 2.0)
    outcomes = []
    for scope in (python_calls, learning.native_calls):
        with scope():
            base = w * x
            view = base[1:]
            learned(lambda view=view: view * 3.0)
            base.mul_(x)
            (gradient,) = rl.autograd.grad((view * 3.0).sum(), w)
            outcomes.append((view.grad_fn.name(), gradient.tolist()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == [0, 12, 12]


DETACHED = {
    "plain": lambda: rl.arange(6.0).reshape(2, 3),
    "leaf": lambda: rl.ones(2, 3, requires_grad=True),
    "computed": lambda: rl.ones(2, 3, requires_grad=True) * 2,
    "view": lambda: rl.arange(12.0).reshape(4, 3)[1:3].t(),
    "view of a computed one": lambda: (rl.ones(4, 3, requires_grad=True) * 2)[1:3],
    "parameter": lambda: rl.nn.Parameter(rl.ones(2, 3)),
    "integers": lambda: rl.arange(6),
    "empty": lambda: rl.ones(0, 3),
    "meta": lambda: rl.ones(2, 3, device="meta"),
}


@pytest.mark.parametrize("name", DETACHED)
def test_detached_tensors_are_those_of_python_calls(name):
    def detached():
        x = DETACHED[name]()
        y = x.detach()
        same = y.backing is x.backing, y.version is x.version, y.form is x.form, y.offset == x.offset, y is x
        return same, type(y), y.keys, y.requires_grad, y.is_leaf, y.view_of is None, y.gradient is None

    with python_calls():
        expected = detached()
    for _ in range(3):
        assert detached() == expected


def test_a_write_to_a_detached_tensor_is_seen_by_the_tape():
    for _ in range(3):
        w = rl.ones(2, requires_grad=True)
        z = w.exp()
        z.detach().mul_(2.0)
        assert z.detach().tolist() == z.tolist() and z._version == 1
        with pytest.raises(rl.RushlightError) as caught:
            z.sum().backward()
        assert caught.value.code == "G003"


def test_writes_to_data_are_not_counted_as_the_tensors():
    w, x = rl.ones(3).requires_grad_(), rl.full((3,), 2.0)
    shown = x.data
    for _ in range(4):
        result = w * shown
        x.data.add_(1)
        result.sum().backward()
    assert w.grad.tolist() == [18, 18, 18]


def test_a_recorded_call_knows_the_line_in_a_replayed_program():
    program = rl.export.export(lambda a, b: (a * b).exp(), (rl.ones(3), rl.ones(3))).module()
    w = rl.ones(3).requires_grad_()
    lines = []
    for _ in range(4):
        lines.append(str(program(w, rl.ones(3)).grad_fn.frame))
        learned(lambda: (w * 2.0).exp())
    assert len(set(lines)) == 1
    assert "(a * b).exp()" in lines[0]


def test_sinks_live_as_long_as_someone_refers_to_them():
    w, x = rl.ones(3).requires_grad_(), rl.ones(3)
    first = learned(lambda: w * x)()
    (sink, _), _ = first.grad_fn.next_functions
    assert (w + x).grad_fn.next_functions[0][0] is sink
    seen = []
    sink.register_prehook(lambda gradients: seen.append(gradients[0].tolist()))
    (w * x).sum().backward()
    assert seen == [[1, 1, 1]]
    del first, sink
    assert w.gradient.sink() is None


def test_recorded_calls_leave_nothing_behind():
    w, x = rl.ones(3).requires_grad_(), rl.ones(3)
    call = learned(lambda: (w * x).exp() * 1.5)
    gc.collect()
    objects = [w, x, w.form, None, OPERATORS["mul"], OperatorNode, SavedTensor]
    counts = [sys.getrefcount(one) for one in objects]
    before = allocator.CPU.statistics().used_bytes
    gc.disable()
    try:
        for _ in range(300):
            call()
        assert allocator.CPU.statistics().used_bytes == before
        assert [abs(sys.getrefcount(one) - count) < 100 for one, count in zip(objects, counts, strict=True)] == [
            True
        ] * 7
    finally:
        gc.enable()


def test_threads_that_record_keep_apart():
    w, x = rl.ones(3).requires_grad_(), rl.full((3,), 2.0)
    failures = []

    def work(number):
        for _ in range(200):
            result = (w * x) * float(number)
            (gradient,) = rl.autograd.grad(result.sum(), w)
            if gradient.tolist() != [2.0 * number] * 3:
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_memory_of_results_is_counted_and_comes_back():
    x = rl.ones(100)
    for _ in range(3):
        x + x
    gc.collect()
    before = allocator.CPU.statistics()
    kept = [x + x for _ in range(10)]
    during = allocator.CPU.statistics()
    assert during.used_bytes - before.used_bytes == 10 * 448
    assert during.allocations - before.allocations == 10
    del kept
    after = allocator.CPU.statistics()
    assert after.used_bytes == before.used_bytes
    for _ in range(1000):
        x + x
    assert allocator.CPU.statistics().reserved_bytes == after.reserved_bytes
    allocator.CPU.empty_cache()
    assert (x + x).tolist() == [2.0] * 100


def test_calls_keep_no_references():
    x, y = rl.ones(3), rl.ones(3)
    number = 1.25
    for _ in range(3):
        x + y, x * number
    objects = [x, y, x.form, number, type(x), OPERATORS["add"], OPERATORS["mul"], allocator.Storage]
    gc.collect()
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(200):
        x + y, x * number
    assert [sys.getrefcount(one) for one in objects] == before


def test_a_result_that_outlives_the_table_is_whole():
    x = rl.arange(8.0)
    kept = [x + number for number in range(3)]
    learned = [x * float(number) for number in range(20)]
    rl.library.Library  # noqa: B018 - loads what registers operators
    del x
    gc.collect()
    assert [one.sum().item() for one in kept] == [28, 36, 44]
    assert learned[2].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_many_signatures_fit_the_table():
    for size in range(1, 40):
        x = rl.ones(size)
        assert [float((x + x).sum()) for _ in range(2)] == [2.0 * size] * 2


def test_slots_are_found_by_looking():
    class Small:
        __slots__ = ("first", "second")

    class Open:
        @property
        def second(self):
            return 0

        @second.setter
        def second(self, value):
            pass

    assert layout.slot_offset(Small, "first") != layout.slot_offset(Small, "second")
    with pytest.raises(rl.RushlightError, match="does not lie"):
        layout.slot_offset(Open, "second")


@pytest.mark.parametrize("ending", ["", "if os.fork():\n    os.wait()\nelse:\n    assert (x + x).sum().item() == 8"])
def test_processes_end_well(ending):
    program = """
        import os, threading
        import rushlight as rl
        x = rl.ones(4)
        kept = [x + x for _ in range(10)]
        class Late:
            def __del__(self, kept=kept, x=x):
                x + x
        late = Late()
        thread = threading.Thread(target=lambda: [x + x for _ in range(10)])
        thread.start()
        thread.join()
    """
    program = textwrap.dedent(program) + ending
    # From 3.12 on Python warns of a fork while a thread that was joined is still about to go.
    quiet = "ignore:This process:DeprecationWarning"
    done = subprocess.run([sys.executable, "-W", quiet, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("choice", ["native", "python"])
def test_the_setting_says_what_makes_calls(choice):
    program = """
        import rushlight as rl
        from rushlight.eager.native import learning
        x = rl.ones(4)
        for _ in range(3):
            x + x
        print(len(learning.loaded()), (x + x).tolist())
    """
    environment = {**os.environ, "RUSHLIGHT_EAGER_CALLS": choice}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.stdout == f"{int(choice == 'native')} [2.0, 2.0, 2.0, 2.0]\n", done.stderr


def test_arrays_that_show_a_result_keep_its_memory():
    x = rl.ones(4)
    for _ in range(3):
        x + x
    array = (x + x).numpy()
    for _ in range(50):
        x * 0.0
    assert array.tolist() == [2, 2, 2, 2]
    assert isinstance(array, np.ndarray)
