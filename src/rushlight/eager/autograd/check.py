"""gradcheck and gradgradcheck: derivative rules against finite differences in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.eager.autograd.driver import grad
from rushlight.eager.autograd.history import requires
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import Scope
from rushlight.eager.handle import Handle
from rushlight.eager.keywords import no_more
from rushlight.eager.memory import array_of, copied
from rushlight.ir.dtype import Kind, float64
from rushlight.support.errors import fail

Function = Callable[..., Any]


def _outputs(found: object) -> list[Any]:
    listed = list(found) if isinstance(found, (tuple, list)) else [found]
    return [item for item in listed if isinstance(item, Handle) and item.dtype.kind is Kind.FLOAT]


def _numeric(function: Function, inputs: Sequence[Handle], position: int, eps: float) -> list[Any]:
    """For each output its Jacobian by central differences, one row per element of the input."""
    array = array_of(inputs[position])
    flat = list(np.ndindex(array.shape))
    rows: list[list[Any]] = []
    for index in flat:
        before = array[index]
        try:
            array[index] = before + eps
            high = [array_of(item).copy() for item in _outputs(function(*inputs))]
            array[index] = before - eps
            low = [array_of(item).copy() for item in _outputs(function(*inputs))]
        finally:
            array[index] = before
        rows.append([((one - two) / (2 * eps)).reshape(-1) for one, two in zip(high, low, strict=True)])
    count = len(rows[0]) if rows else 0
    return [np.stack([row[at] for row in rows]) for at in range(count)]


def _analytic(output: Handle, tensor: Handle, shape: tuple[int, ...]) -> Any:
    """The Jacobian of an output by its derivative rules, one row per element of the input."""
    columns: list[Any] = []
    for index in np.ndindex(tuple(output.form.shape)):
        seed = np.zeros(tuple(output.form.shape))
        seed[index] = 1.0
        start = copied(seed, output.dtype)
        (found,) = grad(output, tensor, start, retain_graph=True, allow_unused=True)
        columns.append(np.zeros(shape).reshape(-1) if found is None else array_of(found).astype(np.float64).reshape(-1))
    return np.stack(columns, axis=1) if columns else np.zeros((int(np.prod(shape)), 0))


# Checks of PyTorch's that are not there, and so may only be declined.
_MISSING: Mapping[str, tuple[Any, ...]] = dict.fromkeys(
    ("check_batched_forward_grad", "check_batched_grad", "check_forward_ad", "masked"), (False,)
)


@checked
def gradcheck(
    func: Function,
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    **rest: object,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with finite differences. Inputs should be float64.

    Each element is always compared, whatever the last five arguments say. Errors: G013 where gradients differ, unless
    `raise_exception` is False.
    """
    no_more(rest, (), _MISSING)
    if not callable(func):
        fail("A001", "gradcheck: func must be a function", func=func)
    listed: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wanted = [at for at, item in enumerate(listed) if isinstance(item, Handle) and requires(item)]
    if not wanted:
        fail("G005", "gradcheck: none of the inputs requires gradients")
    with Scope(grad=True):
        outputs = _outputs(func(*listed))
        for at in wanted:
            numeric = _numeric(func, listed, at, eps)
            for number, output in enumerate(outputs):
                if not requires(output):
                    continue
                shape = tuple(listed[at].form.shape)
                found = _analytic(output, listed[at], shape)
                expected = numeric[number] if numeric else np.zeros_like(found)
                if np.allclose(found, expected, rtol, atol):
                    continue
                if not raise_exception:
                    return False
                worst = float(np.abs(found - expected).max())
                fail(
                    "G013",
                    f"gradcheck: output {number} by input {at}",
                    difference=worst,
                    computed=found,
                    numeric=expected,
                )
    return True


@checked
def gradgradcheck(
    func: Function,
    inputs: object,
    grad_outputs: object = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **rest: Any,
) -> bool:
    """`gradcheck` of the gradients of `func`, so of its second derivatives."""
    listed: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    count = len(_outputs(func(*listed)))
    random = np.random.default_rng(0)
    if grad_outputs is None:
        shapes = [tuple(item.form.shape) for item in _outputs(func(*listed))]
        given = [copied(random.standard_normal(shape), float64) for shape in shapes]
        for item in given:
            item.requires_grad = True
    else:
        given = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]

    def first(*args: object) -> Any:
        arguments, seeds = args[: len(args) - count], args[len(args) - count :]
        wanted = [item for item in arguments if isinstance(item, Handle) and requires(item)]
        with Scope(grad=True):
            outputs = _outputs(func(*arguments))
            found = grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple([item for item in found if item is not None])

    return gradcheck(first, (*listed, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, **rest)
