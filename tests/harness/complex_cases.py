"""Programs on complex128 numbers that run in Rushlight and in PyTorch alike, with their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

INF = float("inf")


def complex_array(seed: int, *shape: int) -> Any:
    """Normally distributed parts."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


ROWS, OTHER, TALL = complex_array(0, 3, 5), complex_array(1, 3, 5), complex_array(2, 5, 3)
SQUARE, RIGHT, VECTOR = complex_array(3, 4, 4), complex_array(4, 4, 4), complex_array(5, 4)
BATCH, BATCH_RIGHT = complex_array(6, 2, 3, 4), complex_array(7, 2, 4, 3)
ZEROS = np.where(np.arange(15).reshape(3, 5) % 7 == 1, 0, ROWS)
IMAGE, KERNEL, BIAS = complex_array(8, 2, 3, 6, 5), complex_array(9, 4, 3, 3, 2), complex_array(10, 4)
REAL = np.random.default_rng(11).standard_normal((3, 5))
PLACES = [[0, 1, 1, 2, 2]] * 3

# Each name's program takes the library and tensors of the arrays that follow it, all of which require gradients.
CASES: dict[str, tuple[Any, ...]] = {
    "prod": (lambda t, x: t.prod(x, 1), ROWS),
    "prod of all": (lambda t, x: t.prod(x), ROWS),
    "prod with zeros": (lambda t, x: t.prod(x, 1), ZEROS),
    "cumprod": (lambda t, x: t.cumprod(x, 0), ROWS),
    "cumprod with zeros": (lambda t, x: t.cumprod(x, 1), ZEROS),
    "cumsum": (lambda t, x: t.cumsum(x, 1), ROWS),
    "mean": (lambda t, x: x.mean((0, 1)), ROWS),
    "mean of rows": (lambda t, x: x.mean(1, keepdim=True), ROWS),
    "var": (lambda t, x: x.var(1, correction=0), ROWS),
    "std": (lambda t, x: x.std(), ROWS),
    "var_mean": (lambda t, x: t.var_mean(x, 0)[1], ROWS),
    "logsumexp": (lambda t, x: t.logsumexp(x, 1), ROWS),
    "logcumsumexp": (lambda t, x: t.logcumsumexp(x, 1), ROWS),
    "logaddexp": (lambda t, x, y: t.logaddexp(x, y), ROWS, OTHER),
    "vector_norm 2": (lambda t, x: t.linalg.vector_norm(x, 2, 1), ROWS),
    "vector_norm 1": (lambda t, x: t.linalg.vector_norm(x, 1), ROWS),
    "vector_norm 3": (lambda t, x: t.linalg.vector_norm(x, 3, 0, True), ROWS),
    "vector_norm inf": (lambda t, x: t.linalg.vector_norm(x, INF, 1), ROWS),
    "vector_norm -inf": (lambda t, x: t.linalg.vector_norm(x, -INF, 1), ROWS),
    "norm": (lambda t, x: x.norm(), ROWS),
    "matrix_norm nuc": (lambda t, x: t.linalg.matrix_norm(x, "nuc"), ROWS),
    "matrix_norm 2": (lambda t, x: t.linalg.matrix_norm(x, 2), ROWS),
    "matrix_norm 1": (lambda t, x: t.linalg.matrix_norm(x, 1), ROWS),
    "matrix_norm -inf": (lambda t, x: t.linalg.matrix_norm(x, -INF), ROWS),
    "cond": (lambda t, x: t.linalg.cond(x), SQUARE),
    "renorm": (lambda t, x: t.renorm(x, 2, 0, 1.0), ROWS),
    "dist": (lambda t, x, y: t.dist(x, y), ROWS, OTHER),
    "normalize": (lambda t, x: t.nn.functional.normalize(x), ROWS),
    "pairwise_distance": (lambda t, x, y: t.nn.functional.pairwise_distance(x, y), ROWS, OTHER),
    "l1_loss": (lambda t, x, y: t.nn.functional.l1_loss(x, y), ROWS, OTHER),
    "where": (lambda t, x, y: t.where(x.real > 0, x, y), ROWS, OTHER),
    "index": (lambda t, x: x[t.tensor([0, 2, 2])], ROWS),
    "gather": (lambda t, x: t.gather(x, 1, t.tensor(PLACES)), ROWS),
    "scatter_add": (lambda t, x, y: t.scatter_add(x, 1, t.tensor(PLACES), y), ROWS, OTHER),
    "index_add": (lambda t, x, y: t.index_add(x, 0, t.tensor([0, 0, 1]), y), ROWS, OTHER),
    "index_put": (lambda t, x, y: t.index_put(x, (t.tensor([2, 0, 0]),), y, accumulate=True), ROWS, OTHER),
    "masked_scatter": (lambda t, x, y: t.masked_scatter(x, x.real > 0, y), ROWS, OTHER),
    "matmul": (lambda t, x, y: x @ y, ROWS, TALL),
    "bmm": (lambda t, x, y: t.bmm(x, y), BATCH, BATCH_RIGHT),
    "vdot": (lambda t, x, y: t.vdot(x, y), VECTOR, SQUARE[0]),
    "einsum": (lambda t, x, y: t.einsum("bij,kj->bk", x, y), BATCH, SQUARE),
    "addmm": (lambda t, x, y, z: t.addmm(z, x, y, beta=2j, alpha=1 - 1j), ROWS, TALL, SQUARE[:3, :3]),
    "kron": (lambda t, x, y: t.kron(x, y), ROWS, TALL),
    "matrix_power": (lambda t, x: t.linalg.matrix_power(x, -2), SQUARE),
    "matrix_exp": (lambda t, x: t.linalg.matrix_exp(x), SQUARE * 0.3),
    "conv1d": (lambda t, x, w: t.nn.functional.conv1d(x, w, padding=1), BATCH, TALL.reshape(1, 3, 5)),
    "conv2d": (
        lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, stride=2, padding=1, dilation=(1, 2)),
        IMAGE,
        KERNEL,
        BIAS,
    ),
    "conv2d by channel": (lambda t, x, w: t.nn.functional.conv2d(x, w, groups=3), IMAGE, KERNEL[:3, :1]),
    "conv_transpose2d": (
        lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, stride=2, output_padding=1),
        IMAGE,
        KERNEL.swapaxes(0, 1).copy(),
    ),
    "linear": (lambda t, x, w, b: t.nn.functional.linear(x, w, b), ROWS, TALL.T.copy(), VECTOR[:3]),
    "det": (lambda t, x: t.linalg.det(x), SQUARE),
    "slogdet": (lambda t, x: t.linalg.slogdet(x)[0], SQUARE),
    "slogdet, logarithm": (lambda t, x: t.linalg.slogdet(x)[1], SQUARE),
    "inv": (lambda t, x: t.linalg.inv(x), SQUARE),
    "pinv": (lambda t, x: t.linalg.pinv(x), TALL),
    "solve": (lambda t, x, y: t.linalg.solve(x, y), SQUARE, RIGHT),
    "lstsq": (lambda t, x, y: t.linalg.lstsq(x, y)[0], TALL, ROWS.T.copy()),
    "solve_triangular": (
        lambda t, x, y: t.linalg.solve_triangular(x.triu(), y, upper=True),
        SQUARE + 3 * np.eye(4),
        RIGHT,
    ),
    "cholesky": (lambda t, x: t.linalg.cholesky(x @ x.mH + 4 * t.eye(4)), SQUARE),
    "cholesky_solve": (
        lambda t, x, y: t.cholesky_solve(y, t.linalg.cholesky(x @ x.mH + 4 * t.eye(4))),
        SQUARE,
        RIGHT,
    ),
    "eigvals": (lambda t, x: t.linalg.eigvals(x).abs().sort()[0], SQUARE),
    "eigvalsh": (lambda t, x: t.linalg.eigvalsh(x + x.mH), SQUARE),
    "eigh": (lambda t, x: t.linalg.eigh(x + x.mH)[1].abs(), SQUARE),
    "svdvals": (lambda t, x: t.linalg.svdvals(x), ROWS),
    "svd": (lambda t, x: t.linalg.svd(x, full_matrices=False)[2].abs(), ROWS),
    "qr": (lambda t, x: t.linalg.qr(x)[0].abs(), SQUARE),
    "lu": (lambda t, x: t.linalg.lu(x)[2], SQUARE),
    "lu_solve": (lambda t, x, y: t.linalg.lu_solve(*t.linalg.lu_factor(x), y), SQUARE, RIGHT),
    "householder_product": (lambda t, x, y: t.linalg.householder_product(x, y), SQUARE[:, :3], VECTOR[:3] * 0.3),
    "tensorsolve": (lambda t, x, y: t.linalg.tensorsolve(x.reshape(2, 2, 4), y.reshape(2, 2)), SQUARE, VECTOR),
    "fft": (lambda t, x: t.fft.fft(x, 7, 0, norm="ortho"), ROWS),
    "ifft2": (lambda t, x: t.fft.ifft2(x), ROWS),
    "hfft": (lambda t, x: t.fft.hfft(x, norm="forward"), ROWS),
    "irfft2": (lambda t, x: t.fft.irfft2(x), ROWS),
    "ihfftn": (lambda t, x: t.fft.ihfftn(x), REAL),
    "rfft": (lambda t, x: t.fft.rfft(x, 6, 0), REAL),
    "stft": (
        lambda t, x: t.stft(x.reshape(15), 8, 4, window=t.ones(8, dtype=t.float64), return_complex=True),
        REAL,
    ),
    "istft": (lambda t, x: t.istft(x, 8, 4, window=t.ones(8, dtype=t.float64)), complex_array(12, 5, 4)),
    "sgn": (lambda t, x: t.sgn(x), ROWS),
    "angle": (lambda t, x: t.angle(x), ROWS),
    "sinc": (lambda t, x: t.sinc(x), ROWS),
    "rms_norm": (lambda t, x, w: t.nn.functional.rms_norm(x, (5,), w[0], eps=0.1), ROWS, OTHER),
    "norm nuc": (lambda t, x: t.norm(x, "nuc"), ROWS),
    "tanhshrink": (lambda t, x: t.nn.functional.tanhshrink(x), ROWS),
    "float_power": (lambda t, x: t.float_power(x, 1.5), ROWS),
    "lerp": (lambda t, x, y: t.lerp(x, y, 0.3), ROWS, OTHER),
    "lerp by tensors": (lambda t, x, y, w: t.lerp(x, y, w), ROWS, OTHER, ROWS * 0.4),
    "addcmul": (lambda t, x, y, z: t.addcmul(x, y, z, value=1j), ROWS, OTHER, ROWS + 1),
    "addcdiv": (lambda t, x, y, z: t.addcdiv(x, y, z, value=1j), ROWS, OTHER, ROWS + 1),
    "polar": (lambda t, x, y: t.polar(x, y), np.abs(REAL), REAL * math.pi),
    "complex": (lambda t, x, y: t.complex(x, y), REAL, REAL * 2),
    "real times complex": (lambda t, x, y: x * y, ROWS, REAL),
    "pad": (lambda t, x: t.nn.functional.pad(x[None], (1, 2), mode="reflect"), ROWS),
    "unfold": (lambda t, x: t.nn.functional.unfold(x, 2), IMAGE),
    "cov": (lambda t, x: t.cov(x), ROWS),
    "corrcoef": (lambda t, x: t.corrcoef(x), ROWS),
    "isclose": (lambda t, x, y: t.isclose(x, y), ROWS, ROWS + np.where(REAL > 0, 1e-6j, 1e-3)),
}


def outcome(library: Any, tensor: Callable[[Any], Any], array: Callable[[Any], Any], name: str) -> list[Any]:
    """The result of a program, and the gradients of its inputs for a weighted sum of it."""
    program, *inputs = CASES[name]
    tensors = [tensor(np.array(item)).requires_grad_() for item in inputs]
    result = program(library, *tensors)
    found = [array(result.detach())]
    if result.requires_grad:
        places = np.arange(found[0].size).reshape(found[0].shape)
        weights = np.cos(places) + (1j * np.sin(1.7 * places) if np.iscomplexobj(found[0]) else 0)
        result.backward(tensor(np.asarray(weights, found[0].dtype)))
        found += [array(item.grad) for item in tensors]
    return found
