"""Windows, short-time transforms and products over dims, against values recorded from PyTorch 2.13."""

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck
from rushlight.support.errors import RushlightError

WINDOWS: list[tuple[str, dict[str, Any], list[float]]] = [
    ("bartlett", {}, [0.0, 0.5, 1.0]),
    ("blackman", {}, [0.0, 0.34, 1.0]),
    ("cosine", {}, [0.309017, 0.809017, 1.0]),
    ("exponential", {"tau": 2.0}, [0.367879, 0.606531, 1.0]),
    ("gaussian", {}, [0.135335, 0.606531, 1.0]),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}, [0.4, 0.3, 1.0]),
    ("general_hamming", {"alpha": 0.6}, [0.2, 0.6, 1.0]),
    ("hamming", {}, [0.08, 0.54, 1.0]),
    ("hann", {}, [0.0, 0.5, 1.0]),
    ("kaiser", {"beta": 4.0}, [0.088481, 0.633432, 1.0]),
    ("nuttall", {}, [0.000363, 0.226982, 1.0]),
]
PERIODIC = {
    "bartlett": [0.0, 0.4, 0.8, 0.8, 0.4],
    "blackman": [0.0, 0.20077, 0.84923, 0.84923, 0.20077],
    "hamming": [0.08, 0.397852, 0.912148, 0.912148, 0.397852],
    "hann": [0.0, 0.345492, 0.904508, 0.904508, 0.345491],
    "kaiser": [5.3e-05, 0.10172, 0.792939, 0.792939, 0.10172],
}


@pytest.mark.parametrize(("name", "options", "half"), WINDOWS)
def test_windows_are_pytorchs(name: str, options: dict[str, Any], half: list[float]):
    window = getattr(rl.signal.windows, name)
    assert window(5, **options).tolist() == pytest.approx(half + half[1::-1], abs=2e-6)
    assert window(4, sym=False, **options).tolist() == pytest.approx([*half, half[1]], abs=2e-6)
    assert window(0, **options).shape == (0,)
    assert window(1, dtype=rl.float64, **options).tolist() == [1.0]


def test_windows_of_the_top_are_periodic():
    for name, values in PERIODIC.items():
        window = getattr(rl, f"{name}_window")
        assert window(5).tolist() == pytest.approx(values, abs=2e-6)
        assert window(5, dtype=rl.bfloat16).dtype is rl.bfloat16


def test_transforms_of_frames_are_pytorchs_and_go_back():
    signal, window = rl.arange(10.0) ** 2 / 10, rl.tensor([0.5, 1.0, 0.75])
    found = rl.stft(signal, 4, 2, 3, window, return_complex=True)
    assert found.real[1].tolist() == pytest.approx([0.2, -0.3, -1.0, -1.9, -3.0, -1.6], abs=1e-5)
    assert found.imag[1].tolist() == pytest.approx([-0.1, -0.1, -0.9, -2.5, -4.9, -8.1], abs=1e-5)
    back = found.istft(4, 2, 3, window, length=9)
    assert back.tolist() == pytest.approx(signal[:9].tolist(), abs=1e-5)
    options = {"center": False, "normalized": True, "onesided": False, "return_complex": False}
    whole = signal.stft(4, 3, **options)
    assert whole[1, :, 0].tolist() == pytest.approx([-0.2, -0.8, -1.4], abs=1e-5)
    assert whole[3, :, 1].tolist() == pytest.approx([-0.4, -1.0, -1.6], abs=1e-5)


@rl.compile(fullgraph=True)
def _there_and_back(signal: rl.Tensor, window: rl.Tensor) -> rl.Tensor:
    found = rl.stft(signal, 4, 2, window=window, return_complex=True)
    return rl.istft(found * 2, 4, 2, window=window)


