"""What a function of PyTorch or of Rushlight answers to a call, and Rushlight's function of a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from tools.fuzz.program import Input
from tools.fuzz.running import Outcome, Transform, Value, differentiate, failed, leaf, value_of
from tools.opdb.calls import Call, Name, leaves, mapped

# Namespaces of PyTorch whose functions are those of `torch` of the same name, where both exist.
SYNONYMS = ("", "nn.functional", "special")

_SEED = 42  # of each call


def attribute(path: str) -> Any:
    """`rushlight.<path>`, or None."""
    owner: Any = rl
    for part in path.split("."):
        try:
            owner = getattr(owner, part)
        except AttributeError:
            return None
    return owner


def path_of(name: str) -> str | None:
    """Where the function is that PyTorch calls `name`: at that path, or of its last part where these are synonyms."""
    namespace, _, last = name.rpartition(".")
    paths = (name, last, f"nn.functional.{last}") if namespace in SYNONYMS else (name,)
    for path in paths:
        found = attribute(path)
        if callable(found) and not isinstance(found, type):
            return path
    return None


def function_of(name: str) -> Callable[..., Any] | None:
    """The function that PyTorch calls `name`, or the method, also one that exists in place alone."""
    path = path_of(name)
    if path is not None:
        return attribute(path)
    namespace, _, last = name.rpartition(".")
    return method_of(last) or method_of(f"{last}_") if namespace in SYNONYMS else None


def method_of(name: str) -> Callable[..., Any] | None:
    """The method of tensors, as a function of the tensor and the arguments; a property as a function."""
    member = getattr(rl.Tensor, name, None)
    if member is None:
        return None
    return member if callable(member) else lambda tensor: getattr(tensor, name)


def writing(function: Callable[..., Any], module: Any, dtypes: list[str]) -> Callable[..., Any]:
    """The function with `out=`: new tensors without elements, one of each dtype, which it returns once written."""

    def call(*args: Any, **named: Any) -> Any:
        targets = [module.empty(0, dtype=getattr(module, dtype)) for dtype in dtypes]
        function(*args, **named, out=targets[0] if len(targets) == 1 else tuple(targets))
        return targets

    return call


def run(
    function: Callable[..., Any],
    call: Call,
    module: Any,
    finish: Callable[[Any], Any] = lambda results: results,
    owned: bool = False,
    transform: Transform = lambda inner: inner,
) -> Outcome:
    """What a function of `module` answers: an outcome with an error has values where only the gradients failed.

    `owned`: the first tensor is a copy, which may be written to; `transform` is given a function of tensors alone;
    `finish` is applied to the results before they are differentiated.
    """
    storages = [given.values.copy() for given in call.inputs]
    memory, values = iter(storages), tuple[Value, ...]()

    def given(part: Any) -> Any:
        if isinstance(part, Input):
            return leaf(part, next(memory), module)
        return part.of(module) if isinstance(part, Name) else part

    try:
        tree = mapped([call.args, call.kwargs], given)
        tensors = [part for part in leaves(tree) if isinstance(part, module.Tensor)]

        def of_tensors(*tensors: Any) -> Any:
            parts = iter([tensors[0].clone(), *tensors[1:]] if owned else tensors)
            args, kwargs = mapped(tree, lambda part: next(parts) if isinstance(part, module.Tensor) else part)
            return function(*args, **kwargs)

        module.manual_seed(_SEED)
        results = transform(of_tensors)(*tensors)
        values = tuple([value_of(_resolved(part)) for part in leaves(results)])
        differentiate(list(leaves(finish(results))), module)
        gradients = tuple([None if tensor.grad is None else value_of(_resolved(tensor.grad)) for tensor in tensors])
        return Outcome(values, tuple(storages), gradients)
    except Exception as error:  # noqa: BLE001 - every error is an outcome, which is told apart later
        found = failed(error, storages)
        return Outcome(values, found.inputs, (), found.error, found.code, found.message + _where(error, found.code))


def _resolved(part: Any) -> Any:
    """A tensor without PyTorch's lazy conjugation and negation."""
    return part.detach().resolve_conj().resolve_neg() if hasattr(part, "resolve_neg") else part


def _where(error: BaseException, code: str | None) -> str:
    """The place of a raw error."""
    trace = error.__traceback__
    if code is not None or trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename.rpartition('/rushlight/')[2]}:{trace.tb_lineno})"
