"""What users can call, with the parameters that each has: functions, methods, layers, optimizers, data, indexing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.ops.record import OPERATORS

# What a call would change for those after it, or that has nothing to do with arguments.
LEFT_OUT = frozenset(
    {
        "Tensor.apply",  # by which rules call operators
        "torch.autocast_decrement_nesting",
        "torch.autocast_increment_nesting",
        "torch.compile",
        "torch.fork_rng",
        "torch.load",
        "torch.save",
        "torch.seed",
        "torch.set_autocast_cache_enabled",
        "torch.set_autocast_cpu_dtype",
        "torch.set_autocast_cpu_enabled",
        "torch.set_autocast_dtype",
        "torch.set_autocast_enabled",
        "torch.set_autocast_gpu_dtype",
        "torch.set_num_threads",
        "torch.set_rng_state",
        "torch.strict",
    }
)
TENSOR_NAMES = frozenset(
    {"input", "other", "self", "tensor", "weight", "bias", "mat1", "mat2", "batch1", "batch2", "target", "condition"}
    | {"mask", "src", "source", "query", "key", "value", "index", "indices", "x", "y", "mean", "std"}
)
PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "Tensor": ("matrix()", "vector()", "square()", "ints()", "image()", "leaf()", "scalar()"),
    "Tensor[]": ("[matrix(), matrix()]", "(vector(), vector())"),
    "int": ("0", "1", "-1", "2"),
    "int[]": ("(2, 3)", "[0]", "(1,)", "(0, 1)", "2"),
    "float": ("0.5", "1.0", "2"),
    "bool": ("True", "False"),
    "str": ("'mean'", "'none'", "'sum'"),
    "DType": ("torch.float64", "torch.int64", "None"),
    "Device": ("'cpu'", "'meta'", "None"),
    "params": ("[parameter()]", "module().parameters()"),
    "optimizer": ("optim.SGD([parameter()], lr=0.1)",),
    "dataset": ("range(5)", "data.TensorDataset(matrix())"),
    "function": ("some_lambda()", "torch.relu"),
}
_KINDS: dict[str, str] = {
    "dtype": "DType",
    "device": "Device",
    "params": "params",
    "optimizer": "optimizer",
    "dataset": "dataset",
    "data_source": "dataset",
    "sampler": "dataset",
    "size": "int[]",
    "shape": "int[]",
    "dims": "int[]",
    "normalized_shape": "int[]",
    "kernel_size": "int",
    "padding": "int",
    "dim": "int",
    "lr": "float",
    "eps": "float",
    "p": "float",
    "alpha": "float",
    "momentum": "float",
    "reduction": "str",
    "mode": "str",
    "keepdim": "bool",
    "inplace": "bool",
    "requires_grad": "bool",
    "func": "function",
    "hook": "function",
    "lr_lambda": "function",
    "tensors": "Tensor[]",
}


class Parameter(NamedTuple):
    """One parameter: what a fitting value would be, and whether it must be given, by name only or in any number."""

    name: str
    kind: str
    required: bool = True
    named: bool = False
    repeated: bool = False


class Surface(NamedTuple):
    """Something to be called: its source text up to the parenthesis, its parameters, and the text after the call."""

    text: str
    parameters: tuple[Parameter, ...]
    after: str = ""


def _kind(name: str, annotation: object) -> str:
    if name in _KINDS:
        return _KINDS[name]
    if name in TENSOR_NAMES:
        return "Tensor"
    said = str(annotation)
    return next((kind for kind in ("bool", "float", "int", "str") if said.startswith(kind)), "int")


def _of_schema(name: str) -> dict[str, str]:
    op = OPERATORS.get(name.rstrip("_")) if name in OPERATORS or name.rstrip("_") in OPERATORS else None
    if op is None:
        return {}
    return {item.name: _schema_kind(item.type) for item in op.schema.parameters}


def _schema_kind(kind: str) -> str:
    plain = kind.rstrip("?").replace("Size", "int")
    return plain if plain in PLAUSIBLE else "float"


def parameters_of(function: Any, name: str) -> tuple[Parameter, ...]:
    """The parameters of a function, with what its operator's schema, its annotations or their names say of values."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (Parameter("args", "Tensor", repeated=True),)
    kinds = _of_schema(name)
    listed: list[Parameter] = []
    for item in found:
        if item.kind is item.VAR_KEYWORD:
            continue
        kind = kinds.get(item.name) or _kind(item.name, item.annotation)
        named, many = item.kind is item.KEYWORD_ONLY, item.kind is item.VAR_POSITIONAL
        listed.append(Parameter(item.name, kind, item.default is item.empty, named, many))
    return tuple(listed)


