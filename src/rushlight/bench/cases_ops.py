"""Single operators, and a chain that a compiler can fuse."""

from __future__ import annotations

from rushlight.bench.records import Case, moved, normal

ATTENTION = (1, 12, 1024, 64)


def gemm(rows: int, inner: int, columns: int, name: str, dtype: str = "float32") -> Case:
    """A product of two matrices."""
    shapes = (rows, inner), (inner, columns), (rows, columns)
    return Case(
        name,
        "ops",
        "matmul",
        lambda rng: {"a": normal(rng, rows, inner), "b": normal(rng, inner, columns)},
        flops=2.0 * rows * inner * columns,
        bytes=moved(*shapes, size=2 if dtype == "bfloat16" else 4),
        dtype=dtype,
    )


def int8_gemm(size: int) -> Case:
    """A product of matrices of int8, accumulated in int32."""
    return Case(
        f"gemm-int8-{size}",
        "ops",
        "int8_matmul",
        lambda rng: {name: rng.integers(-128, 128, (size, size), dtype="int8") for name in ("a", "b")},
        flops=2.0 * size**3,
        bytes=6.0 * size**2,
        dtype="int8",
    )


def int4_gemm(rows: int, size: int) -> Case:
    """A product with a square of weights that are packed two to a byte, with a scale for each 128 rows."""
    return Case(
        f"gemm-int4-{rows}x{size}x{size}",
        "ops",
        "int4_matmul",
        lambda rng: {
            "x": normal(rng, rows, size),
            "w": rng.integers(-128, 128, (size // 2, size), dtype="int8"),
            "scales": normal(rng, size // 128, size),
        },
        flops=2.0 * rows * size**2,
        bytes=moved((2 * rows, size), (size // 128, size)) + 0.5 * size**2,
    )


def pointwise(rows: int, columns: int) -> Case:
    """gelu(x * w + b) + residual: eight operations for each element, one pass when fused."""
    return Case(
        f"gelu-chain-{rows}x{columns}",
        "ops",
        "pointwise",
        lambda rng: {
            "x": normal(rng, rows, columns),
            "w": normal(rng, columns),
            "b": normal(rng, columns),
            "residual": normal(rng, rows, columns),
        },
        flops=8.0 * rows * columns,
        bytes=moved((3 * rows, columns), (2, columns)),
    )


def softmax(rows: int, columns: int) -> Case:
    """Along the last dim."""
    return Case(
        f"softmax-{rows}x{columns}",
        "ops",
        "softmax",
        lambda rng: {"x": normal(rng, rows, columns)},
        flops=5.0 * rows * columns,
        bytes=moved((2 * rows, columns)),
    )


def layer_norm(rows: int, columns: int) -> Case:
    """With weight and bias, along the last dim."""
    return Case(
        f"layernorm-{rows}x{columns}",
        "ops",
        "layer_norm",
        lambda rng: {"x": normal(rng, rows, columns), "w": normal(rng, columns), "b": normal(rng, columns)},
        flops=8.0 * rows * columns,
        bytes=moved((2 * rows, columns), (2, columns)),
    )


def layer_norm_gradients(rows: int, columns: int) -> Case:
    """Forward, and the gradients of x, w and b."""
    return Case(
        f"layernorm-backward-{rows}x{columns}",
        "ops",
        "layer_norm_gradients",
        lambda rng: {
            "x": normal(rng, rows, columns),
            "w": normal(rng, columns),
            "b": normal(rng, columns),
            "g": normal(rng, rows, columns),
        },
        flops=20.0 * rows * columns,
        bytes=moved((4 * rows, columns), (4, columns)),
    )


def rms_norm(rows: int, columns: int) -> Case:
    """With weight, along the last dim."""
    return Case(
        f"rmsnorm-{rows}x{columns}",
        "ops",
        "rms_norm",
        lambda rng: {"x": normal(rng, rows, columns), "w": normal(rng, columns)},
        flops=4.0 * rows * columns,
        bytes=moved((2 * rows, columns), (1, columns)),
    )


def cross_entropy(rows: int, classes: int) -> Case:
    """The mean loss, and the gradient of the logits."""
    return Case(
        f"cross-entropy-backward-{rows}x{classes}",
        "ops",
        "cross_entropy_gradients",
        lambda rng: {"logits": normal(rng, rows, classes), "targets": rng.integers(0, classes, rows)},
        flops=8.0 * rows * classes,
        bytes=moved((2 * rows, classes)) + 8.0 * rows,
    )


def attention(backward: bool) -> Case:
    """Causal: half of the products are counted. Backward has five products where forward has two."""
    batch, heads, length, width = ATTENTION
    names = ("q", "k", "v", "g") if backward else ("q", "k", "v")
    return Case(
        f"attention{'-backward' if backward else ''}-{heads}x{length}x{width}",
        "ops",
        "attention_gradients" if backward else "attention",
        lambda rng: {name: normal(rng, *ATTENTION) for name in names},
        flops=(7 if backward else 2) * 2.0 * batch * heads * length**2 * width / 2,
        bytes=moved(*[ATTENTION] * (8 if backward else 4)),
    )


def sum_rows(rows: int, columns: int) -> Case:
    """A sum over the first dim: one result for each column."""
    return Case(
        f"sum-dim0-{rows}x{columns}",
        "ops",
        "sum_rows",
        lambda rng: {"x": normal(rng, rows, columns)},
        flops=1.0 * rows * columns,
        bytes=moved((rows, columns), (1, columns)),
    )


def convolution(channels: int, size: int, groups: int = 1) -> Case:
    """A 3x3 convolution, padding 1, batch 1, equal channels in and out.

    "depthwise" has a group for each channel.
    """
    kind = "" if groups == 1 else "-depthwise" if groups == channels else f"-groups-{groups}"
    deep = channels // groups
    return Case(
        f"conv3x3{kind}-{size}x{size}x{channels}",
        "ops",
        "convolution",
        lambda rng: {"x": normal(rng, 1, channels, size, size), "w": normal(rng, channels, deep, 3, 3)},
        flops=2.0 * 9 * channels * deep * size**2,
        bytes=moved((2 * channels, size, size), (channels, deep, 9)),
        options={"groups": groups},
    )


OPS: tuple[Case, ...] = (
    *[gemm(size, size, size, f"gemm-{size}") for size in (256, 512, 1024, 2048, 4096)],
    *[gemm(rows, 4096, 4096, f"gemm-{rows}x4096x4096") for rows in (1, 16, 64)],
    *[gemm(size, 32768, size, f"gemm-{size}x32768x{size}") for size in (16, 64)],
    *[gemm(size, size, size, f"gemm-bf16-{size}", "bfloat16") for size in (512, 2048)],
    int8_gemm(1024),
    *[int4_gemm(rows, 4096) for rows in (1, 16)],
    pointwise(4096, 4096),
    softmax(4096, 4096),
    layer_norm(8192, 1024),
    layer_norm_gradients(8192, 1024),
    rms_norm(8192, 1024),
    cross_entropy(2048, 32000),
    attention(backward=False),
    attention(backward=True),
    *[sum_rows(32768, columns) for columns in (512, 1024, 4096)],
    convolution(64, 56),
    convolution(128, 56, groups=32),
    convolution(128, 56, groups=128),
)
