"""Matrix products: plain, in batches, of narrow numbers, of groups."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.programs import numpy_ops, pytorch_ops
from rushlight.bench.records import Array, Inputs, normal

F = rl.nn.functional
PARTS = 16  # of the inner dim, for sums in two steps
SPLIT_K = [(size, inner, size) for size in (16, 32, 64) for inner in (4096, 16384, 32768)]
LLM = [(rows, inner, columns) for rows in (1, 16, 512) for inner, columns in ((4096, 4096), (4096, 14336))]
GEMMS = {
    "small": [(1, 1, 1), (5, 7, 3), (9, 32, 8)],
    "default": [(256, 256, 256), (1024, 1024, 1024), (2048, 2048, 2048)],
    "splitk": SPLIT_K,
    "llm": LLM,
}


def flops(m: int, k: int, n: int) -> float:
    """Multiplications and additions of a product."""
    return 2.0 * m * k * n


def operands(rng: np.random.Generator, m: int, k: int, n: int) -> Inputs:
    """Two matrices whose product has values of about 1, however long its sums are."""
    return {"a": (normal(rng, m, k) + 1) / np.float32(k), "b": normal(rng, k, n) + 1}


def with_bias(rng: np.random.Generator, m: int, k: int, n: int) -> Inputs:
    """A summand for each column, and two matrices."""
    return {"bias": normal(rng, n), **operands(rng, m, k, n)}


gemm = Benchmark(
    "gemm",
    "a product of two matrices",
    ("m", "k", "n"),
    GEMMS,
    flops,
    operands,
    lambda a, b: a @ b,
    lambda a, b: a @ b,
    ("a", "b"),
)


@gemm.variant("decompose-k")
def decomposed(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """The inner dim in parts, which are a batch; a last product has what is left over."""
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    part = k // PARTS
    whole = part * PARTS
    left = a[:, :whole].reshape(m, PARTS, part).transpose(0, 1)
    total = (left @ b[:whole].reshape(PARTS, part, n)).sum(0)
    return total if whole == k else total + a[:, whole:] @ b[whole:]


gemm.gated("tma-persistent", "warp-specialized", needs="a GPU with a tensor memory accelerator (Hopper or newer)")
gemm.gated("buffer-ops", needs="a GPU with buffer instructions (AMD CDNA)")


def quantized(rng: np.random.Generator, m: int, k: int, n: int) -> Inputs:
    """Two int4 in a byte along the inner dim, and a scale for each 128 rows."""
    return {
        "x": normal(rng, m, k),
        "w": rng.integers(-128, 128, (k // 2, n), dtype="int8"),
        "scales": normal(rng, k // 128, n),
    }


def fp8(rng: np.random.Generator, m: int, k: int, n: int) -> Inputs:
    """Rows of float32, weights as bytes of float8_e4m3fn, and a scale for each column."""
    magnitudes = rng.integers(0, 0x7E, (k, n))  # 0x7F is NaN
    signs = rng.integers(0, 2, (k, n)) << 7
    return {
        "x": normal(rng, m, k) / np.float32(k),
        "w": (magnitudes | signs).astype(np.uint8),
        "scale": rng.uniform(0.01, 0.1, n).astype(np.float32),
    }


def fp8_values(codes: Array) -> Array:
    """What bytes of float8_e4m3fn stand for: 4 bits of exponent with a bias of 7, and 3 of a fraction."""
    codes = codes.astype(np.int64)
    exponent, fraction = codes >> 3 & 15, codes & 7
    normal_value = (8 + fraction) * 2.0 ** (exponent - 10)
    value = np.where(exponent > 0, normal_value, fraction * 2.0**-9)
    return np.where(codes >= 128, -value, value)


def fp8_gemm(x: rl.Tensor, w: rl.Tensor, scale: rl.Tensor) -> rl.Tensor:
    """Weights of 8 bits become float32 where they are multiplied."""
    return (x @ w.view(rl.float8_e4m3fn).to(x.dtype)) * scale


def grouped(rng: np.random.Generator, groups: int, rows: int, k: int, n: int) -> Inputs:
    """Rows in groups of different lengths, one of them empty, with a matrix for each group."""
    cuts = np.sort(rng.integers(0, rows + 1, groups - 1))
    if groups > 2:
        cuts[1] = cuts[0]
    ends = np.append(cuts, rows).astype(np.int32)
    return {"x": normal(rng, rows, k), "w": normal(rng, groups, k, n), "ends": ends}


def grouped_reference(x: Array, w: Array, ends: Array) -> Array:
    """Each group by its matrix."""
    begins = [0, *ends[:-1]]
    return np.concatenate([x[begin:end] @ part for begin, end, part in zip(begins, ends, w, strict=True)])


BENCHMARKS = (
    gemm,
    Benchmark(
        "addmm",
        "a product with a summand for each column",
        ("m", "k", "n"),
        GEMMS,
        flops,
        with_bias,
        lambda bias, a, b: a @ b + bias,
        lambda bias, a, b: rl.addmm(bias, a, b),
        ("bias", "a", "b"),
    ),
    Benchmark(
        "bmm",
        "a batch of products",
        ("batch", "m", "k", "n"),
        {"small": [(3, 2, 5, 4)], "default": [(16, 256, 256, 256), (64, 128, 64, 128)]},
        lambda batch, m, k, n: batch * flops(m, k, n),
        lambda rng, batch, m, k, n: {"a": normal(rng, batch, m, k), "b": normal(rng, batch, k, n)},
        lambda a, b: a @ b,
        lambda a, b: rl.bmm(a, b),
        ("a", "b"),
    ),
    Benchmark(
        "bf16_gemm",
        "a product of bfloat16",
        ("m", "k", "n"),
        {"small": [(5, 7, 3), (9, 32, 8)], "default": [(512, 512, 512), (2048, 2048, 2048)], "llm": LLM},
        flops,
        operands,
        lambda a, b: a @ b,
        lambda a, b: a @ b,
        dtype="bfloat16",
    ),
    Benchmark(
        "int8_gemm",
        "a product of int8, summed in int32",
        ("m", "k", "n"),
        {"small": [(19, 8, 16)], "default": [(512, 512, 512), (1024, 1024, 1024)]},
        flops,
        lambda rng, m, k, n: {
            "a": rng.integers(-128, 128, (m, k), dtype="int8"),
            "b": rng.integers(-128, 128, (k, n), dtype="int8"),
        },
        numpy_ops.int8_matmul,
        pytorch_ops.int8_matmul,
        dtype="int8",
    ),
    Benchmark(
        "int4_gemm",
        "a product with weights of 4 bits, which groups of rows scale",
        ("m", "k", "n"),
        {"small": [(1, 128, 3), (5, 256, 16)], "default": [(1, 4096, 4096), (16, 4096, 4096)], "llm": LLM},
        flops,
        quantized,
        numpy_ops.int4_matmul,
        pytorch_ops.int4_matmul,
        ("x",),
        traffic=lambda m, k, n: 4.0 * (m * k + m * n + k // 128 * n) + 0.5 * k * n,
    ),
    Benchmark(
        "fp8_gemm",
        "a product with weights of 8-bit floats, which columns scale",
        ("m", "k", "n"),
        {"small": [(1, 8, 3), (5, 16, 16)], "default": [(1, 4096, 4096), (16, 4096, 4096)], "llm": LLM},
        flops,
        fp8,
        lambda x, w, scale: (x @ fp8_values(w)) * scale,
        fp8_gemm,
        ("x", "scale"),
    ),
    Benchmark(
        "grouped_gemm",
        "products of groups of rows with a matrix each",
        ("groups", "rows", "k", "n"),
        {"small": [(4, 11, 8, 16)], "default": [(8, 2048, 512, 512)], "jagged": [(64, 4096, 256, 256)]},
        lambda groups, rows, k, n: flops(rows, k, n),
        grouped,
        grouped_reference,
        lambda x, w, ends: F.grouped_mm(x, w, offs=ends),
    ),
    Benchmark(
        "gather_gemv",
        "a row of experts' matrices by a vector",
        ("experts", "size"),
        {"small": [(3, 5)], "default": [(8, 1024), (8, 2048)]},
        lambda experts, size: 4.0 * size * size,
        lambda rng, experts, size: {
            "w": normal(rng, experts, size, size),
            "index": np.array([experts - 1, 0]),
            "x": normal(rng, size),
        },
        lambda w, index, x: w[index] @ x,
        lambda w, index, x: w[index] @ x,
        traffic=lambda experts, size: 4.0 * (2 * size * size + 3 * size),
    ),
)
