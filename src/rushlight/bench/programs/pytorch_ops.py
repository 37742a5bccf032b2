"""Operators in PyTorch's API: the same text is run by Rushlight and, under Rushlight's name, by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as rl

F = rl.nn.functional
EPSILON = 1e-5
CHAIN = 50  # products in a row
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


def matmul(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """a @ b."""
    return a @ b


def int8_matmul(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """a @ b of int8, in int32."""
    return rl._int_mm(a, b)


def int4_matmul(x: rl.Tensor, w: rl.Tensor, scales: rl.Tensor) -> rl.Tensor:
    """x @ (int4 * scale): each byte of w has two numbers, of rows 2k and 2k + 1; a scale for each group of rows."""
    low, high = w << 4 >> 4, w >> 4
    numbers = rl.stack([low, high], 1).reshape(-1, GROUP, w.shape[1])
    return x @ (numbers.to(x.dtype) * scales[:, None]).reshape(-1, w.shape[1])


def pointwise(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor, residual: rl.Tensor) -> rl.Tensor:
    """gelu(x * w + b) + residual."""
    return F.gelu(x * w + b) + residual


def softmax(x: rl.Tensor) -> rl.Tensor:
    """Along the last dim."""
    return rl.softmax(x, -1)


def layer_norm(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """Along the last dim."""
    return F.layer_norm(x, w.shape, w, b, EPSILON)


def rms_norm(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """Along the last dim."""
    return F.rms_norm(x, w.shape, w, EPSILON)


def attention(q: rl.Tensor, k: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
    """Causal."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sum_rows(x: rl.Tensor) -> rl.Tensor:
    """Over the first dim."""
    return x.sum(0)


def convolution(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """3x3 with a border of one; the weights' shape gives the number of groups."""
    return F.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1])


def add(*operands: rl.Tensor) -> rl.Tensor:
    """The sum, from left to right."""
    return sum(operands[1:], operands[0])


def with_gradients(forward: Function, differentiated: int) -> Callable[[Modes], Function]:
    """A step: the result and the gradients of the first operands, given the gradient of the result as the last."""

    def ready(modes: Modes) -> Function:
        inner = modes.part(forward)

        def step(*operands: rl.Tensor) -> tuple[rl.Tensor, ...]:
            *inputs, slope = operands
            leaves = [leaf.detach().requires_grad_() for leaf in inputs[:differentiated]]
            result = inner(*leaves, *inputs[differentiated:])
            return (result.detach(), *rl.autograd.grad(result, leaves, slope))

        return modes.step(step)

    return ready


def cross_entropy_gradients(modes: Modes) -> Function:
    """The mean loss, and the gradient of the logits."""
    forward = modes.part(F.cross_entropy)

    def step(logits: rl.Tensor, targets: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        leaf = logits.detach().requires_grad_()
        loss = forward(leaf, targets)
        return loss.detach(), rl.autograd.grad(loss, leaf)[0]

    return modes.step(step)


def recorded_add(modes: Modes) -> Function:
    """A sum of which autograd writes down the derivative."""

    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        x.requires_grad_()
        return (x + y).detach()

    return modes.function(step)


def chain_gradient(modes: Modes) -> Function:
    """The gradient of x at the end of a chain of products with y."""

    def step(x: rl.Tensor, y: rl.Tensor, slope: rl.Tensor) -> rl.Tensor:
        result = x.requires_grad_()
        for _ in range(CHAIN):
            result = result * y
        return rl.autograd.grad(result, x, slope)[0]

    return modes.function(step)


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
    "recorded_add": recorded_add,
    "chain_gradient": chain_gradient,
}
