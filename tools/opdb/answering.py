"""Rushlight's side: the function of a name, tensors from data, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
from tools.opdb.calls import Array, Call, Name, Outcome, cotangent, dense_strides, leaves, mapped

# Namespaces of PyTorch whose functions are those of `torch` of the same name, where both exist.
SYNONYMS = ("", "nn.functional", "special")


def attribute(path: str) -> Any:
    """`rushlight.<path>`, or None."""
    owner: Any = rl
    for part in path.split("."):
        try:
            owner = getattr(owner, part)
        except AttributeError:
            return None
    return owner


def function_of(name: str) -> Callable[..., Any] | None:
    """The function that PyTorch calls `name`: one of the same path, or of the last name where these are synonyms."""
    namespace, _, last = name.rpartition(".")
    if namespace not in SYNONYMS:
        return None
    for path in (name, last, f"nn.functional.{last}"):
        found = attribute(path)
        if callable(found) and not isinstance(found, type):
            return found
    return method_of(last)


def method_of(name: str) -> Callable[..., Any] | None:
    """The method of tensors, as a function of the tensor and the arguments; a property as a function."""
    member = getattr(rl.Tensor, name, None)
    if member is None:
        return None
    return member if callable(member) else lambda tensor: getattr(tensor, name)


def as_tensor(leaf: Any) -> Any:
    """A leaf of a call as an argument: a leaf tensor that owns its storage, a constant, a plain value."""
    if isinstance(leaf, Name):
        return getattr(rl, leaf.text)
    if not isinstance(leaf, Array):
        return leaf
    if leaf.strides == dense_strides(leaf.shape) and leaf.offset == 0 and leaf.storage.size == np.prod(leaf.shape):
        tensor = rl.from_numpy(leaf.storage.copy().reshape(leaf.shape))
    else:
        tensor = rl.from_numpy(leaf.storage.copy()).as_strided(leaf.shape, leaf.strides, leaf.offset)
    return tensor.requires_grad_() if leaf.requires_grad else tensor


def as_data(value: Any) -> Any:
    """A result as data."""
    if isinstance(value, rl.Tensor):
        values = value.detach().numpy().copy()
        dtype = str(value.dtype).rsplit(".", 1)[-1]
        requires_grad = bool(value.requires_grad)
        return Array(dtype, tuple(values.shape), dense_strides(values.shape), 0, values.reshape(-1), requires_grad)
    if isinstance(value, rl.dtype):
        return Name(str(value).rsplit(".", 1)[-1])
    return value


Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


def run(
    function: Callable[..., Any],
    call: Call,
    finish: Callable[[Any], Any] = lambda results: results,
    owned: bool = False,
    transform: Transform = lambda inner: inner,
) -> Outcome:
    """What Rushlight answers. `owned`: the first tensor is a copy; `transform` is given a function of tensors alone."""
    outcome = Outcome()
    try:
        tree = mapped([call.args, call.kwargs], as_tensor)
        inputs = [leaf for leaf in leaves(tree) if isinstance(leaf, rl.Tensor)]

        def of_tensors(*tensors: Any) -> Any:
            given = iter(tensors)
            args, kwargs = mapped(tree, lambda leaf: next(given) if isinstance(leaf, rl.Tensor) else leaf)
            if owned:
                first = tensors[0]
                args = mapped(args, lambda leaf: leaf.clone() if leaf is first else leaf)
            return function(*args, **kwargs)

        results = transform(of_tensors)(*inputs)
        outcome.results = [as_data(leaf) for leaf in leaves(results)]
        outcome.inputs = [as_data(tensor) for tensor in inputs]
        outcome.stage = "gradient"
        outcome.gradients = gradients(finish(results), inputs)
    except Exception as error:  # noqa: BLE001 - every error is an outcome, which is told apart later
        outcome.error = error
    return outcome


def gradients(results: Any, inputs: list[Any]) -> list[Any]:
    """Gradients of the inputs that require them, None where there is none."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    outputs = [leaf for leaf in leaves(results) if isinstance(leaf, rl.Tensor) and leaf.requires_grad]
    if not wanted or not outputs:
        return []
    seeds = [
        rl.from_numpy(np.array(cotangent(tuple(output.shape), position, output.is_complex()))).to(output.dtype)
        for position, output in enumerate(outputs)
    ]
    found = rl.autograd.grad(outputs, wanted, seeds, allow_unused=True)
    return [None if gradient is None else as_data(gradient) for gradient in found]
