"""Operators in JAX, each compiled by jax.jit."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.bench.peers import JaxArray, jax, jnp

EPSILON = 1e-5
GROUP = 128  # rows of packed weights that have one scale
Function = Callable[..., object]


def matmul(a: JaxArray, b: JaxArray) -> JaxArray:
    """a @ b."""
    return a @ b


def int8_matmul(a: JaxArray, b: JaxArray) -> JaxArray:
    """a @ b of int8, in int32."""
    return jax.lax.dot(a, b, preferred_element_type=jnp.int32)


def int4_matmul(x: JaxArray, w: JaxArray, scales: JaxArray) -> JaxArray:
    """x @ (int4 * scale): each byte of w has two numbers, of rows 2k and 2k + 1; a scale for each group of rows."""
    numbers = jnp.stack([w << 4 >> 4, w >> 4], 1).reshape(-1, GROUP, w.shape[1])
    return x @ (numbers.astype(x.dtype) * scales[:, None]).reshape(-1, w.shape[1])


def pointwise(x: JaxArray, w: JaxArray, b: JaxArray, residual: JaxArray) -> JaxArray:
    """gelu(x * w + b) + residual."""
    return jax.nn.gelu(x * w + b, approximate=False) + residual


def softmax(x: JaxArray) -> JaxArray:
    """Along the last dim."""
    return jax.nn.softmax(x, -1)


def layer_norm(x: JaxArray, w: JaxArray, b: JaxArray) -> JaxArray:
    """Along the last dim."""
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + EPSILON) * w + b


def rms_norm(x: JaxArray, w: JaxArray) -> JaxArray:
    """Along the last dim."""
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + EPSILON) * w


def cross_entropy(logits: JaxArray, targets: JaxArray) -> JaxArray:
    """The mean loss."""
    chances = jax.nn.log_softmax(logits, -1)
    return -jnp.take_along_axis(chances, targets[:, None], 1).mean()


def cross_entropy_gradients(logits: JaxArray, targets: JaxArray) -> tuple[JaxArray, JaxArray]:
    """The mean loss, and the gradient of the logits."""
    return jax.value_and_grad(cross_entropy)(logits, targets)


def attention(q: JaxArray, k: JaxArray, v: JaxArray) -> JaxArray:
    """Causal. JAX's own function wants [batch, length, heads, width]."""
    q, k, v = (operand.swapaxes(1, 2) for operand in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).swapaxes(1, 2)


def with_gradients(forward: Function) -> Function:
    """The result and the operands' gradients. The last operand is the gradient of the result."""

    def step(*operands: JaxArray) -> tuple[JaxArray, ...]:
        *inputs, slope = operands
        result, back = jax.vjp(forward, *inputs)
        return (result, *back(slope))

    return step


def sum_rows(x: JaxArray) -> JaxArray:
    """Over the first dim."""
    return x.sum(0)


def convolution(x: JaxArray, w: JaxArray, stride: int = 1) -> JaxArray:
    """A convolution that pads to the same size; the weights' shape gives the number of groups."""
    border = (w.shape[-1] // 2,) * 2
    groups = x.shape[1] // w.shape[1]
    return jax.lax.conv_general_dilated(x, w, (stride, stride), (border, border), feature_group_count=groups)


def add(*operands: JaxArray) -> JaxArray:
    """The sum, from left to right."""
    return sum(operands[1:], operands[0])


FUNCTIONS: dict[str, Function] = {
    "matmul": matmul,
    "int8_matmul": int8_matmul,
    "int4_matmul": int4_matmul,
    "pointwise": pointwise,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "layer_norm_gradients": with_gradients(layer_norm),
    "rms_norm": rms_norm,
    "cross_entropy_gradients": cross_entropy_gradients,
    "attention": attention,
    "attention_gradients": with_gradients(attention),
    "sum_rows": sum_rows,
    "convolution": convolution,
    "add": add,
}