def _members(module: Any, prefix: str, names: Iterator[str] | list[str], classes: bool) -> Iterator[Surface]:
    for name in names:
        member = getattr(module, name, None)
        wanted = isinstance(member, type) if classes else callable(member) and not isinstance(member, type)
        if wanted and f"{prefix}{name}" not in LEFT_OUT:
            yield Surface(f"{prefix}{name}", parameters_of(member, name))


def _functions() -> Iterator[Surface]:
    listed = [name for name in torch.__all__ if not name.startswith("__")]
    yield from _members(torch, "torch.", listed, False)
    for name in ("FloatTensor", "LongTensor", "Tensor", "Size", "device", "finfo", "iinfo", "Generator"):
        yield Surface(f"torch.{name}", (Parameter("args", "int", repeated=True),))
    functional: Any = torch.nn.functional
    yield from _members(functional, "F.", functional.__all__, False)
    init: Any = torch.nn.init
    yield from _members(init, "nn.init.", init.__all__, False)
    utils: Any = torch.nn.utils
    yield from _members(utils, "nn.utils.", utils.__all__, False)
    for name in ("grad", "backward", "gradcheck"):
        yield Surface(f"torch.autograd.{name}", parameters_of(getattr(torch.autograd, name), name))
    for name in ("get_state", "set_state", "manual_seed", "seed", "initial_seed"):
        yield Surface(f"generator().{name}", (Parameter("args", "int", repeated=True),))
    for name in ("set_grad_enabled", "no_grad", "enable_grad", "inference_mode"):
        yield Surface(f"entered(torch.{name}", (Parameter("mode", "bool", repeated=True),), ")")
    yield Surface("compiled", (Parameter("x", "Tensor"), Parameter("n", "int", False)))


def _methods() -> Iterator[Surface]:
    for name in sorted(dir(torch.Tensor)):
        member = inspect.getattr_static(torch.Tensor, name)
        if name.startswith("_") or not callable(getattr(torch.Tensor, name)) or isinstance(member, property):
            continue
        if f"Tensor.{name}" not in LEFT_OUT:
            parameters = parameters_of(getattr(torch.Tensor, name), name)
            yield Surface(f"TENSOR.{name}", parameters[1:] if not isinstance(member, staticmethod) else parameters)


def _classes() -> Iterator[Surface]:
    nn: Any = torch.nn
    for found in _members(nn, "nn.", nn.__all__, True):
        if found.text not in ("nn.Module",):
            yield found
            yield Surface(f"FITTING {found.text}", (Parameter("input", "Tensor"),))
    optim: Any = torch.optim
    for found in _members(optim, "optim.", optim.__all__, True):
        yield found
        for method, kind in (("step", "function"), ("load_state_dict", "int"), ("add_param_group", "params")):
            yield Surface(f"optim.{found.text[6:]}([parameter()]).{method}", (Parameter("given", kind),))
    scheduler: Any = torch.optim.lr_scheduler
    yield from _members(scheduler, "optim.lr_scheduler.", scheduler.__all__, True)
    data: Any = torch.utils.data
    for found in _members(data, "data.", data.__all__, True):
        yield found._replace(text=f"some({found.text}", after=")")
    yield from _members(data, "data.", data.__all__, False)
    for method in ("load_state_dict", "to", "register_buffer", "register_parameter", "add_module", "get_submodule"):
        member = getattr(torch.nn.Module, method)
        yield Surface(f"module().{method}", parameters_of(member, method)[1:])


OPERATIONS = (
    *("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"),
    *("==", "!=", "<", "<=", ">", ">="),
)
"""Python's binary operators."""


def surfaces() -> tuple[Surface, ...]:
    """Everything, in a fixed order."""
    return (*_functions(), *_methods(), *_classes())
