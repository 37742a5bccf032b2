"""Runs kernels natively, and evaluates the same kernels with numpy, for tests that compare the two bit by bit."""

import ctypes
import functools
import itertools
import re

import numpy as np

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import DType
from rushlight.ir.interpret import evaluate
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Kernel, Loop, Store
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes, index
from rushlight.ir.target import Target
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm
from rushlight.schedule.loops.kernels import reductions_take_lanes
from rushlight.schedule.loops.nest import LoopNest, NestStore
from rushlight.sym import Size, SizeExpr, axis_size, free_symbols, is_axis
from rushlight.term import postorder

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
ALLOWED_SYMBOLS = {"memcpy", "memset", "memmove"}


def buffer(name: str, dtype: DType, size: Size = 1) -> Buffer:
    """A flat buffer."""
    return Buffer(name, TensorType((size,), dtype))


def loop(axis: SizeExpr, *body: object, kind: AxisKind = AxisKind.SERIAL, **bounds: object) -> Loop:
    """A loop over an axis's own size."""
    return Loop(Axis(axis, bounds.pop("extent", axis_size(axis)), kind, **bounds), body)


def offset_of(store: Store) -> Scalar:
    return store.offset if isinstance(store.offset, Scalar) else index(store.offset)


def parallel(axis: SizeExpr, *body: object) -> Loop:
    """A parallel loop; over stores it runs in lanes as well, unless the schedule leaves those to their reductions."""
    kind = AxisKind.PARALLEL
    if all(isinstance(statement, Store) for statement in body):
        stores = [NestStore((), store.buffer, offset_of(store), store.value) for store in body]
        kind = AxisKind.PARALLEL if reductions_take_lanes(LoopNest((axis,), stores)) else AxisKind.PARALLEL_VECTOR
    return loop(axis, *body, kind=kind)


def vector(axis: SizeExpr, *body: object, **bounds: object) -> Loop:
    return loop(axis, *body, kind=AxisKind.VECTOR, **bounds)


def kernel(*body: object) -> Kernel:
    """A kernel of these statements; its buffers and sizes are those that occur."""
    buffers, sizes = {}, {}

    def add_size(size):
        if isinstance(size, SizeExpr):
            sizes.update({symbol: None for symbol in free_symbols(size) if not is_axis(symbol)})

    def add_scalar(scalar):
        if not isinstance(scalar, Scalar):
            return add_size(scalar)
        for term in postorder([scalar]):
            if term.op is OPS["load"]:
                buffers[term.attr("buffer")] = None
            if term.op is OPS["index"]:
                add_size(term.attr("expr"))
            for axis in bound_axes(term):
                add_size(axis_size(axis))
        return None

    def visit(statements):
        for statement in statements:
            if isinstance(statement, Loop):
                add_scalar(statement.axis.extent)
                add_scalar(statement.axis.start)
                visit(statement.body)
            elif isinstance(statement, Store):
                add_scalar(statement.value)
                add_scalar(statement.offset)
                if statement.where is not None:
                    add_scalar(statement.where)
                buffers[statement.buffer] = None

    visit(body)
    return Kernel("test", tuple(item for item in buffers if item.scope != "local"), tuple(sizes), body)


@functools.cache
def targets() -> dict[int, Target]:
    """Targets that run here, by vector width."""
    host = llvm.host_target()
    found = {}
    for width in (64, 32):
        if width <= host.vector_bytes:
            features = host.features
            if width == 32:
                features = ",".join(
                    part for part in features.split(",") if "avx512" not in part and "evex512" not in part
                )
            found[width] = Target(host.triple, host.cpu if width == 64 else "haswell", features, width)
    return found


@functools.lru_cache(maxsize=16)
def compile_kernel(k: Kernel, width: int) -> tuple[object, llvm.LoadedModule]:
    """The native function of a kernel, checked for outside symbols, and what keeps it alive."""
    target = targets()[width]
    text = emit_kernel(k, CodeTarget(target.architecture, width), "kernel")
    obj = llvm.compile_object(text, target, verify=True)
    assert llvm.undefined_symbols(obj) <= ALLOWED_SYMBOLS
    loaded = llvm.load_object(obj)
    return FUNCTION(loaded.address("kernel")), loaded