def test_transforms_of_frames_compile_and_have_gradients():
    window = rl.hann_window(4, dtype=rl.float64) + 0.1
    for size in (8, 10):
        signal = (rl.arange(float(size), dtype=rl.float64) ** 2 / 10).reshape(1, -1)
        assert (_there_and_back(signal, window) - 2 * signal).abs().max().item() < 1e-12
    signal.requires_grad_()
    window.requires_grad_()

    def compared(signal: rl.Tensor, window: rl.Tensor) -> rl.Tensor:
        found = rl.stft(signal, 4, 2, window=window, return_complex=True)
        return rl.istft(found * found, 4, 2, window=window)

    assert gradcheck(compared, (signal, window))


def test_products_over_dims_are_pytorchs():
    a, b = rl.arange(6.0).reshape(1, 2, 3), rl.arange(6.0).reshape(3, 2)
    assert rl.tensordot(a, b, 1).tolist() == [[[10.0, 13.0], [28.0, 40.0]]]
    assert rl.tensordot(a, b, ([1, 2], [1, 0])).tolist() == [50.0]
    assert rl.tensordot(a, b, dims=0).shape == (1, 2, 3, 3, 2)
    assert rl.chain_matmul(b, a[0], b).tolist() == (b @ a[0] @ b).tolist()
    matrix = (rl.arange(36.0) + 20 * rl.eye(6).reshape(-1)).reshape(2, 3, 6)
    solved = [0.0588235, 0.0395722, 0.0203209, 0.0010695, -0.0181818, -0.0374332]
    assert rl.linalg.tensorsolve(matrix, rl.ones(2, 3), (0, 2)).tolist() == pytest.approx(solved, abs=1e-5)


def test_approximations_of_low_rank_are_exact_where_the_rank_is_low():
    rl.manual_seed(0)
    matrix = rl.randn(7, 2) @ rl.randn(2, 9)
    for given in (matrix, matrix.mH):
        u, s, v = rl.svd_lowrank(given, q=3)
        assert (u * s @ v.mH - given).abs().max().item() < 1e-4
    u, s, v = rl.pca_lowrank(matrix, q=2)
    assert (u * s @ v.mH - (matrix - matrix.mean(0))).abs().max().item() < 1e-4
    packed, pivots, info = rl.lu(matrix[:, :7] + 5 * rl.eye(7), get_infos=True)
    parts = rl.lu_unpack(packed, pivots)
    assert (parts[0] @ parts[1] @ parts[2] - matrix[:, :7] - 5 * rl.eye(7)).abs().max().item() < 1e-4
    assert not info.any()


@pytest.mark.parametrize("largest", [True, False])
def test_eigenpairs_of_two_matrices(largest: bool):
    rl.manual_seed(0)
    a, b = rl.randn(2, 7, 7, dtype=rl.float64), rl.randn(7, 7, dtype=rl.float64)
    a, b = a + a.mT, b @ b.mT + rl.eye(7, dtype=rl.float64)
    for weights in (None, b):
        values, vectors = rl.lobpcg(a, k=2, B=weights, largest=largest)
        weighted = vectors if weights is None else weights @ vectors
        assert (a @ vectors - values.unsqueeze(-2) * weighted).abs().max().item() < 1e-12
        assert (vectors.mT @ weighted - rl.eye(2, dtype=rl.float64)).abs().max().item() < 1e-12
        assert bool((values[:, 0] > values[:, 1]).all()) is largest
    assert rl.allclose(rl.lobpcg(a, X=rl.ones(7, 2))[0], rl.linalg.eigvalsh(a)[:, -2:].flip(-1))
    leaf = a[0].clone().requires_grad_()
    assert gradcheck(lambda x: rl.lobpcg((x + x.mT) / 2, k=2, B=b)[0], (leaf,))


