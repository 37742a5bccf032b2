"""Kernels: loops over tiles, calls, graphs, gradients, errors."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.export import export
from rushlight.support import events
from rushlight.tile import kernel, tile


@kernel
def add(x, y):
    out = rl.empty_like(x)
    for i, j in tile(x.shape[0], x.shape[1]):
        out[i, j] = x[i, j] + y[i, j]
    return out


@kernel
def softmax(x):
    """Softmax of rows."""
    out = rl.empty_like(x)
    for i in tile(x.shape[0]):
        top = rl.full((i.size, 1), -float("inf"))
        for j in tile(x.shape[1]):
            top = rl.maximum(top, x[i, j].amax(1, keepdim=True))
        row = (x[i, :] - top).exp()
        out[i, :] = row / row.sum(1, keepdim=True)
    return out


@kernel
def scale_rows(x, factor, rows=None):
    """Overwrites the first rows."""
    for i in tile(x.shape[0] if rows is None else rows):
        x[i] = x[i] * factor


@kernel
def parts(x):
    total, square = rl.zeros(x.shape[1]), rl.zeros(x.shape[1])
    for i in tile(x.shape[0]):
        total = total + x[i].sum(0)
        square = square + (x[i] * x[i]).sum(0)
    return {"total": total, "square": square}, "sums"


@pytest.mark.row("7.4")
@pytest.mark.parametrize("shape", [(4, 5), (7, 33), (1, 1), (0, 3), (3, 0), (64, 129)], ids=str)
def test_a_kernel_gives_what_its_function_says(shape):
    x, y = rl.randn(*shape), rl.randn(*shape)
    assert rl.equal(add(x, y), x + y)
    expected = x.double().softmax(1)
    assert (softmax(x).double() - expected).abs().max().item() < 1e-6 if x.numel() else softmax(x).shape == x.shape


def test_one_artifact_serves_all_sizes():
    fresh = kernel(softmax.function)
    fresh(rl.randn(5, 6))
    before = events.counters()
    fresh(rl.randn(50, 60))
    assert events.counters() == before


def test_kernels_fuse_with_what_is_around_them():
    compiled = rl.compile(lambda x, y: softmax(add(x, y)) * 2, fullgraph=True)
    x, y = rl.randn(6, 8), rl.randn(6, 8)
    assert rl.allclose(compiled(x, y), (x + y).softmax(1) * 2)
    (graph,) = [line for line in str(rl.compiler.explain(compiled)(x, y)).splitlines() if "kernels in" in line]
    assert "1 kernels in 1 launches" in graph


def test_exported_programs_hold_the_calls_of_kernels():
    x, y = rl.randn(3, 4), rl.randn(3, 4)
    program = export(lambda x, y: softmax(add(x, y)), (x, y))
    assert "exp(" in str(program) and "tile" not in {call.op.name for call in program.graph.calls}
    other = rl.randn(5, 9), rl.randn(5, 9)
    assert rl.allclose(program.module()(*other), (other[0] + other[1]).softmax(1))


def test_gradients_pass_through_kernels():
    x = rl.randn(3, 5, dtype=rl.float64, requires_grad=True)
    assert gradcheck(lambda x: softmax(add(x, x * 2)), (x,))
    compiled = rl.compile(lambda x: (softmax(x) ** 2).sum(), fullgraph=True)
    (mine,) = rl.autograd.grad(compiled(x), (x,))
    (theirs,) = rl.autograd.grad((x.softmax(1) ** 2).sum(), (x,))
    assert rl.allclose(mine, theirs)


def test_gradients_pass_through_parts_that_are_written_one_after_the_other():
    @kernel
    def scaled(x):
        out = rl.empty_like(x)
        for i in tile(x.shape[0]):
            out[i, :2] = x[i, :2] * 2
            out[i, 2:] = x[i, 2:].square()
        return out

    x = rl.randn(3, 5, dtype=rl.float64, requires_grad=True)
    assert gradcheck(scaled, (x,))
    assert gradgradcheck(scaled, (x,))


def test_written_arguments_and_constants():
    x = rl.ones(4, 2)
    scale_rows(x, 3.0)
    scale_rows(x, 2, rows=1)
    assert x[:, 0].tolist() == [6.0, 3.0, 3.0, 3.0]
    compiled = rl.compile(lambda x: scale_rows(x, 0.5), fullgraph=True)
    compiled(x)
    assert x[:, 1].tolist() == [3.0, 1.5, 1.5, 1.5]


def test_equal_constants_of_different_types_are_different():
    @kernel
    def raised(x, by):
        return x + by

    assert [raised(rl.ones(1, dtype=rl.int64), by).dtype for by in (1, 1.0, True)] == [rl.int64, rl.float32, rl.int64]


def test_results_keep_their_structure():
    x = rl.randn(6, 3)
    found, text = parts(x)
    assert text == "sums" and list(found) == ["total", "square"]
    np.testing.assert_allclose(found["square"].numpy(), (x.numpy() ** 2).sum(0), rtol=1e-5)


def test_a_tile_can_be_moved_and_nested():
    @kernel
    def differences(x):
        out = rl.empty(x.shape[0] - 1)
        for outer in tile(x.shape[0] - 1, block=64):
            for i in tile(outer):
                out[i] = x[i + 1] - x[i] + i.index * 0 + i.begin
        return out

    x = rl.randn(9)
    assert rl.equal(differences(x), x[1:] - x[:-1])
    assert differences(rl.randn(1)).shape == (0,)


def test_errors_name_the_line_and_the_tiles():
    @kernel
    def product(x, y):
        out = rl.empty(x.shape[0], y.shape[1])
        for i, j in tile(x.shape[0], y.shape[1]):
            left = x[i, :]
            out[i, j] = left @ y[i, j]
        return out

    with pytest.raises(rl.RushlightError) as caught:
        product(rl.ones(3, 4), rl.ones(3, 5))
    assert "out[i, j] = left @ y[i, j]" in str(caught.value)
    (note,) = [note for note in caught.value.__notes__ if "in the kernel product" in note]
    assert "left: f32[3, 4]" in note and "j: tile j over 0:5" in note


def test_a_changed_kernel_is_another_one_in_the_cache():
    """Graphs hold what kernels do, so a name, or a value that a kernel closes over, can not be mistaken."""

    def made(factor):
        @kernel
        def scale(x):
            return x * factor

        return scale

    x = rl.ones(3)
    for factor in (2.0, 3.0):
        scale = made(factor)
        assert rl.compile(lambda x, scale=scale: scale(x), fullgraph=True)(x).tolist() == [factor] * 3
        assert scale(x).tolist() == [factor] * 3


def test_the_module_repeats_tensors():
    assert rl.tile(rl.ones(2), (3,)).shape == (6,)
    assert rl.compile(lambda x: rl.tile(x, (2, 2)), fullgraph=True)(rl.ones(2)).shape == (2, 4)
    assert rl.vmap(softmax)(rl.ones(2, 3, 4)).shape == (2, 3, 4)


def test_a_kernel_can_be_given_a_derivative():
    @kernel
    def doubled(x, y, factor=2.0):
        return x * y * factor

    @doubled.vjp
    def doubled_vjp(g, x, y, factor):
        return g * y * (factor + 1), None  # another one, to see who is asked

    x, y = rl.randn(4, requires_grad=True), rl.randn(4, requires_grad=True)
    for run in (doubled, rl.compile(lambda x, y: doubled(x, y), fullgraph=True)):
        found = rl.autograd.grad(run(x, y).sum(), (x, y), allow_unused=True)
        assert (rl.allclose(found[0], y * 3) and found[1] is None) or not found[1].any()
