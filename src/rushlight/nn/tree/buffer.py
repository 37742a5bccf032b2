"""Buffers that register themselves when a module's attribute is set to them."""

from __future__ import annotations

from rushlight.eager.boundary import checked
from rushlight.eager.handle import BUFFER_MARK
from rushlight.eager.override.foreign import disabled
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require

__all__ = ["Buffer"]


class _ByMark(type):
    """`isinstance` asks for the mark: a buffer is a plain tensor."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, BUFFER_MARK, False)


class Buffer(Tensor, metaclass=_ByMark):
    """A tensor on the memory of `data` that a module keeps as a buffer, as `register_buffer` does.

    ```python
    self.positions = nn.Buffer(rl.arange(8), persistent=False)
    ```
    """

    __torch_function__ = disabled

    @checked
    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:
        """Return a plain tensor with the mark of a buffer."""
        require(data is None or isinstance(data, Tensor), "A001", "Buffer: not a tensor", data=data)
        base = Tensor() if data is None else data
        result = base.detach().requires_grad_(base.requires_grad)
        vars(result).update({BUFFER_MARK: True, "persistent": persistent})
        return result
