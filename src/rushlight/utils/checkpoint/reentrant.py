"""The form of checkpointing that runs a backward pass within the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.eager.autograd import driver
from rushlight.eager.autograd.function import Function
from rushlight.eager.autograd.history import requires
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require
from rushlight.utils.checkpoint.recomputation import Surroundings


def detach_variable(inputs: tuple[object, ...]) -> tuple[object, ...]:
    """Return arguments with each tensor as a leaf of its own."""
    require(isinstance(inputs, tuple), "A001", "detach_variable: a tuple of arguments", inputs=inputs)
    return tuple(
        [
            input_.detach().requires_grad_(input_.requires_grad) if isinstance(input_, Tensor) else input_
            for input_ in inputs
        ]
    )


class CheckpointFunction(Function):
    """Runs a function without recording it, and again, recorded, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., object], preserve_rng_state: bool, *args: object) -> object:
        """Runs the function, and keeps its arguments."""
        ctx.function = run_function
        ctx.surroundings = Surroundings(preserve_rng_state)
        ctx.others = [None if isinstance(arg, Handle) else arg for arg in args]
        ctx.places = [position for position, arg in enumerate(args) if isinstance(arg, Handle)]
        ctx.save_for_backward(*[args[position] for position in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: object) -> tuple[object, ...]:
        """Runs the function again, and differentiates that; leaves outside get their gradients there."""
        one: Any = STATE.engaged
        if STATE.grad or (one is not None and one.partial):
            fail(
                "A006",
                "checkpoint: with use_reentrant=True there are neither gradients of some inputs nor second derivatives",
                hint="pass use_reentrant=False",
            )
        args = list(ctx.others)
        for position, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[position] = tensor
        leaves = detach_variable(tuple(args))
        results = ctx.surroundings.run(lambda: ctx.function(*leaves))
        results = results if isinstance(results, tuple) else (results,)
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, grad_outputs, strict=True)
            if isinstance(result, Handle) and requires(result) and gradient is not None
        ]
        if not pairs:
            fail("G005", "checkpoint: none of the function's results requires gradients")
        outputs, gradients = zip(*pairs, strict=True)
        driver.backward(outputs, gradients)
        return (None, None, *[leaf.grad if isinstance(leaf, Tensor) else None for leaf in leaves])