REFUSED: list[tuple[str, Any]] = [
    ("A002", lambda: rl.lobpcg(rl.eye(5), k=2)),
    ("A002", lambda: rl.lobpcg(rl.eye(9), k=2, method="power")),
    ("A006", lambda: rl.lobpcg(rl.eye(9), tracker=print)),
    ("S002", lambda: rl.lobpcg(rl.ones(9, 8))),
    ("A004", lambda: rl.stft(rl.ones(8), 4)),
    ("A004", lambda: rl.stft(rl.ones(8), 4, return_complex=True, align_to_window=True)),
    ("A004", lambda: rl.stft(rl.ones(3), 4, center=False, return_complex=True)),
    ("A004", lambda: rl.stft(rl.ones(8), 4, window=rl.ones(3), return_complex=True)),
    ("D001", lambda: rl.stft(rl.ones(8, dtype=rl.int64), 4, return_complex=True)),
    ("R002", lambda: rl.istft(rl.ones(3, 4) + 0j, 4, window=rl.zeros(4))),
    ("A004", lambda: rl.istft(rl.ones(4, 4) + 0j, 4, onesided=True)),
    ("A002", lambda: rl.hann_window(-1)),
    ("A004", lambda: rl.hann_window(4, dtype=rl.int64)),
    ("A006", lambda: rl.hann_window(4, layout=rl.sparse_coo)),
    ("A002", lambda: rl.signal.windows.hann(4, dtype=rl.bfloat16)),
    ("A002", lambda: rl.signal.windows.exponential(4, center=1.0)),
    ("A004", lambda: rl.tensordot(rl.ones(2), rl.ones(2), 2)),
    ("A002", lambda: rl.pca_lowrank(rl.ones(3, 3), q=4)),
    ("S002", lambda: rl.chain_matmul(rl.ones(3))),
]


@pytest.mark.parametrize(("code", "call"), REFUSED)
def test_what_pytorch_refuses_is_refused(code: str, call: Any):
    with pytest.raises(RushlightError) as caught:
        call()
    assert caught.value.code == code


def test_norms_of_matrices_without_elements_are_zero():
    for order in ("fro", "nuc", 1, 2, float("inf")):
        assert rl.linalg.matrix_norm(rl.zeros(2, 0, 0), order).tolist() == [0.0, 0.0]
    with pytest.raises(RushlightError):
        rl.linalg.matrix_norm(rl.zeros(0, 3), -2)


@pytest.mark.parametrize("dims", [(0, 1), (1, 2), (2, 0)])
def test_nuclear_norms_are_sums_of_singular_values(dims: tuple[int, int]):
    x = (rl.arange(24.0, dtype=rl.float64) ** 2 * 0.37).sin().reshape(2, 3, 4).requires_grad_()
    matrices = np.moveaxis(x.detach().numpy(), dims, (-2, -1))
    wanted = np.linalg.svd(matrices, compute_uv=False).sum(-1)
    assert np.allclose(rl.norm(x, "nuc", dims).detach().numpy(), wanted, rtol=1e-12)
    assert rl.equal(x.norm("nuc", dims), rl.nuclear_norm(x, dims))
    kept = rl.nuclear_norm(x, dims, True)
    assert kept.shape == tuple([1 if dim in dims else size for dim, size in enumerate(x.shape)])
    assert gradcheck(lambda x: rl.norm(x, "nuc", dims), (x,))
    assert rl.equal(rl.compile(lambda x: rl.norm(x, "nuc", dims), fullgraph=True)(x), rl.norm(x, "nuc", dims))
    with pytest.raises(RushlightError):
        rl.norm(x, "nuc")
    assert rl.frobenius_norm(x).item() == pytest.approx(float(np.linalg.norm(x.detach().numpy())), rel=1e-12)


def test_cross_finds_its_dim_in_every_dtype():
    for dtype in (rl.int64, rl.bfloat16, rl.float32):
        assert rl.cross(rl.ones(5, 3, dtype=dtype), rl.ones(5, 3, dtype=dtype)).shape == (5, 3)
        assert rl.cross(rl.ones(3, 2, dtype=dtype), rl.ones(3, 2, dtype=dtype)).shape == (3, 2)
