"""Products of groups: what a loop over groups gives, with gradients, for any offsets, in one graph."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.functional import ScalingType, grouped_mm, scaled_grouped_mm
from rushlight.support.errors import RushlightError

KINDS = ("rows", "columns", "sums", "batch")
GROUPS, M, K, N = 4, 3, 5, 2


def operands(kind, rng, extent):
    shapes = {
        "rows": ((extent, K), (GROUPS, K, N)),
        "columns": ((GROUPS, M, K), (K, extent)),
        "sums": ((M, extent), (extent, N)),
        "batch": ((GROUPS, M, K), (GROUPS, K, N)),
    }[kind]
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def offsets(rng, extent):
    """Ends of groups, some of which are empty."""
    return np.sort(rng.integers(0, extent + 1, GROUPS))


def by_loop(kind, a, b, ends):
    begins = [0, *ends[:-1]]
    pairs = list(zip(begins, ends, strict=True))
    if kind == "batch":
        return a @ b
    if kind == "sums":
        return np.stack([a[:, i:j] @ b[i:j] for i, j in pairs])
    if kind == "rows":
        out = np.zeros((len(a), b.shape[-1]), np.float32)
        for at, (i, j) in enumerate(pairs):
            out[i:j] = a[i:j] @ b[at]
        return out
    out = np.zeros((a.shape[1], b.shape[1]), np.float32)
    for at, (i, j) in enumerate(pairs):
        out[:, i:j] = a[at] @ b[:, i:j]
    return out


@pytest.mark.row("8.11")
@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_any_size_are_those_of_a_loop_with_gradients_and_one_graph(kind):
    rng = np.random.default_rng(0)
    compiled = rl.compile(lambda a, b, offs: grouped_mm(a, b, offs=offs), fullgraph=True)
    before = rl.compiler.graph_count()
    for number in range(12):
        extent = 6 + number
        arrays, ends = operands(kind, rng, extent), offsets(rng, extent)
        offs = None if kind == "batch" else rl.tensor(ends.astype(np.int32))
        wanted = by_loop(kind, *arrays, ends)
        gradients = []
        for function in (lambda a, b, offs: grouped_mm(a, b, offs=offs), compiled):
            leaves = [rl.tensor(array).requires_grad_() for array in arrays]
            out = function(*leaves, offs)
            np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
            (out * rl.tensor(np.cos(np.arange(wanted.size, dtype=np.float32)).reshape(wanted.shape))).sum().backward()
            gradients.append([leaf.grad.numpy() for leaf in leaves])
        for one, other in zip(*gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        weights = np.cos(np.arange(wanted.size, dtype=np.float32)).reshape(wanted.shape)
        if kind == "rows":
            own = by_loop("rows", weights, np.ascontiguousarray(arrays[1].transpose(0, 2, 1)), ends)
            np.testing.assert_allclose(gradients[0][0], own, rtol=1e-4, atol=1e-5)
            sums = by_loop("sums", np.ascontiguousarray(arrays[0].T), weights, ends)
            np.testing.assert_allclose(gradients[0][1], sums, rtol=1e-4, atol=1e-5)
    assert rl.compiler.graph_count() - before == 1


@pytest.mark.row("8.11")
@pytest.mark.parametrize("dtype", [rl.float8_e4m3fn, rl.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_scaled_products_are_those_of_scaled_operands(kind, dtype):
    rng = np.random.default_rng(1)
    for extent in (7, 12):
        a, b = [rl.tensor(array).to(dtype) for array in operands(kind, rng, extent)]
        b = b.mT.contiguous().mT
        ends = offsets(rng, extent)
        offs = None if kind == "batch" else rl.tensor(ends.astype(np.int32))
        whole = [one.float().numpy() for one in (a, b)]
        lead_a, lead_b = [(GROUPS,) if kind != "sums" and one.ndim == 3 else () for one in (a, b)]
        if kind == "sums":
            lead_a = lead_b = (GROUPS,)
        rows = rng.uniform(0.5, 2, (*lead_a, a.shape[-2])).astype(np.float32)
        columns = rng.uniform(0.5, 2, (*lead_b, b.shape[-1])).astype(np.float32)
        wanted = by_loop(kind, *whole, ends)
        wanted = scaled(kind, wanted, rows, columns, ends)
        flat = [one.reshape(-1) if kind == "sums" else one for one in (rows, columns)]
        found = scaled_grouped_mm(
            a, b, rl.tensor(flat[0]), ScalingType.RowWise, rl.tensor(flat[1]), ScalingType.RowWise,
            offs=offs, output_dtype=rl.float32,
        )  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
        plain = scaled_grouped_mm(
            a, b, rl.tensor([2.0]), ScalingType.TensorWise, rl.tensor([0.25]), ScalingType.TensorWise, offs=offs
        )
        assert plain.dtype is rl.bfloat16
        np.testing.assert_allclose(plain.float().numpy(), by_loop(kind, *whole, ends) / 2, rtol=1e-2, atol=1e-2)


def scaled(kind, product, rows, columns, ends):
    """A product with the scales of its groups' rows and columns."""
    if kind in ("sums", "batch"):
        return product * rows[..., None] * columns[..., None, :]
    result = product.copy()
    for at, (i, j) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if kind == "rows":
            result[i:j] *= rows[i:j, None] * columns[at]
        else:
            result[:, i:j] *= rows[at][:, None] * columns[i:j]
    return result


@pytest.mark.row("8.11")
def test_operands_that_do_not_fit_are_errors():
    a, b = rl.ones(6, 4), rl.ones(2, 4, 3)
    cases = [
        ("S010", lambda: grouped_mm(a, b, offs=rl.tensor([2, 4, 6]))),
        ("A001", lambda: grouped_mm(a, b)),
        ("A002", lambda: grouped_mm(b.mT, b, offs=rl.tensor([1, 2]))),
        ("S003", lambda: grouped_mm(rl.ones(6, 5), b, offs=rl.tensor([2, 6]))),
        ("R002", lambda: grouped_mm(a, b, offs=rl.tensor([4, 2]))),
        ("R002", lambda: grouped_mm(a, b, offs=rl.tensor([4, 7]))),
        ("S010", lambda: scaled(a, b, ScalingType.TensorWise)),
        ("A006", lambda: scaled(a, b.mT.contiguous().mT, ScalingType.BlockWise1x16)),
    ]

    def scaled(a, b, recipe):
        one = rl.ones(1)
        return scaled_grouped_mm(a, b, one, recipe, one, recipe, offs=rl.tensor([2, 6]))

    for code, call in cases:
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == code
