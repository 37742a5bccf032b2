"""Entry points: sizes from descriptors, assertions before work, the arena, launches, interrupts, equal kernels once."""

import ctypes

import numpy as np
import pytest
from tests.codegen.kernel_oracle import kernel, parallel

from rushlight.codegen.llvm import emit_module
from rushlight.codegen.llvm.entry import entry as entry_module
from rushlight.ir.dtype import float32
from rushlight.ir.kernel import Kernel, Store
from rushlight.ir.plan import ArenaSlot, Assertion, Launch, Plan, SymbolSource
from rushlight.ir.scalar import Buffer, constant, load
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm
from rushlight.sym import axis_symbol, ceildiv, size_of_code

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)


@pytest.fixture(autouse=True, params=["spelled out", "in a table"])
def launches(request, monkeypatch):
    """Launches are spelled out where there are few, else rows of a table: every test sees both."""
    monkeypatch.setattr(entry_module, "FEW_LAUNCHES", 8 if request.param == "spelled out" else 0)


class RecordingContext:
    """A ctx of our own, whose parallel_for notes its calls and runs shares one after the other."""

    def __init__(self, arena_bytes: int = 0) -> None:
        self.calls: list[tuple[int, int]] = []
        self.arena = np.zeros(arena_bytes + 64, np.uint8)
        self.interrupt = np.zeros(1, np.uint8)
        self.parallel_for = PARALLEL_FOR(self._run)
        address = (self.arena.ctypes.data + 63) & ~63
        callback = ctypes.cast(self.parallel_for, ctypes.c_void_p).value
        self.words = np.array([address, arena_bytes, 0, callback, self.interrupt.ctypes.data, 2, 0, 0], np.int64)
        self.during = lambda: None

    def _run(self, ctx, function, args, count, grain):
        self.calls.append((count, grain))
        share = SHARE(function)
        for begin in range(0, count, grain):
            share(args, begin, min(begin + grain, count))
        self.during()

    def call(self, entry, arrays):
        """The status of a call; a descriptor is made for each array."""
        items = [
            np.array([a.ctypes.data, a.ndim | 11 << 8, *a.shape, *(s // 4 for s in a.strides)], np.int64)
            for a in arrays
        ]
        pointers = np.array([item.ctypes.data for item in items], np.int64)
        return entry(self.words.ctypes.data, pointers.ctypes.data)


def tensor(name, *shape, scope="global", strides=None):
    return Buffer(name, TensorType(shape, float32, strides=strides), scope)


def pointwise(op):
    """A kernel out[i] = op(x[i]) with names and symbols of its own."""
    n = size_of_code("n")
    i, x, out = axis_symbol(n, "i"), tensor("x", n), tensor("out", n)
    return kernel(parallel(i, Store(out, i, op(load(x, i)))))


def two_steps(grain=1000):
    """y = (x + 1) * 3 by way of the arena; x has n >= 2 elements."""
    n = size_of_code("n")
    x, middle, y = tensor("x", n), tensor("t", n, scope="arena"), tensor("y", n)
    kernels = (pointwise(lambda a: a + 1.0), pointwise(lambda a: a * 3.0))
    size = ceildiv(n * 4, 64) * 64
    return Plan(
        inputs=(x,),
        outputs=(y,),
        output_types=(y.type,),
        symbols=(SymbolSource(n, 0, "size", 0),),
        assertions=(Assertion("<=", 2, n, "n is at least 2"), Assertion("!=", n, 13, "n is not 13")),
        slots=(ArenaSlot(middle, size),),
        kernels=kernels,
        launches=(Launch(0, (x, middle, n), n, grain), Launch(1, (middle, y, n), n, grain)),
    )


def build(plan):
    text, messages = emit_module(plan, llvm.host_target())
    obj = llvm.compile_object(text, llvm.host_target(), verify=True)
    assert not llvm.undefined_symbols(obj) - {"memcpy", "memset", "memmove"}
    loaded = llvm.load_object(obj)
    return ENTRY(loaded.address("entry")), loaded, text, messages


@pytest.mark.parametrize("count", [2, 100, 5000])
def test_launches_run_in_order_and_share_large_work(count):
    entry, _keep, _text, _ = build(two_steps())
    machine = RecordingContext(5000 * 4 + 64)
    x, y = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    assert machine.call(entry, [x, y]) == 0
    np.testing.assert_array_equal(y, (x + 1) * 3)
    assert machine.calls == ([(5000, 1000)] * 2 if count > 1000 else [])


def test_failed_assertion_returns_its_number_before_any_work():
    entry, _keep, _text, messages = build(two_steps())
    machine = RecordingContext(5000)
    y = np.zeros(13, np.float32)
    assert machine.call(entry, [np.zeros(1, np.float32), y]) == 16
    assert machine.call(entry, [np.zeros(13, np.float32), y]) == 17
    assert messages == ("n is at least 2", "n is not 13")
    assert not y.any()


def test_small_arena_reports_its_need():
    entry, _keep, _text, _ = build(two_steps())
    machine = RecordingContext(64)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert machine.call(entry, [x, y]) == 1
    assert machine.words[2] == 448
    assert not y.any()


def test_interrupt_stops_between_launches():
    entry, _keep, _text, _ = build(two_steps(grain=50))
    machine = RecordingContext(5000)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    machine.during = lambda: machine.interrupt.fill(1)
    assert machine.call(entry, [x, y]) == 2
    assert not y.any()
    assert len(machine.calls) == 1


def test_interrupt_is_not_asked_after_an_input_was_written():
    n = size_of_code("n")
    x, y = tensor("x", n), tensor("y", n)
    kernels = (pointwise(lambda a: a + 1.0), pointwise(lambda a: a * 3.0))
    launches = (Launch(0, (x, x, n), n, 50), Launch(1, (x, y, n), n, 50))
    plan = Plan((x,), (y,), (y.type,), (SymbolSource(n, 0, "size", 0),), (), (), kernels, launches)
    entry, _keep, _text, _ = build(plan)
    machine = RecordingContext()
    machine.interrupt[0] = 1
    a, b = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert machine.call(entry, [a, b]) == 0
    assert (b == 6).all()


def test_strides_are_read_from_descriptors():
    n, s = size_of_code("n"), size_of_code("s")
    m, t = size_of_code("m"), size_of_code("t")
    i, a, out = axis_symbol(m, "i"), tensor("a", m, strides=(t,)), tensor("out", m)
    k = kernel(parallel(i, Store(out, i, load(a, i * t) + constant(1.0, float32))))
    x, y = tensor("x", n, strides=(s,)), tensor("y", n)
    symbols = (SymbolSource(n, 0, "size", 0), SymbolSource(s, 0, "stride", 0))
    given = {m: n, t: s}
    launch = Launch(0, (x, y, *[given[size] for size in k.sizes]), n, 1000)
    entry, _keep, _text, _ = build(Plan((x,), (y,), (y.type,), symbols, (), (), (k,), (launch,)))
    values, got = np.arange(90, dtype=np.float32)[::3], np.zeros(30, np.float32)
    assert RecordingContext().call(entry, [values, got]) == 0
    np.testing.assert_array_equal(got, values + 1)


def test_kernels_that_differ_in_names_only_are_one_function():
    n = size_of_code("n")
    x, y = tensor("x", n), tensor("y", n)
    first, second = pointwise(lambda a: a + 1.0), pointwise(lambda a: a + 1.0)
    other = Kernel("other", *(getattr(first, name) for name in ("buffers", "sizes", "body")))
    launches = tuple([Launch(place, (x, y, n), n, 50) for place in range(3)])
    plan = Plan((x,), (y,), (y.type,), (SymbolSource(n, 0, "size", 0),), (), (), (first, second, other), launches)
    text, _ = emit_module(plan, llvm.host_target())
    assert text.count("define void @kernel_") == 1
