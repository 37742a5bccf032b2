"""Operators in tinygrad, each compiled by TinyJit."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.bench.peers import TinygradTensor, tinygrad

EPSILON = 1e-5
Function = Callable[..., TinygradTensor | tuple[TinygradTensor, ...]]


def int8_matmul(a: TinygradTensor, b: TinygradTensor) -> TinygradTensor:
    """a @ b of int8, in int32."""
    return a.cast(tinygrad.dtypes.int32) @ b.cast(tinygrad.dtypes.int32)


def pointwise(x: TinygradTensor, w: TinygradTensor, b: TinygradTensor, residual: TinygradTensor) -> TinygradTensor:
    """gelu(x * w + b) + residual; tinygrad's gelu is the approximation, this is the exact one."""
    inner = x * w + b
    return 0.5 * inner * (1 + (inner * 0.5**0.5).erf()) + residual


def layer_norm(x: TinygradTensor, w: TinygradTensor, b: TinygradTensor) -> TinygradTensor:
    """Along the last dim."""
    return x.layernorm(eps=EPSILON) * w + b


def rms_norm(x: TinygradTensor, w: TinygradTensor) -> TinygradTensor:
    """Along the last dim."""
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * w


def attention(q: TinygradTensor, k: TinygradTensor, v: TinygradTensor) -> TinygradTensor:
    """Causal."""
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def with_gradients(forward: Callable[..., TinygradTensor]) -> Function:
    """The result and the operands' gradients. The last operand is the gradient of the result."""

    def step(*operands: TinygradTensor) -> tuple[TinygradTensor, ...]:
        *inputs, slope = operands
        result = forward(*inputs)
        return (result, *result.gradient(*inputs, gradient=slope))

    return step


def cross_entropy_gradients(logits: TinygradTensor, targets: TinygradTensor) -> tuple[TinygradTensor, ...]:
    """The mean loss, and the gradient of the logits."""
    loss = logits.sparse_categorical_crossentropy(targets)
    return (loss, *loss.gradient(logits))


def add(*operands: TinygradTensor) -> TinygradTensor:
    """The sum, from left to right."""
    return sum(operands[1:], operands[0])


FUNCTIONS: dict[str, Function] = {
    "matmul": lambda a, b: a @ b,
    "int8_matmul": int8_matmul,
    "pointwise": pointwise,
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": layer_norm,
    "layer_norm_gradients": with_gradients(layer_norm),
    "rms_norm": rms_norm,
    "cross_entropy_gradients": cross_entropy_gradients,
    "attention": attention,
    "attention_gradients": with_gradients(attention),
    "sum_rows": lambda x: x.sum(0),
    "convolution": lambda x, w: x.conv2d(w, padding=1, groups=x.shape[1] // w.shape[1]),
    "add": add,
}