def run(k: Kernel, arrays: dict, sizes: dict, width: int, shares: int = 1) -> dict:
    """The buffers after a native run in a number of shares; nothing outside of them may change."""
    function, _keep = compile_kernel(k, width)
    guard = 256
    padded = {}
    for item, array in arrays.items():
        raw = np.full(array.nbytes + 2 * guard, 0xA5, np.uint8)
        raw[guard : guard + array.nbytes] = array.view(np.uint8)
        padded[item] = raw
    words = [padded[item].ctypes.data + guard for item in k.buffers] + [sizes[size] for size in k.sizes]
    args = np.array(words, np.int64)
    count = 1
    for axis in k.parallel_axes:
        count *= value_of(axis.extent, sizes)
    edges = [count * share // shares for share in range(shares + 1)]
    for begin, end in itertools.pairwise(edges):
        function(args.ctypes.data, begin, end)
    results = {}
    for item, array in arrays.items():
        raw = padded[item]
        assert (raw[:guard] == 0xA5).all(), f"{item} was written below its start"
        assert (raw[guard + array.nbytes :] == 0xA5).all(), f"{item} was written beyond its end"
        results[item] = raw[guard : guard + array.nbytes].view(array.dtype)
    return results


def value_of(size: Size, sizes: dict) -> int:
    return int(evaluate(index(size), (), {}, sizes))


def expected(k: Kernel, arrays: dict, sizes: dict) -> dict:
    """The buffers after the kernel, iteration by iteration, or whole loops at once where no store feeds a load."""
    arrays = {item: array.copy() for item, array in arrays.items()}
    stored = {store.buffer for store in k.stores()}
    read = {term.attr("buffer") for store in k.stores() for term in _terms(store) if term.op is OPS["load"]}
    ragged = any(
        is_axis(symbol)
        for store in k.stores()
        for term in _terms(store)
        for axis in bound_axes(term)
        for symbol in (free_symbols(axis_size(axis)) if isinstance(axis_size(axis), SizeExpr) else ())
    )
    if not ragged and not stored & read and not any(store.combine for store in k.stores()) and _regular(k.body):
        _run_whole(k.body, (), arrays, sizes)
    else:
        _run_steps(k.body, arrays, dict(sizes))
    return arrays


def _terms(store: Store):
    roots = [item for item in (store.value, store.offset, store.where) if isinstance(item, Scalar)]
    return postorder(roots)


def _regular(body) -> bool:
    for statement in body:
        if isinstance(statement, Loop):
            axis = statement.axis
            if isinstance(axis.extent, Scalar) or not isinstance(axis.start, int) or axis.start:
                return False
            if isinstance(axis.extent, SizeExpr) and any(is_axis(symbol) for symbol in free_symbols(axis.extent)):
                return False
            if not _regular(statement.body):
                return False
    return True


def _run_whole(body, axes, arrays, sizes) -> None:
    for statement in body:
        if isinstance(statement, Loop):
            _run_whole(statement.body, (*axes, statement.axis.symbol), arrays, sizes)
            continue
        offset = statement.offset if isinstance(statement.offset, Scalar) else index(statement.offset)
        value = evaluate(statement.value, axes, arrays, sizes).ravel()
        place = evaluate(offset, axes, arrays, sizes).ravel()
        if statement.where is not None:
            where = evaluate(statement.where, axes, arrays, sizes).ravel()
            value, place = value[where], place[where]
        arrays[statement.buffer][place] = value


def _run_steps(body, arrays, sizes) -> None:
    for is_store, group in itertools.groupby(body, lambda statement: isinstance(statement, Store)):
        if is_store:
            _run_stores(list(group), arrays, sizes)
            continue
        for statement in group:
            if not isinstance(statement, Barrier):
                axis = statement.axis
                start, extent = (_scalar(bound, arrays, sizes) for bound in (axis.start, axis.extent))
                for value in range(start, start + extent):
                    _run_steps(statement.body, arrays, {**sizes, axis.symbol: value})


def _run_stores(stores, arrays, sizes) -> None:
    """Stores that follow each other: all values first."""
    found = []
    for store in stores:
        if store.where is None or evaluate(store.where, (), arrays, sizes):
            found.append((store, _scalar(store.offset, arrays, sizes), evaluate(store.value, (), arrays, sizes)))
    for store, place, value in found:
        target = arrays[store.buffer]
        with np.errstate(all="ignore"):
            target[place] = _COMBINE[store.combine](target[place], value)


def _scalar(value, arrays, sizes) -> int:
    return int(evaluate(value if isinstance(value, Scalar) else index(value), (), arrays, sizes))


_COMBINE = {
    None: lambda old, new: new,
    "set": lambda old, new: new,
    "sum": lambda old, new: old + new,
    "prod": lambda old, new: old * new,
    "max": np.maximum,
    "min": np.minimum,
}


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal bit by bit; any NaN equals any NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    size = a.dtype.itemsize
    equal = a.view(f"u{size}") == b.view(f"u{size}")
    if a.dtype.kind in "fV" or "float" in a.dtype.name:
        with np.errstate(all="ignore"):
            equal |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return bool(equal.all())


def check(k: Kernel, arrays: dict, sizes: dict, shares: int = 1, widths=None) -> dict:
    """Runs a kernel for each vector width and compares every buffer with the oracle, bit by bit."""
    want = expected(k, arrays, sizes)
    for width in widths or targets():
        got = run(k, arrays, sizes, width, shares)
        for item, array in want.items():
            assert same_bits(got[item], array), describe(item, got[item], array, width)
    return want


def describe(item: object, got: np.ndarray, want: np.ndarray, width: int) -> str:
    """What differs, for a failing assertion."""
    places = [place for place in range(len(want)) if not same_bits(got[place : place + 1], want[place : place + 1])]
    shown = [f"[{place}]: got {got[place]!r}, want {want[place]!r}" for place in places[:5]]
    return f"{item} with vectors of {width} bytes: {len(places)} of {len(want)} differ: {'; '.join(shown)}"


def has_instruction(text: str, pattern: str) -> bool:
    return re.search(pattern, text) is not None
