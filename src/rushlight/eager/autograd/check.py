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
from rushlight.ir.dtype import Kind, complex128, float64
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail

Function = Callable[..., Any]


def _outputs(outputs: object) -> list[Any]:
    listed = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    return [
        output for output in listed if isinstance(output, Handle) and output.dtype.kind in (Kind.FLOAT, Kind.COMPLEX)
    ]


def _directions(tensor: Handle) -> tuple[complex, ...]:
    """The numbers of length 1 along which elements vary: of complex ones both parts do."""
    return (1.0, 1j) if tensor.dtype.is_complex else (1.0,)


def _flat(array: Any) -> Any:
    """The elements as float64, of complex ones the parts beside each other."""
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return np.array(array, wide).reshape(-1).view(np.float64)


def _numeric(function: Function, inputs: Sequence[Handle], position: int, eps: float) -> list[Any]:
    """For each output its Jacobian by central differences, one row per part of an element of the input."""
    array = array_of(inputs[position])
    rows: list[list[Any]] = []
    for index in np.ndindex(array.shape):
        before = array[index]
        for step in _directions(inputs[position]):
            try:
                array[index] = before + step * eps
                high = [_flat(array_of(output)) for output in _outputs(function(*inputs))]
                array[index] = before - step * eps
                low = [_flat(array_of(output)) for output in _outputs(function(*inputs))]
            finally:
                array[index] = before
            rows.append([(one - two) / (2 * eps) for one, two in zip(high, low, strict=True)])
    count = len(rows[0]) if rows else 0
    return [np.stack([row[at] for row in rows]) for at in range(count)]


def _analytic(output: Handle, tensor: Handle, shape: tuple[int, ...]) -> Any:
    """The Jacobian of an output by its derivative rules, one row per part of an element of the input."""
    columns: list[Any] = []
    rows = int(np.prod(shape)) * len(_directions(tensor))
    for index in np.ndindex(tuple(output.form.shape)):
        for direction in _directions(output):
            seed = np.zeros(tuple(output.form.shape), np.asarray(direction).dtype)
            seed[index] = direction
            start = copied(seed, output.dtype)
            (gradient,) = grad(output, tensor, start, retain_graph=True, allow_unused=True)
            columns.append(np.zeros(rows) if gradient is None else _flat(array_of(gradient)))
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _forward(output: Any, tensor: Any, shape: tuple[int, ...]) -> Any:
    """`_analytic` by forward derivatives: each is a gradient of the gradient in what that begins with."""
    rows: list[Any] = []
    width = int(np.prod(tuple(output.form.shape))) * len(_directions(output))
    with Scope(grad=True):
        start = copied(np.zeros(tuple(output.form.shape)), output.dtype)
        start.requires_grad = True
        (gradient,) = grad(output, tensor, start, create_graph=True, allow_unused=True)
        for index in np.ndindex(shape):
            for direction in _directions(tensor):
                seed = np.zeros(shape, np.asarray(direction).dtype)
                seed[index] = direction
                tangent = None
                if gradient is not None and requires(gradient):
                    given = copied(seed, tensor.dtype)
                    (tangent,) = grad(gradient, start, given, retain_graph=True, allow_unused=True)
                rows.append(np.zeros(width) if tangent is None else _flat(array_of(tangent)))
    return np.stack(rows) if rows else np.zeros((0, width))


