"""PyTorch's side: samples of its operator database as data, and what it answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from tools.opdb.calls import Array, Call, Name, Outcome, cotangent, leaves, mapped

torch: Any = import_module("torch")
ml_dtypes: Any = import_module("ml_dtypes")
_invocations: Any = import_module("torch.testing._internal.common_methods_invocations")
_device_types: Any = import_module("torch.testing._internal.common_device_type")

BIT_VIEWS = {"bfloat16": (torch.int16, ml_dtypes.bfloat16)}


def operators() -> list[Any]:
    """The entries of the database."""
    return list(_invocations.op_db)


def label(entry: Any) -> str:
    """An entry's name, with that of its variant."""
    return entry.name + (f":{entry.variant_test_name}" if entry.variant_test_name else "")


def name_of(dtype: Any) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def flat_storage(tensor: Any) -> np.ndarray[Any, Any]:
    """A copy of all elements of the tensor's storage, as numpy's."""
    dtype = tensor.dtype
    whole = torch.empty(0, dtype=dtype).set_(tensor.detach().untyped_storage())
    name = name_of(dtype)
    if name in BIT_VIEWS:
        through, numpy_dtype = BIT_VIEWS[name]
        return whole.view(through).numpy().copy().view(numpy_dtype)
    return whole.numpy().copy()


def as_array(tensor: Any) -> Array:
    """A tensor as data."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return Array(
        name_of(plain.dtype),
        tuple(plain.shape),
        tuple(plain.stride()),
        plain.storage_offset(),
        flat_storage(plain),
        bool(tensor.requires_grad),
    )


def as_data(value: Any) -> Any:
    """An argument or a result as data."""
    if isinstance(value, torch.Tensor):
        return as_array(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return Name(name_of(value))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    return value


def samples_of(entry: Any, dtype: Any, requires_grad: bool, reference: bool) -> Iterator[Any]:
    """The samples of an entry in a dtype, the same ones at every run; `reference` asks for the larger set."""
    torch.manual_seed(0)
    np.random.seed(0)
    make = entry.reference_inputs if reference else entry.sample_inputs
    yield from make("cpu", dtype, requires_grad=requires_grad)


def call_of(sample: Any) -> Call:
    """A sample's arguments as data."""
    args = (sample.input, *sample.args)
    return Call(tuple([mapped(arg, as_data) for arg in args]), mapped(dict(sample.kwargs), as_data))


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            whole = torch.empty(0, dtype=value.dtype).set_(copy.deepcopy(value.detach().untyped_storage()))
            fresh = whole.as_strided(value.shape, value.stride(), value.storage_offset())
            fresh = fresh.conj() if value.is_conj() else fresh
        return fresh.requires_grad_(value.requires_grad)
    return value


def run(function: Callable[..., Any], sample: Any, finish: Callable[[Any], Any], owned: bool = False) -> Outcome:
    """What PyTorch answers. `owned`: the first tensor is a copy, which may be written to."""
    outcome = Outcome()
    args, kwargs = mapped((sample.input, *sample.args), _copied), mapped(dict(sample.kwargs), _copied)
    inputs = [leaf for leaf in leaves([args, kwargs]) if isinstance(leaf, torch.Tensor)]
    if owned:
        args = mapped(args, lambda leaf: leaf.clone() if inputs and leaf is inputs[0] else leaf)
    try:
        results = function(*args, **kwargs)
        outcome.results = [as_data(leaf) for leaf in leaves(results)]
        outcome.inputs = [as_array(tensor) for tensor in inputs]
        outcome.stage = "gradient"
        outcome.gradients = gradients(finish(results), inputs)
    except Exception as error:  # noqa: BLE001 - whatever PyTorch refuses is told as its outcome
        outcome.error = error
    return outcome


def gradients(results: Any, inputs: list[Any]) -> list[Any]:
    """Gradients of the inputs that require them, None where PyTorch has none."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    outputs = [leaf for leaf in leaves(results) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not wanted or not outputs:
        return []
    seeds = [
        torch.from_numpy(np.array(cotangent(tuple(output.shape), position, output.is_complex()))).to(output.dtype)
        for position, output in enumerate(outputs)
    ]
    found = torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)
    return [None if gradient is None else as_array(gradient) for gradient in found]


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


def widened(value: Any) -> Any:
    """Floating and complex tensors in the widest dtype: for telling which of two answers is nearer."""
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        wide = torch.complex128 if value.is_complex() else torch.float64
        return value.detach().to(wide).requires_grad_(value.requires_grad)
    return value
