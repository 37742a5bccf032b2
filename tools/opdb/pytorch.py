"""PyTorch's side: samples of its operator database as data, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tools.fuzz.program import DTYPES, Input
from tools.fuzz.stepping import storage_bytes
from tools.opdb.calls import Call, Name, leaves, mapped

torch: Any = import_module("torch")
_invocations: Any = import_module("torch.testing._internal.common_methods_invocations")
_device_types: Any = import_module("torch.testing._internal.common_device_type")


def operators() -> list[Any]:
    """The entries of the database."""
    return list(_invocations.op_db)


def label(entry: Any) -> str:
    """An entry's name, with that of its variant."""
    return entry.name + (f":{entry.variant_test_name}" if entry.variant_test_name else "")


def internal(entry: Any) -> bool:
    """Whether PyTorch documents nothing of the name: its kernels' own names, and those of jiterator."""
    last = entry.name.rpartition(".")[2]
    if re.match(r"_[^_]", last) or last.startswith("jiterator"):
        return True
    found = [_attribute(torch, entry.name), *[getattr(torch.Tensor, name, None) for name in (last, f"{last}_")]]
    return not last.startswith("__") and not any(getattr(one, "__doc__", None) for one in found)


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner


def errors_of(entry: Any) -> list[Any]:
    """The samples of an entry that it should refuse."""
    torch.manual_seed(0)
    np.random.seed(0)
    errors = entry.error_inputs("cpu") if entry.error_inputs_func else ()
    return [error.sample_input for error in errors if is_plain(error.sample_input)]


def is_plain(sample: Any) -> bool:
    """Whether every tensor of a sample lies in memory, element by element: not sparse, not of the device meta.

    NumPy's arrays, which hold what a sample has, have no more than 64 dims.
    """
    parts = leaves([sample.input, list(sample.args), dict(sample.kwargs)])
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return all(part.layout is torch.strided and part.device.type == "cpu" and part.ndim <= 64 for part in tensors)


def name_of(dtype: Any) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def as_input(tensor: Any) -> Input:
    """A tensor as data."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    dtype = name_of(plain.dtype)
    values = storage_bytes(plain).view(DTYPES[dtype])
    return Input(
        dtype, tuple(plain.shape), tuple(plain.stride()), plain.storage_offset(), values, bool(tensor.requires_grad)
    )


def as_data(value: Any) -> Any:
    """An argument as data."""
    if isinstance(value, torch.Tensor):
        return as_input(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return Name(name_of(value))
    if isinstance(value, torch.nn.Module):  # the samples have such as were made without arguments
        return Name(f"nn.{type(value).__name__}", called=True)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if is_dataclass(value) and not isinstance(value, type):  # of options
        given = tuple([(one.name, as_data(getattr(value, one.name))) for one in fields(value)])
        return Name(f"nn.{type(value).__name__}", called=True, fields=given)
    return value


def samples_of(entry: Any, dtype: Any, requires_grad: bool, reference: bool) -> Iterator[Any]:
    """The plain samples of an entry in a dtype, the same ones at every run; `reference` asks for the larger set."""
    torch.manual_seed(0)
    np.random.seed(0)
    make = entry.reference_inputs if reference else entry.sample_inputs
    yield from filter(is_plain, make("cpu", dtype, requires_grad=requires_grad))


def call_of(sample: Any) -> Call:
    """A sample's arguments as data."""
    args = (sample.input, *sample.args)
    return Call(tuple([mapped(arg, as_data) for arg in args]), mapped(dict(sample.kwargs), as_data))


def tolerances(entry: Any, dtype: Any) -> tuple[float, float]:
    """(relative, absolute) that the entry states for the dtype: its tests' overrides."""
    relative, absolute = 0.0, 0.0
    for decorator in entry.decorators:
        parts = getattr(decorator, "decorators", [decorator])
        stated = getattr(decorator, "device_type", None) in (None, "cpu")
        for part in parts if stated else []:
            if isinstance(part, _device_types.toleranceOverride) and dtype in part.d:
                absolute = max(absolute, part.d[dtype].atol)
                relative = max(relative, part.d[dtype].rtol)
    return relative, absolute


def widened(call: Call) -> Call:
    """The call with floating and complex tensors in the widest dtype: for telling which of two answers is nearer."""
    return Call(*mapped([call.args, call.kwargs], _wide))


def _wide(part: Any) -> Any:
    if not isinstance(part, Input) or part.values.dtype.kind not in "fcV":
        return part
    dtype = "complex128" if part.values.dtype.kind == "c" else "float64"
    return Input(dtype, part.shape, part.strides, part.offset, part.values.astype(dtype), part.requires_grad)
