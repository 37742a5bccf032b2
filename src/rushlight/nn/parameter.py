"""Parameters and buffers, also those whose shapes the first input tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

from rushlight.eager.arguments import element_type, place, shape_of
from rushlight.eager.boundary import checked
from rushlight.eager.creation import empty, require_gradient
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import BUFFER_MARK, PYTHON, Handle, share
from rushlight.eager.override.foreign import disabled
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.tree.buffer import Buffer
from rushlight.support.errors import fail
from rushlight.support.peer_names import absent_name

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

_HINT = "call the module on an example first: its input tells the shapes"


class UninitializedTensorMixin(Tensor):
    """A tensor without a shape, until `materialize` gives it one. It can be moved and converted, and no more."""

    __torch_function__ = disabled

    cls_to_become: ClassVar[type[Tensor]] = Tensor

    @property
    def shape(self) -> NoReturn:
        """Nothing but an error."""
        fail("A004", "Can't access the shape of an uninitialized parameter or buffer", hint=_HINT)

    def numel(self) -> NoReturn:
        """Nothing but an error."""
        self._refuse("numel")

    nelement = numel

    def share_memory_(self) -> NoReturn:
        """Nothing but an error."""
        fail("A004", "Can't share memory on an uninitialized parameter or buffer", hint=_HINT)

    @staticmethod
    def _refuse(name: str) -> NoReturn:
        fail("A002", f"Attempted to use an uninitialized parameter in {name}", hint=_HINT)

    @classmethod
    def __torch_dispatch__(
        cls, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: object = None
    ) -> NoReturn:
        """Refuse every operator."""
        cls._refuse(func.__name__)

    @property
    def data(self) -> Tensor:
        """A tensor without elements, of the dtype and on the device."""
        data = share(self, own_version=True)
        data.keys &= ~PYTHON
        return data

    @data.setter
    def data(self, value: Handle) -> None:
        self._show(value)
        self.keys |= PYTHON

    def _show(self, value: Handle) -> None:
        wanted = self.requires_grad
        self.backing, self.offset, self.form, self.keys = value.backing, value.offset, value.form, value.keys
        require_gradient(self, wanted)

    def materialize(self, shape: int | Sequence[int], device: object = None, dtype: object = None) -> None:
        """Become a tensor with undefined elements of a shape; device and dtype are kept where none are given."""
        if STATE.tracer is not None:
            hint = "load its state, or call it once, before the function is compiled"
            fail("C003", "compile: a lazy module gets its tensors in the function", hint=hint)
        kept_device, kept_dtype = place(device) or self.device, element_type(dtype) or self.dtype
        self._show(empty(shape_of((shape,)), device=kept_device, dtype=kept_dtype))
        become(self, self.cls_to_become)

    def _like(self) -> dict[str, Any]:
        return {"requires_grad": self.requires_grad, "device": self.device, "dtype": self.dtype}

    def __reduce_ex__(self, protocol: object) -> Any:
        return _again, (type(self), self._like())

    def __deepcopy__(self, memo: dict[int, object]) -> object:
        if id(self) not in memo:
            memo[id(self)] = _again(type(self), self._like())
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<{type(self).__name__}>"


def _again(cls: Callable[..., Tensor], options: Mapping[str, object]) -> Tensor:
    return cls(**options)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    ```python
    weight = nn.UninitializedParameter()
    weight.materialize((3, 4))
    ```
    """

    cls_to_become = Parameter

    @checked
    def __new__(cls, requires_grad: bool = True, device: object = None, dtype: object = None) -> Self:
        """Of a dtype, on a device."""
        return _shapeless(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose shape is not known yet."""

    @checked
    def __new__(
        cls, requires_grad: bool = False, device: object = None, dtype: object = None, persistent: bool = True
    ) -> Self:
        """Of a dtype, on a device; `persistent` as register_buffer has it."""
        result = _shapeless(cls, requires_grad, device, dtype)
        vars(result).update({BUFFER_MARK: True, "persistent": persistent})
        return result

    def _like(self) -> dict[str, Any]:
        return {**super()._like(), "persistent": vars(self)["persistent"]}


def _shapeless(cls: type[Any], requires_grad: bool, device: object, dtype: object) -> Any:
    result = object.__new__(cls)
    base = empty(0, device=device, dtype=dtype)
    for name in ("backing", "offset", "form", "keys", "version", "view_of", "gradient", "node"):
        setattr(result, name, getattr(base, name))
    require_gradient(result, requires_grad)
    result.keys |= PYTHON
    return result


def become(instance: object, cls: type) -> None:
    """Make an object one of another class, which has the same layout."""
    object.__setattr__(instance, "__class__", cls)


def is_lazy(param: object) -> bool:
    """Return whether a tensor has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
