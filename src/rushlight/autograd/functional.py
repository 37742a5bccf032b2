"""Products with Jacobians and Hessians of functions, and these matrices themselves.

`func` has transforms of functions; these take a function and its inputs. Functions take tensors and return one tensor
or a tuple of them; results have the same structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager.boundary import checked
from rushlight.eager.creation import ones_like, zeros
from rushlight.eager.dispatch import Scope, call_user
from rushlight.eager.tensor import Tensor
from rushlight.func.derivatives import jacfwd, jacrev
from rushlight.func.recording import Recording
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tree = Any
"""A tensor or a tuple of tensors."""

Function = Callable[..., Tree]
Tensors = tuple[Any, ...]
_FORWARD = "forward-mode"
_STRATEGIES = ("reverse-mode", _FORWARD)


def _tensors(value: object, role: str) -> tuple[Tensors, bool]:
    """Tensors as a tuple, and whether it was one."""
    listed = value if isinstance(value, tuple) else (value,)
    for at, tensor in enumerate(listed):
        if not isinstance(tensor, Tensor):
            kinds = "must be either a Tensor or a tuple of Tensors"
            fail("A001", f"{role} {kinds}, but the value at index {at} has type {type(tensor).__name__}.")
    return listed, isinstance(value, tuple)


def _recorded(name: str, func: Function, inputs: Tensors, aux: bool = False) -> tuple[Recording, bool]:
    """A run of the function, and whether it returned a tuple."""
    several: list[bool] = []

    def run(*args: object) -> Tree:
        result = call_user(func, *args)
        outputs, is_tuple = _tensors(result[0] if aux else result, f"{name}: the outputs of the function")
        several.append(is_tuple)
        return (outputs, result[1]) if aux else outputs

    return Recording(name, run, inputs, range(len(inputs)), aux), several[0]


def _mode(create_graph: bool) -> Scope:
    """The scope in which results get a history, or none."""
    return Scope(grad=bool(create_graph))


def _unpacked(values: Sequence[Tree], is_tuple: bool) -> Tree:
    return tuple(values) if is_tuple else values[0]


def _vector(v: object, like: Tensors, name: str, role: str) -> Tensors:
    """The vector of a product: the one that is given, or 1 for a single element."""
    if v is None:
        single = len(like) == 1 and like[0].numel() == 1
        require(single, "A004", f"{name}: the vector v can only be None if there is a single {role} of one element")
        return (ones_like(like[0].detach()),)
    given, _ = _tensors(v, f"{name}: v")
    count = f"{name}: v has {len(given)} tensors and there are {len(like)} {role}s"
    require(len(given) == len(like), "A004", count)
    for one, other in zip(given, like, strict=True):
        fits = tuple(one.shape) == tuple(other.shape)
        require(fits, "A004", f"{name}: a tensor of v does not have the shape of its {role}", v=one, other=other)
    return given


def _require_dependence(name: str, recording: Recording) -> None:
    """A004 where an output does not depend on every input."""
    note = "This is not allowed in strict mode."
    for at in range(len(recording.outputs)):
        unused = recording.unused_by(at)
        if unused is None:
            fail("A004", f"{name}: output {at} of the function does not require gradient. {note}")
        require(not unused, "A004", f"{name}: output {at} of the function is independent of input {unused}. {note}")


@checked
def vjp(
    func: Function, inputs: object, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tree, Tree]:
    """Return `func(*inputs)`, and the product of `v` with its Jacobian: a tensor for each input.

    `v` has the structure of the result, and may be left out where that is one element. With `create_graph` results can
    be differentiated; with `strict` an output that does not depend on an input is an error (A004), else it counts 0.
    """
    given, several = _tensors(inputs, "vjp: the inputs")
    with _mode(create_graph):
        recording, is_tuple = _recorded("vjp", func, given)
        if strict:
            _require_dependence("vjp", recording)
        vector = _vector(v, tuple(recording.outputs), "vjp", "output")
        gradients = recording.raised(recording.gradients(recording.cotangents(vector)))
        outputs = recording.results()
        return _unpacked(outputs, is_tuple), _unpacked(recording.released(gradients), several)


@checked
def jvp(
    func: Function, inputs: object, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tree, Tree]:
    """Return `func(*inputs)`, and the product of its Jacobian with `v`: a tensor for each output.

    `v` has the structure of the inputs, and may be left out where these are one element. `create_graph` and `strict`
    are as in `vjp`.
    """
    given, _ = _tensors(inputs, "jvp: the inputs")
    with _mode(create_graph):
        vector = _vector(v, given, "jvp", "input")
        recording, is_tuple = _recorded("jvp", func, given)
        if strict:
            _require_dependence("jvp", recording)
        tangents = recording.raised(recording.linear()(recording.lowered(vector)))
        return _unpacked(recording.results(), is_tuple), _unpacked(recording.released(tangents), is_tuple)


@checked
def jacobian(
    func: Function,
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tree:
    """Return the Jacobian of a function: for each output and input a tensor of both shapes, one after the other.

    It is a tensor for one of each, a tuple for several of either, and for several of both a tuple, by output, of
    tuples. With `vectorize`, or with the strategy "forward-mode", all rows, or columns, are one computation by `vmap`.
    `create_graph` and `strict` are as in `vjp`.

        autograd.functional.jacobian(rl.exp, rl.ones(2))  # e times the unit matrix
    """
    given, several = _tensors(inputs, "jacobian: the inputs")
    _require_strategy("jacobian", strategy)
    together = vectorize or strategy == _FORWARD
    require(not (together and strict), "A004", "jacobian: strict=True is for rows one by one: not with vectorize=True")
    with _mode(create_graph):
        is_tuple, rows = _by_transform(func, given, strategy) if together else _by_rows(func, given, strict)
    return _unpacked([_unpacked(row, several) for row in rows], is_tuple)


def _require_strategy(name: str, strategy: object) -> None:
    require(strategy in _STRATEGIES, "A002", f"{name}: the strategy is one of {', '.join(_STRATEGIES)}", given=strategy)


def _by_transform(func: Function, inputs: Tensors, strategy: str) -> tuple[bool, Sequence[Tensors]]:
    several: list[bool] = []

    def run(*args: object) -> Tree:
        outputs, is_tuple = _tensors(call_user(func, *args), "jacobian: the outputs of the function")
        several.append(is_tuple)
        return outputs

    transform = jacfwd if strategy == _FORWARD else jacrev
    rows = transform(run, tuple(range(len(inputs))))(*inputs)
    return several[0], rows


def _by_rows(func: Function, inputs: Tensors, strict: bool) -> tuple[bool, Sequence[Tensors]]:
    recording, is_tuple = _recorded("jacobian", func, inputs)
    if strict:
        _require_dependence("jacobian", recording)
    return is_tuple, [_rows_of(recording, at, inputs) for at in range(len(recording.outputs))]


def _rows_of(recording: Recording, at: int, inputs: Tensors) -> Tensors:
    """The Jacobian of one output by each input."""
    output = recording.outputs[at]
    count = output.numel()
    rows: list[list[Tree]] = []
    for position in range(count):
        with Scope(grad=False):
            unit = zeros(count, dtype=output.dtype, device=output.device)
            unit[position] = 1
        cotangents = recording.lowered([unit.reshape(output.shape)])
        everything: list[Tree] = [None] * len(recording.outputs)
        everything[at] = cotangents[0]
        rows.append(recording.released(recording.raised(recording.gradients(everything))))
    shapes = [(*output.shape, *one.shape) for one in inputs]
    if not rows:
        return tuple([zeros(shape, dtype=one.dtype) for shape, one in zip(shapes, inputs, strict=True)])
    columns = [OPERATORS["stack"](tuple(column), 0) for column in zip(*rows, strict=True)]
    return tuple([column.reshape(shape) for column, shape in zip(columns, shapes, strict=True)])


def _scalar(name: str, func: Function) -> Function:
    """The function, which must return one element."""

    def run(*args: object) -> Tree:
        result = call_user(func, *args)
        one = isinstance(result, Tensor) and result.numel() == 1
        require(one, "A004", f"{name}: the function must return a single Tensor with a single element", result=result)
        return result.reshape(())

    return run


@checked
def hessian(
    func: Function,
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tree:
    """Return the second derivatives of a function of one element, by each two inputs.

    It is a tensor for one input, and for several a tuple of tuples. The arguments are those of `jacobian`.
    """
    given, several = _tensors(inputs, "hessian: the inputs")
    scalar = _scalar("hessian", func)

    def gradient(*args: Tree) -> Tree:
        return jacobian(scalar, args, create_graph=True, strict=strict)

    nested = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return nested if several else nested[0][0]


def _gradient_recorded(name: str, func: Function, inputs: Tensors, strict: bool) -> Recording:
    """A run of the gradient of a function, which has its value beside it."""
    scalar = _scalar(name, func)

    def gradient(*args: Tree) -> tuple[Tree, Tree]:
        value, gradients = vjp(scalar, args, create_graph=True, strict=strict)
        return gradients, value

    recording, _ = _recorded(name, gradient, inputs, aux=True)
    if strict:
        _require_dependence(name, recording)
    return recording


@checked
def vhp(
    func: Function, inputs: object, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tree, Tree]:
    """Return `func(*inputs)`, which is one element, and the product of `v` with its Hessian.

    `v` has the structure of the inputs; the other arguments are as in `vjp`.
    """
    given, several = _tensors(inputs, "vhp: the inputs")
    with _mode(create_graph):
        vector = _vector(v, given, "vhp", "input")
        recording = _gradient_recorded("vhp", func, given, strict)
        gradients = recording.raised(recording.gradients(recording.cotangents(vector)))
        return recording.extra(), _unpacked(recording.released(gradients), several)


@checked
def hvp(
    func: Function, inputs: object, v: object = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tree, Tree]:
    """Return `func(*inputs)`, which is one element, and the product of its Hessian with `v`.

    `v` has the structure of the inputs; the other arguments are as in `vjp`. `vhp` gives the same for less work.
    """
    given, several = _tensors(inputs, "hvp: the inputs")
    with _mode(create_graph):
        vector = _vector(v, given, "hvp", "input")
        recording = _gradient_recorded("hvp", func, given, strict)
        tangents = recording.raised(recording.linear()(recording.lowered(vector)))
        return recording.extra(), _unpacked(recording.released(tangents), several)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
