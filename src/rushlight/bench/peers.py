"""The door to peers: each is imported when first asked for something, in a worker whose interpreter has it.

The protocols describe the part of the peers' arrays that programs use, since the peers are not installed where types
are checked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol, Self


class Peer:
    """A module that is imported when its first attribute is asked for."""

    def __init__(self, load: Callable[[], object]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


jax = Peer(lambda: importlib.import_module("jax"))
jnp = Peer(lambda: importlib.import_module("jax.numpy"))
onnx_helper = Peer(lambda: importlib.import_module("onnx.helper"))
onnx_arrays = Peer(lambda: importlib.import_module("onnx.numpy_helper"))
onnxruntime = Peer(lambda: importlib.import_module("onnxruntime"))
tinygrad = Peer(lambda: importlib.import_module("tinygrad"))


class Arithmetic(Protocol):
    """Shape and operators, as all arrays have them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        ...

    @property
    def ndim(self) -> int:
        """The number of dims."""
        ...

    def __add__(self, other: object) -> Self: ...
    def __radd__(self, other: object) -> Self: ...
    def __sub__(self, other: object) -> Self: ...
    def __rsub__(self, other: object) -> Self: ...
    def __mul__(self, other: object) -> Self: ...
    def __rmul__(self, other: object) -> Self: ...
    def __truediv__(self, other: object) -> Self: ...
    def __rtruediv__(self, other: object) -> Self: ...
    def __pow__(self, other: object) -> Self: ...
    def __rpow__(self, other: object) -> Self: ...
    def __matmul__(self, other: object) -> Self: ...
    def __lshift__(self, other: object) -> Self: ...
    def __rshift__(self, other: object) -> Self: ...
    def __neg__(self) -> Self: ...
    def __getitem__(self, index: object) -> Self: ...


class JaxArray(Arithmetic, Protocol):
    """`jax.Array`."""

    @property
    def dtype(self) -> object:
        """The element type."""
        ...

    @property
    def T(self) -> Self:  # noqa: N802 - JAX's name
        """The transpose."""
        ...

    def astype(self, dtype: object) -> Self:
        """With elements of another type."""
        ...

    def mean(self, axis: object = None, *, keepdims: bool = False) -> Self:
        """The mean along dims."""
        ...

    def reshape(self, *shape: object) -> Self:
        """The elements in another shape."""
        ...

    def sum(self, axis: object = None) -> Self:
        """The sum along dims."""
        ...

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two dims exchanged."""
        ...


class TinygradTensor(Arithmetic, Protocol):
    """`tinygrad.Tensor`."""

    def cast(self, dtype: object) -> Self:
        """With elements of another type."""
        ...

    def conv2d(self, weight: Self, *, groups: int, padding: int) -> Self:
        """A convolution over the last two dims."""
        ...

    def erf(self) -> Self:
        """The error function."""
        ...

    def gradient(self, *targets: object, gradient: object = None) -> list[Self]:
        """Gradients of the targets."""
        ...

    def layernorm(self, *, eps: float) -> Self:
        """Normalized along the last dim."""
        ...

    def mean(self, axis: int, *, keepdim: bool = False) -> Self:
        """The mean along a dim."""
        ...

    def realize(self) -> Self:
        """The same tensor, computed."""
        ...

    def rsqrt(self) -> Self:
        """One over the square root."""
        ...

    def scaled_dot_product_attention(self, key: Self, value: Self, *, is_causal: bool) -> Self:
        """Attention of queries."""
        ...

    def softmax(self, axis: int) -> Self:
        """Softmax along a dim."""
        ...

    def sparse_categorical_crossentropy(self, labels: Self) -> Self:
        """The mean cross-entropy of classes."""
        ...

    def square(self) -> Self:
        """Elements times themselves."""
        ...

    def sum(self, axis: int) -> Self:
        """The sum along a dim."""
        ...