# Checks of PyTorch's that are not there, and so may only be declined.
_MISSING: Mapping[str, tuple[Any, ...]] = dict.fromkeys(
    ("check_batched_forward_grad", "check_fwd_over_rev"), (False, None)
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
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    check_batched_grad: bool = False,
    masked: bool | None = None,
    **rest: object,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with finite differences.

    Inputs should be float64 or complex128. `check_forward_ad` compares forward derivatives too, `check_batched_grad`
    gradients of a batch with those of its places. Each element is always compared, whatever `nondet_tol` and
    `fast_mode` say; `masked` is for sparse inputs, whose elements are those that are there. Errors: G013 where
    gradients differ, unless `raise_exception` is False.
    """
    no_more(rest, (), _MISSING)
    if not callable(func):
        fail("A001", "gradcheck: func must be a function", func=func)
    listed: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wanted = [at for at, value in enumerate(listed) if isinstance(value, Handle) and requires(value)]
    ways = [way for way, asked in ((_analytic, check_backward_ad), (_forward, check_forward_ad)) if asked]
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
                for way in ways:
                    gradient = way(output, listed[at], shape)
                    expected = numeric[number] if numeric else np.zeros_like(gradient)
                    if not np.allclose(gradient, expected, rtol, atol):
                        return _differs(f"output {number} by input {at}", gradient, expected, raise_exception)
        if check_batched_grad:
            return _check_batch(outputs, [listed[at] for at in wanted], raise_exception)
    return True


def _check_batch(outputs: Sequence[Any], inputs: list[Any], raise_exception: bool) -> bool:
    """Whether the gradients of two places at once are those of each."""
    random = np.random.default_rng(0)
    for number, output in enumerate(outputs):
        if not requires(output):
            continue
        seeds = [_drawn(random, output) for _ in range(2)]
        batch = OPERATORS["to_dtype"](OPERATORS["stack"](seeds, 0), output.dtype)
        how = {"retain_graph": True, "allow_unused": True}
        together = grad(output, inputs, batch, is_grads_batched=True, **how)
        for place in range(2):
            alone = grad(output, inputs, batch[place], **how)
            for at, (one, both) in enumerate(zip(alone, together, strict=True)):
                expected = np.zeros(1) if one is None else array_of(one)
                found = np.zeros(1) if both is None else array_of(both[place])
                if not np.allclose(found, expected):
                    which = f"output {number} by input {at}, of a batch of gradients"
                    return _differs(which, found, expected, raise_exception)
    return True


def _differs(which: str, gradient: Any, expected: Any, raise_exception: bool) -> bool:
    """False, or G013."""
    if raise_exception:
        worst = float(np.abs(gradient - expected).max())
        fail("G013", f"gradcheck: {which}", difference=worst, computed=gradient, numeric=expected)
    return False


def _drawn(random: np.random.Generator, like: Handle) -> Any:
    parts = [random.standard_normal(tuple(like.form.shape)) for _ in _directions(like)]
    return copied(parts[0], float64) if len(parts) == 1 else copied(parts[0] + 1j * parts[1], complex128)


@checked
def gradgradcheck(
    func: Function,
    inputs: object,
    grad_outputs: object = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    check_rev_over_rev: bool = True,
    **rest: Any,
) -> bool:
    """`gradcheck` of the gradients of `func`, so of its second derivatives.

    With `gen_non_contig_grad_outputs` the gradients that are drawn are columns of a wider tensor.
    """
    if not check_rev_over_rev:
        fail("A006", "gradgradcheck: reverse mode twice is always compared", check_rev_over_rev=check_rev_over_rev)
    listed: list[Any] = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    count = len(_outputs(func(*listed)))
    random = np.random.default_rng(0)
    if grad_outputs is None:
        given = [_drawn(random, output) for output in _outputs(func(*listed))]
        if gen_non_contig_grad_outputs:
            given = [OPERATORS["stack"]((tensor, tensor), -1).select(-1, 0) for tensor in given]
        for tensor in given:
            tensor.requires_grad = True
    else:
        given = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]

    def first(*args: object) -> Any:
        arguments, seeds = args[: len(args) - count], args[len(args) - count :]
        wanted = [argument for argument in arguments if isinstance(argument, Handle) and requires(argument)]
        with Scope(grad=True):
            outputs = _outputs(func(*arguments))
            gradients = grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple([gradient for gradient in gradients if gradient is not None])

    return gradcheck(first, (*listed, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, **rest)
