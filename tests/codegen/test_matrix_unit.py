"""Matrix units: layouts are those of the PTX ISA, emulated products those of numpy, and PTX has the instructions."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import rushlight as rl
from ptx_assembler import assembled
from rushlight.build.gpu import UNITS_OF
from rushlight.build.pipeline import run_passes
from rushlight.ir.choice import GRID
from rushlight.ir.grid.matrix_unit import MMA, UNITS, WGMMA, MatrixUnit
from rushlight.ir.kernel_text import kernel_text
from rushlight.runtime import llvm

F = rl.nn.functional
DTYPES = {"float16": rl.float16, "bfloat16": rl.bfloat16}


# What the ISA says of fragments, element by element: "groupID = %laneid >> 2; threadID_in_group = %laneid % 4".


def a_of_mma(lane: int, i: int) -> tuple[int, int]:
    row = lane >> 2 if 0 <= i < 2 or 4 <= i < 6 else (lane >> 2) + 8
    column = (lane % 4) * 2 + (i & 1) + (0 if i < 4 else 8)
    return row, column


def b_of_mma(lane: int, i: int) -> tuple[int, int]:
    row = (lane % 4) * 2 + (i & 1) + (0 if i < 2 else 8)
    return lane >> 2, row


def c_of_mma(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (0 if i < 2 else 8), (lane % 4) * 2 + (i & 1)


def d_of_wgmma(lane: int, i: int) -> tuple[int, int]:
    warp, within = divmod(lane, 32)
    row = 16 * warp + within // 4 + (8 if i % 4 >= 2 else 0)
    return row, 8 * (i // 4) + 2 * (within % 4) + i % 2


def test_fragments_lie_where_the_isa_says():
    for lane in range(32):
        assert [MMA.fragment_place(16, lane, i) for i in range(8)] == [a_of_mma(lane, i) for i in range(8)]
        assert [MMA.fragment_place(8, lane, i) for i in range(4)] == [b_of_mma(lane, i) for i in range(4)]
        assert [MMA.result_place(lane, i) for i in range(4)] == [c_of_mma(lane, i) for i in range(4)]
    for lane in range(128):
        assert [WGMMA.result_place(lane, i) for i in range(32)] == [d_of_wgmma(lane, i) for i in range(32)]


@pytest.mark.parametrize("width", [16, 8])
def test_the_emulator_finds_fragments_where_threads_have_them(width: int):
    elements = MMA.fragment_elements(width)
    for lane, element in itertools.product(range(32), range(elements)):
        assert MMA.fragment_owner(width, *MMA.fragment_place(width, lane, element)) == (lane, element)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_a_slice_in_shared_memory_has_a_place_for_each_element(unit: MatrixUnit):
    step = unit.shared_step(64, 32)
    places = [unit.shared_place(index, depth, step) for index, depth in itertools.product(range(64), range(32))]
    assert len(set(places)) == 64 * 32
    assert min(places) == 0
    assert max(places) < unit.shared_elements(64, 32)


def test_core_matrices_are_eight_rows_of_sixteen_bytes():
    """`wgmma` without swizzling: rows of a core matrix follow each other; the next depth is a `step` away."""
    step = WGMMA.shared_step(64, 32)
    assert [WGMMA.shared_place(0, depth, step) for depth in range(8)] == list(range(8))
    assert [WGMMA.shared_place(row, 0, step) for row in range(8)] == list(range(0, 64, 8))
    assert (WGMMA.shared_place(8, 0, step), WGMMA.shared_place(0, 8, step)) == (64, step)


def close(found: rl.Tensor, wanted: np.ndarray, terms: np.ndarray, dtype: str) -> None:
    """Within the rounding of sums in float32, and of the result."""
    eps = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    bound = eps * np.abs(wanted) + 2.0**-20 * terms + 2.0**-24
    assert np.all(np.abs(found.cpu().double().numpy() - wanted) <= bound)


SIZES = [(8, 2, 8), (9, 17, 8), (40, 70, 50), (64, 64, 64), (65, 33, 129), (130, 16, 131), (31, 300, 17)]


@pytest.mark.generated("dtype", "sizes")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_all_layouts_are_those_of_numpy(device: str, dtype: str, sizes: tuple[int, int, int]):
    m, k, n = sizes
    source = rl.Generator().manual_seed(m + n)
    for transposed in range(4):
        a = rl.randn(*((k, m) if transposed & 1 else (m, k)), generator=source).to(DTYPES[dtype])
        b = rl.randn(*((n, k) if transposed & 2 else (k, n)), generator=source).to(DTYPES[dtype])
        a, b = (a.t() if transposed & 1 else a), (b.t() if transposed & 2 else b)
        x, y = a.double().numpy(), b.double().numpy()
        close(a.to(device) @ b.to(device), x @ y, np.abs(x) @ np.abs(y), dtype)
    assert not rl.backends.fallbacks()


def two_results(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    y = a.reshape(-1, 24) @ b.reshape(24, -1)
    return rl.stack([y, y.relu()])


FUNCTIONS: dict[str, Callable[[rl.Tensor, rl.Tensor], rl.Tensor]] = {
    "batches": lambda a, b: a.reshape(3, -1, 24) @ b.reshape(3, 24, -1),
    "an epilogue": lambda a, b: F.gelu(F.linear(a.reshape(-1, 24), b.reshape(-1, 24), b[:36])),
    "a prologue": lambda a, b: (a.reshape(-1, 24) * 2 - 1) @ b.reshape(24, -1).tanh(),
    "convolution": lambda a, b: F.conv2d(a.reshape(2, 3, 24, -1), b[:243].reshape(9, 3, 3, 3), padding=1),
    "einsum": lambda a, b: rl.einsum("bik,bjk->jbi", a.reshape(3, -1, 24), b.reshape(3, -1, 24)),
    "two results": two_results,
    "broadcast": lambda a, b: a.reshape(3, -1, 24) @ b.reshape(24, -1),
}


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_products_give_what_the_cpu_gives(device: str, name: str):
    source = rl.Generator().manual_seed(5)
    a, b = (rl.randn(24 * 36, generator=source).half() / 2 for _ in range(2))
    function = FUNCTIONS[name]
    found = rl.compile(function)(a.to(device), b.to(device))
    np.testing.assert_allclose(found.cpu().float().numpy(), function(a, b).float().numpy(), rtol=4e-3, atol=8e-3)
    found = function(a.to(device), b.to(device))
    np.testing.assert_allclose(found.cpu().float().numpy(), function(a, b).float().numpy(), rtol=4e-3, atol=8e-3)


def test_what_no_number_is_stays_in_its_row(device: str):
    a, b = rl.ones(40, 20).half(), rl.ones(20, 40).half()
    a[3, 5], a[7, 0], b[2, 9] = float("nan"), float("inf"), -float("inf")
    wanted, found = (a @ b).numpy(), (a.to(device) @ b.to(device)).cpu().numpy()
    np.testing.assert_array_equal(found, wanted)


def test_gradients_flow_through_products(device: str):
    def step(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        w = w.detach().requires_grad_()
        (F.linear(x, w).float().square().mean()).backward()
        assert w.grad is not None
        return w.grad

    source = rl.Generator().manual_seed(2)
    x, w = rl.randn(33, 40, generator=source).half(), rl.randn(17, 40, generator=source).half()
    np.testing.assert_allclose(step(x.to(device), w.to(device)).cpu().numpy(), step(x, w).numpy(), rtol=4e-3, atol=1e-3)


def test_empty_products_are_zeros(device: str):
    for m, k, n in ((0, 9, 9), (9, 0, 9), (9, 9, 0)):
        found = rl.ones(m, k, dtype=rl.float16, device=device) @ rl.ones(k, n, dtype=rl.float16, device=device)
        np.testing.assert_array_equal(found.cpu().numpy(), np.zeros((m, n)))


def test_a_product_without_barriers_is_found_out(device: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rushlight.codegen.llvm.kernel.loops.emit_barrier", lambda ctx, scope: None)
    monkeypatch.setattr("simt.backend.Grids.key", lambda self, graph: None)  # such code is not cached
    x = rl.ones(43, 77, dtype=rl.float16, device=device)
    with pytest.raises(rl.DeviceError) as caught:
        (x @ x.t()).cpu()
    assert caught.value.code == "V008"


class Layer(rl.nn.Module):
    def forward(self, x: rl.Tensor, w: rl.Tensor, bias: rl.Tensor) -> rl.Tensor:
        return F.gelu(F.linear(x, w, bias))


def layer(rows: int, inner: int, columns: int, dtype: str = "bfloat16") -> rl.export.ExportedProgram:
    shapes = ((rows, inner), (columns, inner), (columns,))
    return rl.export.export(Layer(), tuple([rl.zeros(*shape, dtype=DTYPES[dtype]) for shape in shapes]))


def test_the_schedule_can_be_read():
    blocks = replace(GRID, unit=MMA)
    plan = run_passes(layer(40, 70, 50).graph, llvm.host_target(), until="07-tiled.ir", blocks=blocks)
    lines = [line for kernel in plan.kernels for line in kernel_text(kernel).splitlines()]
    words = [line.split()[0] for line in lines if line.split()[0] in ("block", "thread", "serial", "barrier")]
    staged = ["thread", "serial", "serial", "barrier"]
    assert words == ["block", "thread", "serial", *staged, "thread", "thread", "barrier", "thread"]
    (multiply,) = [line.split() for line in lines if " by " in line]
    assert multiply[-2:] == ["by", "mma"]


@pytest.mark.parametrize("architecture", UNITS_OF)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (40, 70, 50)], ids=str)
def test_instructions_assemble_without_spills(architecture: str, dtype: str, sizes: tuple[int, int, int]):
    text = rl.export.ptx(layer(*sizes, dtype), architecture)
    assert ("wgmma.mma_async" in text.text) is (architecture == "sm_90a")
    assert ("mma.sync.aligned" in text.text) is (architecture != "sm_90a")
    assert ".local" not in text.text
    assembled(text, architecture)


def test_without_tensor_cores_sums_have_the_order_of_the_cpu():
    text = rl.export.ptx(layer(40, 70, 50), "sm_90a", tensor_cores=False).text
    assert "mma" not in text
