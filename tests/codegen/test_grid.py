"""Blocks and threads: grids have the bits of the CPU's loops, faults are found, and PTX assembles."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import plugins
import rushlight as rl
from ptx_assembler import assembled
from rushlight.build.gpu import PTX_VERSIONS
from rushlight.build.pipeline import run_passes
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.codegen.llvm.kernel.grid import FAULTS, RECORD
from rushlight.ir.choice import GRID
from rushlight.ir.dtype import float32
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Kernel, Loop, Statement, Store
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.scalar import Buffer, load
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm
from rushlight.schedule.loops.grid import grid_of
from rushlight.sym import axis_symbol, size_of_code

F = rl.nn.functional


@pytest.fixture
def simt(tmp_path: Path):
    """The emulated GPU is there."""
    with plugins.installed(tmp_path / "site", plugins.EXAMPLES / "simt"):
        yield rl.backends.get("simt")


FUNCTIONS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "pointwise": lambda x: x * 2 + x.exp(),
    "sum": lambda x: x.sum(),
    "rows": lambda x: x.sum(-1),
    "columns": lambda x: x.sum(0),
    "maximum": lambda x: x.amax(-1),
    "any": lambda x: (x > 2).any(-1),
    "product": lambda x: (1 + x / 64).prod(-1),
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "matrix product": lambda x: x @ x.mT,
    "cumsum": lambda x: x.cumsum(-1),
    "gather": lambda x: x.flip(0)[(x[:, 0] > 0).long()] if x.shape[0] > 1 else x.flip(1),
    "half": lambda x: x.half().softmax(-1),
    "double": lambda x: x.double().softmax(-1).var(-1),
    "index add": lambda x: rl.zeros(3, device=x.device).index_add(0, (x[:, 0] > 0).long(), x[:, 0]),
}


@pytest.mark.generated("name")
@pytest.mark.usefixtures("simt")
@pytest.mark.parametrize("shape", [(1, 1), (3, 65), (4, 5000), (0, 3), (300, 2)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_grids_have_the_bits_of_the_loops_of_the_cpu(name: str, shape: tuple[int, int]):
    function = FUNCTIONS[name]
    x = rl.randn(*shape, generator=rl.Generator().manual_seed(1))
    for tensor in (x, rl.randn(shape[1], shape[0], generator=rl.Generator().manual_seed(2)).t()):
        if name == "maximum" and 0 in shape:
            continue
        wanted, found = function(tensor), function(tensor.to("simt"))
        assert found.device.type == "simt"
        np.testing.assert_array_equal(found.cpu().numpy(), wanted.numpy())
    assert not rl.backends.fallbacks()


@pytest.mark.usefixtures("simt")
def test_nan_infinity_and_signed_zero_pass_through_lanes():
    rows = [[0.0, -0.0] * 40, [-0.0] * 80, [1.0, float("nan")] * 40, [float("inf"), 1.0] * 40]
    x = rl.tensor(rows)
    for function in (lambda x: x.sum(-1), lambda x: x.amax(-1), lambda x: x.amin(-1), lambda x: x.softmax(-1)):
        wanted, found = function(x).numpy(), function(x.to("simt")).cpu().numpy()
        assert wanted.tobytes() == found.tobytes()


@pytest.mark.usefixtures("simt")
def test_a_training_step_compiles_for_a_grid():
    def step(x: rl.Tensor, w: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        w = w.detach().requires_grad_()
        loss = F.cross_entropy((x @ w).relu(), x.argmax(-1) % 5)
        (gradient,) = rl.autograd.grad(loss, [w])
        return loss.detach(), gradient

    x, w = (rl.randn(*shape, generator=rl.Generator().manual_seed(3)) for shape in ((9, 70), (70, 5)))
    wanted = step(x, w)
    found = rl.compile(step, fullgraph=True)(x.to("simt"), w.to("simt"))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.cpu().numpy())


def buffer(name: str, elements: int, scope: str = "global") -> Buffer:
    return Buffer(name, TensorType((elements,), float32), scope)


def threads(count: int, body: Callable[[object], tuple[Statement, ...]]) -> Loop:
    axis = axis_symbol(count, "t")
    return Loop(Axis(axis, count, AxisKind.THREAD), body(axis))


def fault_of(make: Callable[[Buffer, Buffer, Buffer], tuple[Statement, ...]], elements: int = 64) -> str | None:
    """What the emulator says of a kernel of one block over a source, a target and shared memory of 64 elements."""
    source, target, shared = buffer("source", 64), buffer("target", elements), buffer("shared", 64, "shared")
    block = axis_symbol(1, "b")
    sizes = (size_of_code("bytes of source"), size_of_code("bytes of target"))
    body = (Loop(Axis(block, 1, AxisKind.BLOCK), make(source, target, shared)),)
    kernel = Kernel("k", (source, target), sizes, body)
    host = llvm.host_target()
    text = emit_kernel(kernel, CodeTarget(host.architecture, host.vector_bytes, grid=True), "k")
    module = llvm.load_object(llvm.compile_object(text, host))
    given, made = np.arange(64, dtype=np.float32), np.zeros(64 + 1, np.float32)
    words = (ctypes.c_int64 * 4)(given.ctypes.data, made.ctypes.data, given.nbytes, 4 * elements)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(module.address("k"))(words, 0, 1)
    record = (ctypes.c_int64 * 4).from_address(module.address(RECORD))
    assert made[elements:].tolist() == [0.0] * (65 - elements), "nothing is written outside"
    return FAULTS.get(record[0])


def reversed_through(shared: Buffer, source: Buffer, target: Buffer, *between: Statement) -> tuple[Statement, ...]:
    return (
        threads(64, lambda t: (Store(shared, t, load(source, t)),)),
        *between,
        threads(64, lambda t: (Store(target, t, load(shared, 63 - t)),)),
    )


def test_a_planted_race_is_found_and_a_barrier_mends_it():
    assert fault_of(lambda a, b, s: reversed_through(s, a, b)) == FAULTS[3]
    assert fault_of(lambda a, b, s: reversed_through(s, a, b, Barrier())) is None


def test_writes_of_two_threads_to_one_element_race():
    def collide(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        return (threads(64, lambda t: (Store(shared, 0, load(source, t)),)),)

    assert fault_of(collide) == FAULTS[3]


def test_a_write_after_the_reads_of_others_races():
    def late(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        fill = threads(64, lambda t: (Store(shared, t, load(source, t)),))
        read = threads(64, lambda t: (Store(target, t, load(shared, 0)),))
        return (fill, Barrier(), read, threads(1, lambda t: (Store(shared, t, load(source, t)),)))

    assert fault_of(late) == FAULTS[3]


def test_planted_accesses_outside_of_a_buffer_are_found():
    def read(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        return (threads(64, lambda t: (Store(target, t, load(source, t + 1)),)),)

    def read_before(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        return (threads(64, lambda t: (Store(target, t, load(source, t - 1)),)),)

    def write(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        return (threads(64, lambda t: (Store(target, t, load(source, t)),)),)

    def write_shared(source: Buffer, target: Buffer, shared: Buffer) -> tuple[Statement, ...]:
        return (threads(64, lambda t: (Store(shared, t + 1, load(source, t)),)),)

    assert fault_of(read) == FAULTS[1]
    assert fault_of(read_before) == FAULTS[1]
    assert fault_of(write, elements=63) == FAULTS[2]
    assert fault_of(write, elements=64) is None
    assert fault_of(write_shared) == FAULTS[2]


def test_a_fault_is_an_error_of_the_device(simt: rl.backends.Backend, monkeypatch: pytest.MonkeyPatch):
    """A schedule without barriers is found out, by its first call."""
    monkeypatch.setattr("rushlight.codegen.llvm.kernel.loops.emit_barrier", lambda ctx, scope: None)
    monkeypatch.setattr("simt.backend.Grids.key", lambda self, graph: None)  # such code is not cached
    with pytest.raises(rl.DeviceError) as caught:
        (rl.randn(7, 311).to("simt").softmax(-1) * 3.25).cpu()
    assert caught.value.code == "V008"


def exported(function: Callable[[rl.Tensor], rl.Tensor], *shape: int) -> rl.export.ExportedProgram:
    class Model(rl.nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return function(x)

    return rl.export.export(Model(), (rl.randn(*shape),))


def test_a_row_is_reduced_by_the_threads_of_a_block():
    graph = exported(lambda x: x.sum(-1), 3, 128).graph
    (kernel,) = run_passes(graph, llvm.host_target(), until="07-tiled.ir", blocks=GRID).kernels
    text = kernel_text(kernel)
    assert kernel.threads == 64
    assert re.findall(r"(block|thread|barrier|serial)", text).count("barrier") >= 7
    assert "block" in text and "thread" in text


@pytest.mark.parametrize("architecture", PTX_VERSIONS)
@pytest.mark.parametrize("name", ["pointwise", "softmax", "layer norm", "matrix product", "half", "cumsum"])
def test_kernels_assemble_without_spills(name: str, architecture: str):
    code = rl.export.ptx(exported(FUNCTIONS[name], 3, 65), architecture)
    assembled(code, architecture)


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(rl.RushlightError) as caught:
        rl.export.ptx(exported(FUNCTIONS["sum"], 3, 4), "sm_1")
    assert caught.value.code == "C006"


def test_a_grid_counts_its_blocks():
    source, target = buffer("source", 1000), buffer("target", 1000)
    i = axis_symbol(1000, "i")
    store = Store(target, i, load(source, i))
    kernel = grid_of(Kernel("k", (source, target), (), (Loop(Axis(i, 1000, AxisKind.PARALLEL_VECTOR), (store,)),)))
    assert ([axis.extent for axis in kernel.parallel_axes], kernel.threads) == ([4], 256)
