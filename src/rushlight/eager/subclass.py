"""Tensors of subclasses that answer operators: on the storage of another tensor, or as wrappers of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from rushlight.eager.arguments import integer, place
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import PYTHON, Handle, adopted, is_wrapper, make, share, wrap
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU
from rushlight.ops.promote import DEFAULT_DTYPE
from rushlight.support.errors import fail

H = TypeVar("H", bound=Handle)


def make_subclass(cls: type[Handle], tensor: Handle, requires_grad: bool = False) -> Any:
    """A tensor of a subclass on the storage of another one."""
    result: Any = wrap(share(tensor), cls)
    result.keys |= PYTHON if intercepts(cls) else 0
    result.requires_grad = requires_grad
    return result


def make_wrapper_subclass(
    cls: type[Handle],
    size: Iterable[object],
    strides: Iterable[object] | None = None,
    storage_offset: object = None,
    memory_format: object = None,
    dtype: DType | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    storage_size: object = None,
) -> Any:
    """A tensor of a subclass without data of its own, that holds other tensors as attributes.

    Of the default dtype unless one is given. `memory_format`, `layout`, `pin_memory`, `storage_size` and the names of
    policies stand in PyTorch's signature: sizes and strides are always those that are given here.
    """
    shape = tuple(map(integer, size))
    steps = None if strides is None else tuple(map(integer, strides))
    form = form_of(shape, dtype or DEFAULT_DTYPE[0], place(device) or CPU, steps)
    result = make(None, form, 0 if storage_offset is None else integer(storage_offset), cls)
    result.keys |= PYTHON
    if STATE.tracer is not None:
        STATE.tracer.note_wrapper(result)
    result.requires_grad = requires_grad
    return result


def intercepts(cls: type[Handle]) -> bool:
    """Whether a class has a `__torch_dispatch__` of its own."""
    return getattr(cls, "__torch_dispatch__", None) is not getattr(adopted(), "__torch_dispatch__", None)


def is_own_class(cls: type) -> bool:
    """Whether a class of tensors is one of this package, not of a program."""
    return cls.__module__.partition(".")[0] == "rushlight"


def state_of_object(tensor: Handle) -> object:
    """What a program has added to a tensor: attributes, slots, or what its class says."""
    cls = type(tensor)
    told = getattr(cls, "__getstate__", None)
    if told is not getattr(object, "__getstate__", None):  # of Python 3.11 on, objects have one, which gives our slots
        return cast(Callable[[Handle], object], told)(tensor)
    attributes, slots = attributes_of(tensor)
    return (attributes, slots) if slots else attributes


def attributes_of(tensor: Handle) -> tuple[dict[str, object], dict[str, object]]:
    """Attributes of a tensor, and what is in the slots of classes that a program has defined."""
    names = slots_of(type(tensor))
    return dict(vars(tensor)), {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def slots_of(cls: type) -> list[str]:
    """The slots of a class that a program has defined, and of such bases."""
    return [name for base in cls.__mro__ if not is_own_class(base) for name in _slots_of(base)]


def _slots_of(cls: type) -> list[str]:
    slots = vars(cls).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    private = f"_{cls.__name__.lstrip('_')}"
    hidden = [private + name if name[:2] == "__" and name[-2:] != "__" else name for name in names]
    return [name for name in hidden if name not in ("__dict__", "__weakref__")]


def give_state(tensor: Any, state: Any) -> None:
    """Gives a tensor what `state_of_object` told of another one."""
    if hasattr(type(tensor), "__setstate__"):
        tensor.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    give_attributes(tensor, attributes or {}, slots or {})


def give_attributes(tensor: Handle, attributes: Mapping[str, object], slots: Mapping[str, object]) -> None:
    """Gives a tensor what `attributes_of` told of another one."""
    vars(tensor).update(attributes)
    for name, value in slots.items():
        setattr(tensor, name, value)


def flattens(cls: type[Handle]) -> bool:
    """Whether tensors of a class can be taken apart into others, and put together from them."""
    return intercepts(cls) and hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")


def taken_apart(tensor: Any) -> tuple[dict[str, Any], object]:
    """The tensors that a wrapper holds, by the names of its attributes, and what else describes it.

    Errors: A001 for what `__tensor_flatten__` does not say, or names and is no tensor.
    """
    names, context = tensor.__tensor_flatten__()
    inner = {name: getattr(tensor, name, None) for name in names}
    for name, value in inner.items():
        if not isinstance(value, Handle):
            fail("A001", f"{type(tensor).__name__}.__tensor_flatten__ names {name}, which is no tensor", found=value)
    return inner, context


def transformed(tensor: H, change: Callable[[str, Handle], Handle], size: object = None, stride: object = None) -> H:
    """A wrapper with other inner tensors; of the same sizes and strides unless others are given."""
    whole: Any = tensor
    inner, context = taken_apart(whole)
    parts = {name: change(name, part) for name, part in inner.items()}
    size = whole.size() if size is None else size
    stride = whole.stride() if stride is None else stride
    return type(whole).__tensor_unflatten__(parts, context, size, stride)


def held_by(tensor: Handle) -> tuple[Handle, ...]:
    """The tensors with elements that a wrapper stands for, also in wrappers in it; of others, itself."""
    if not is_wrapper(tensor):
        return (tensor,)
    inner, _ = taken_apart(tensor)
    return tuple([part for held in inner.values() for part in held_by(held)])
