"""Operators in PyTorch's API: the same text is run by Rushlight and, under Rushlight's name, by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as rl

F = rl.nn.functional
EPSILON = 1e-5
GROUP = 128  # rows of packed weights that have one scale
Function = Callable[..., Any]


class Modes(NamedTuple):
    """How functions are made ready in a process.

    `function` is for those that only compute, and `frozen` for those whose weights never change. A step that also
    back-propagates is given to `step` as a whole, and the parts of it without back-propagation to `part`: one of the
    two compiles, depending on what the framework can do. `open` is for functions with constant weights
    whose inputs vary in size.
    """

    function: Callable[[Function], Function]
    frozen: Callable[[Function], Function]
    step: Callable[[Function], Function]
    part: Callable[[Function], Function]
    open: Callable[[Function], Function]


def matmul(a: Any, b: Any) -> Any:
    """a @ b."""
    return a @ b


def int8_matmul(a: object, b: object) -> Any:
    """a @ b of int8, in int32."""
    framework: Any = rl
    return framework._int_mm(a, b)


def int4_matmul(x: Any, w: Any, scales: Any) -> Any:
    """x @ (int4 * scale): each byte of w has two numbers, of rows 2k and 2k + 1; a scale for each group of rows."""
    low, high = w << 4 >> 4, w >> 4
    numbers = rl.stack([low, high], 1).reshape(-1, GROUP, w.shape[1])
    return x @ (numbers.to(x.dtype) * scales[:, None]).reshape(-1, w.shape[1])


def pointwise(x: Any, w: Any, b: Any, residual: Any) -> Any:
    """gelu(x * w + b) + residual."""
    return F.gelu(x * w + b) + residual


def softmax(x: object) -> Any:
    """Along the last dim."""
    return rl.softmax(x, -1)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    """Along the last dim."""
    return F.layer_norm(x, w.shape, w, b, EPSILON)


def rms_norm(x: Any, w: Any) -> Any:
    """Along the last dim."""
    return F.rms_norm(x, w.shape, w, EPSILON)


def attention(q: Any, k: Any, v: object) -> Any:
    """Causal."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sum_rows(x: Any) -> Any:
    """Over the first dim."""
    return x.sum(0)


def convolution(x: Any, w: Any) -> Any:
    """3x3 with a border of one, in as many groups as the weights say."""
    return F.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1])


def add(*operands: Any) -> Any:
    """The sum, from left to right."""
    return sum(operands[1:], operands[0])


def with_gradients(forward: Function, differentiated: int) -> Callable[[Modes], Function]:
    """A step: the result and the gradients of the first operands, given the gradient of the result as the last."""

    def ready(modes: Modes) -> Function:
        inner = modes.part(forward)

        def step(*operands: Any) -> tuple[Any, ...]:
            *inputs, slope = operands
            leaves = [leaf.detach().requires_grad_() for leaf in inputs[:differentiated]]
            result = inner(*leaves, *inputs[differentiated:])
            return (result.detach(), *rl.autograd.grad(result, leaves, slope))

        return modes.step(step)

    return ready


def cross_entropy_gradients(modes: Modes) -> Function:
    """The mean loss, and the gradient of the logits."""
    forward = modes.part(F.cross_entropy)

    def step(logits: Any, targets: Any) -> tuple[Any, Any]:
        leaf = logits.detach().requires_grad_()
        loss = forward(leaf, targets)
        return loss.detach(), rl.autograd.grad(loss, leaf)[0]

    return modes.step(step)


def plain(function: Function) -> Callable[[Modes], Function]:
    """A function that only computes."""
    return lambda modes: modes.function(function)


FUNCTIONS: dict[str, Callable[[Modes], Function]] = {
    "matmul": plain(matmul),
    "int8_matmul": plain(int8_matmul),
    "int4_matmul": plain(int4_matmul),
    "pointwise": plain(pointwise),
    "softmax": plain(softmax),
    "layer_norm": plain(layer_norm),
    "layer_norm_gradients": with_gradients(layer_norm, 3),
    "rms_norm": plain(rms_norm),
    "cross_entropy_gradients": cross_entropy_gradients,
    "attention": plain(attention),
    "attention_gradients": with_gradients(attention, 3),
    "sum_rows": plain(sum_rows),
    "convolution": plain(convolution),
    "add": plain(add),
}
