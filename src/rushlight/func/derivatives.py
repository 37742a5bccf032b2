"""grad, vjp, jvp, linearize, Jacobians and Hessians of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager.arguments import settled
from rushlight.eager.creation import eye, zeros
from rushlight.eager.dispatch import Scope
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.func.recording import Recording, is_tracked
from rushlight.func.vectorize import vmap
from rushlight.ir.dtype import Kind
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require

ArgNums = int | tuple[int, ...]


def _places(name: str, argnums: Any, count: int) -> tuple[int, ...]:
    """The positions that `argnums` says, from 0 on."""
    listed = argnums if isinstance(argnums, tuple) else (argnums,)
    require(listed, "A002", f"{name}: argnums is empty")
    places: list[int] = []
    for one in map(settled, listed):
        if not isinstance(one, int):
            fail("A001", f"{name}: argnums is an int or a tuple of ints", argnums=argnums)
        if not -count <= one < count:
            fail("A002", f"{name}: argnums has {one}, and the function has {count} positional arguments")
        places.append(one % count)
    require(len(set(places)) == len(places), "A002", f"{name}: argnums has one argument twice", argnums=argnums)
    return tuple(places)


def _recorded(
    name: str,
    func: Callable[..., object],
    args: Sequence[object],
    kwargs: dict[str, object],
    argnums: object,
    aux: bool,
) -> Recording:
    places = _places(name, argnums, len(args))
    return Recording(name, functools.partial(func, **kwargs) if kwargs else func, args, places, aux)


def _of_argnums(argnums: object, values: list[Any]) -> Any:
    return tuple(values) if isinstance(argnums, tuple) else values[0]


def grad(func: Callable[..., object], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of `func`'s scalar result by the arguments at `argnums`.

    With `has_aux` the function returns its result and something else, which is returned beside the gradient.

        rl.func.grad(rl.sin)(rl.tensor(0.0))  # 1.0
    """
    with_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: object, **kwargs: object) -> Any:
        gradients, value = with_value(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def grad_and_value(func: Callable[..., object], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function of the gradient, as `grad`, and the value; with `has_aux`, a pair of values."""

    @functools.wraps(func)
    def gradient(*args: object, **kwargs: object) -> Any:
        recording = _recorded("grad", func, args, kwargs, argnums, has_aux)
        outputs = recording.outputs
        if len(outputs) != 1 or not isinstance(recording.results(), Handle):
            fail("A002", "grad: the function must return one tensor", hint="say has_aux=True for a pair")
        if outputs[0].shape:
            fail("A002", "grad: the function must return a tensor without dims", result=outputs[0])
        if outputs[0].dtype.kind is not Kind.FLOAT:
            fail("D001", "grad: the function must return a real number", result=outputs[0])
        with Scope(grad=False):
            ones = OPERATORS["full_like"](outputs[0], 1)
        result = recording.raised(recording.gradients(recording.cotangents(ones)))
        gradients = _of_argnums(argnums, recording.by_argument(recording.released(result)))
        value = recording.results()
        return gradients, (value, recording.extra()) if has_aux else value

    return gradient


def vjp(func: Callable[..., object], *primals: object, has_aux: bool = False) -> Any:
    """Return `func(*primals)` and a function from cotangents of the result to those of the primals.

    The second function returns a tuple, also of one primal. With `has_aux` the something else comes third.
    """
    require(primals, "A002", "vjp: there are no primals")
    recording = Recording("vjp", func, primals, range(len(primals)), has_aux)

    def pullback(*cotangents: Any) -> tuple[Any, ...]:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        lowered = recording.cotangents(given)
        gradients = recording.raised(recording.gradients(lowered))
        return tuple(recording.by_argument(recording.released(gradients, is_tracked(lowered))))

    result = recording.results()
    return (result, pullback, recording.extra()) if has_aux else (result, pullback)


def linearize(func: Callable[..., object], *primals: object) -> tuple[Any, Callable[..., Any]]:
    """Return `func(*primals)` and its derivative there: a linear function from tangents to the result's tangents."""
    require(primals, "A002", "linearize: there are no primals")
    recording = Recording("linearize", func, primals, range(len(primals)), False)
    apply = recording.linear()

    def derivative(*tangents: Any) -> Any:
        pushed = recording.raised(apply(_tangents(recording, primals, tangents)))
        return unflatten_tree(recording.structure, recording.released(pushed))

    return recording.results(), derivative


def _tangents(recording: Recording, primals: Sequence[object], tangents: Sequence[object]) -> list[Any]:
    """Tangents as the recording takes them; errors where they do not fit the primals."""
    leaves, structure = flatten_tree(tuple(tangents))
    expected, wanted = flatten_tree(tuple(primals))
    name = recording.name
    if len(leaves) != len(expected) or str(structure) != str(wanted):
        fail("A002", f"{name}: tangents must have the structure of primals")
    for tangent, primal in zip(leaves, expected, strict=True):
        if not isinstance(tangent, Handle) or tuple(tangent.shape) != tuple(primal.shape):
            fail("A002", f"{name}: a tangent does not have its primal's shape", tangent=tangent, primal=primal)
        if tangent.dtype is not primal.dtype:
            fail("A002", f"{name}: a tangent does not have its primal's dtype", tangent=tangent, primal=primal)
    return recording.lowered(leaves)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return `func(*primals)` and its derivative in the direction of `tangents`, in one pass.

    It is reverse mode twice: the derivative of a gradient by its cotangent. `strict` fails where the result does not
    depend on the primals. With `has_aux` the something else comes third.
    """
    require(isinstance(primals, tuple) and primals, "A002", "jvp: primals is a tuple of at least one")
    require(isinstance(tangents, tuple), "A002", "jvp: tangents is a tuple")
    recording = Recording("jvp", func, primals, range(len(primals)), has_aux)
    given = _tangents(recording, primals, tangents)
    if strict and not recording.connected():
        fail("A002", "jvp: the result does not depend on the primals")
    pushed = recording.raised(recording.linear()(given))
    derivative = unflatten_tree(recording.structure, recording.released(pushed))
    result = recording.results()
    return (result, derivative, recording.extra()) if has_aux else (result, derivative)


def _basis(leaf: Any, total: int, start: int) -> Any:
    """Rows start, ... of a unit matrix as tensors of a leaf's shape, within `total` directions."""
    count = leaf.form.numel
    parts: list[Any] = []
    for before in (start, None, total - start - count):
        if before is None:
            parts.append(eye(count, dtype=leaf.dtype))
        elif not isinstance(before, int) or before:
            parts.append(zeros(before, count, dtype=leaf.dtype))
    rows = OPERATORS["cat"](tuple(parts), 0) if len(parts) > 1 else parts[0]
    return OPERATORS["reshape"](rows, (total, *leaf.shape))


def _directions(leaves: Sequence[Any]) -> list[Any]:
    total = sum(leaf.form.numel for leaf in leaves)
    starts = [sum(leaf.form.numel for leaf in leaves[:at]) for at in range(len(leaves))]
    return [_basis(leaf, total, start) for leaf, start in zip(leaves, starts, strict=True)]


def jacrev(
    func: Callable[..., object],
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of `func` by reverse mode: a row for each element of the result.

    The Jacobian has the shape of the result followed by that of the argument, in the structure of the result.
    """

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        recording = _recorded("jacrev", func, args, kwargs, argnums, has_aux)
        outputs = recording.outputs

        def pull(*cotangents: object) -> Any:
            lowered = recording.cotangents(unflatten_tree(recording.structure, cotangents))
            return tuple(recording.raised(recording.gradients(lowered)))

        rows = vmap(pull, chunk_size=chunk_size)(*_directions(outputs))
        by_output: list[Any] = []
        start = 0
        for output in outputs:
            count = output.form.numel
            parts = [
                OPERATORS["reshape"](
                    OPERATORS["narrow"](part, 0, start, count), (*output.shape, *tuple(part.shape)[1:])
                )
                for part in rows
            ]
            start += count
            by_output.append(_of_argnums(argnums, recording.by_argument(recording.released(parts))))
        result = unflatten_tree(recording.structure, by_output)
        return (result, recording.extra()) if has_aux else result

    return jacobian


def jacfwd(
    func: Callable[..., object],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of `func` by forward mode: a column for each element of the arguments.

    The function runs once, so that `randomness` plays no part.
    """

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        recording = _recorded("jacfwd", func, args, kwargs, argnums, has_aux)
        apply = recording.linear()
        leaves = [
            leaf for position in _places("jacfwd", argnums, len(args)) for leaf in flatten_tree(args[position])[0]
        ]

        def push(*tangents: object) -> tuple[object, ...]:
            return tuple(recording.raised(apply(recording.lowered(tangents))))

        columns = vmap(push, chunk_size=chunk_size, randomness=randomness)(*_directions(leaves))
        by_output: list[Any] = []
        for output, column in zip(recording.outputs, columns, strict=True):
            start, parts = 0, []
            for leaf in leaves:
                part = OPERATORS["narrow"](column, 0, start, leaf.form.numel)
                rank = len(output.shape)
                part = OPERATORS["permute"](part, (*range(1, rank + 1), 0)) if rank else part
                parts.append(OPERATORS["reshape"](part, (*output.shape, *leaf.shape)))
                start += leaf.form.numel
            by_output.append(_of_argnums(argnums, recording.by_argument(recording.released(parts))))
        result = unflatten_tree(recording.structure, by_output)
        return (result, recording.extra()) if has_aux else result

    return jacobian


def hessian(func: Callable[..., object], argnums: ArgNums = 0) -> Callable[..., Any]:
    """Return a function that gives the second derivatives of `func`: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)
