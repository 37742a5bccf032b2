"""ModuleConversion: moving a module between devices and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from rushlight.eager.arguments import element_type, place
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import empty_like
from rushlight.eager.dispatch import call_user
from rushlight.eager.keywords import no_more
from rushlight.eager.storage.formats import laid_out, memory_format_of, preserve_format
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, float16, float32, float64
from rushlight.ir.type import Device
from rushlight.nn.tree.state import ModuleState
from rushlight.support.errors import fail, require


class ModuleConversion(ModuleState):
    """A module whose parameters and buffers are replaced all at once."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, gradient and buffer by `fn` of it.

        Parameters stay the same objects, so that optimizers and tied layers keep them.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = call_user(fn, param.data)
                if param.grad is not None:
                    param.grad = call_user(fn, param.grad.detach()).requires_grad_(param.grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = call_user(fn, buffer)
        return self

    def to(self, *args: object, **kwargs: object) -> Self:
        """Move to a device, convert floating-point parameters and buffers to a dtype, or both.

        A tensor as the argument gives its device and dtype. With `memory_format=rl.channels_last` those of four dims,
        and with `rl.channels_last_3d` those of five, are laid out anew. Errors: A001 for integer dtypes.
        """
        order = memory_format_of(kwargs.pop("memory_format", None) or preserve_format)
        device, dtype = destination_of(*args, **kwargs)

        def convert(tensor: Tensor) -> Tensor:
            converted = tensor.to(device=device, dtype=dtype if _floating(tensor.dtype) else None)
            fits = order.order is None or len(order.order) == tensor.ndim
            return laid_out(converted, order) if fits else converted

        return self._apply(convert)

    def to_empty(self, *, device: object, recurse: bool = True) -> Self:
        """Move to a device without the values, which are undefined then: for modules made on `meta`."""
        empty = place(device)
        return self._apply(lambda tensor: empty_like(tensor, device=empty), recurse)

    def type(self, dst_type: object) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.to(dtype=element_type(dst_type)))

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self.to(dtype=float32)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes can see."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self.to(dtype=float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self.to(dtype=float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self.to(dtype=bfloat16)

    def cuda(self, device: object = None) -> Self:
        """Nothing but the error that there is no such device: V001."""
        fail("V001", "cuda: there is no device cuda", hint="devices: cpu, meta; ask rl.cuda.is_available() first")

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to(device="cpu")


def _floating(dtype: DType) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def destination_of(*args: object, **kwargs: Any) -> tuple[Device | None, DType | None]:
    """Return (device, dtype) of the ways to call `to`: by position in either order, by name, or like a tensor."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("tensor", None)
    no_more(kwargs, ("device", "dtype", "tensor", "memory_format"))
    for arg in args:
        if isinstance(arg, Tensor):
            other = arg
        elif isinstance(arg, DType):
            dtype = arg
        elif not isinstance(arg, bool) and arg is not None:
            device = arg
    if other is not None:
        device, dtype = other.device, other.dtype
    element = element_type(dtype)
    allowed = element is None or _floating(element)
    require(allowed, "A001", f"to: a module is converted to floating-point dtypes only, not {element}")
    return place(device), element
