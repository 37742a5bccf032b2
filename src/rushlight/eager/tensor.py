"""Tensor and Parameter: the user's classes, put together from what the neighbours know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rushlight.eager import functions, indexing
from rushlight.eager.arguments import flag, required_operand, required_tensor
from rushlight.eager.autograd import driver
from rushlight.eager.autograd.accumulate import refuse_untraced
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import RemovableHandle, add_hook
from rushlight.eager.composite.memory import MemoryMethods
from rushlight.eager.composite.methods import CompositeMethods
from rushlight.eager.creation import require_gradient, tensor
from rushlight.eager.dispatch import STATE, called, name_operation
from rushlight.eager.handle import (
    PARAMETER_MARK,
    PYTHON,
    Handle,
    adopt,
    adopted,
    fail_without_data,
    gradient_of,
    is_wrapper,
    move,
    share,
    wrap,
)
from rushlight.eager.interception import read_wrapper
from rushlight.eager.interchange import CPU_DEVICE, exported
from rushlight.eager.legacy import made
from rushlight.eager.memory import asked_array_of, first_element, require_host_memory, tensor_of
from rushlight.eager.methods import GeneratedMethods
from rushlight.eager.ordering import OrderMethods
from rushlight.eager.overloads import (
    ConversionOverloads,
    ExtremeOverloads,
    SecondNames,
    ShapeOverloads,
    SpreadOverloads,
)
from rushlight.eager.override.answering import answer_plainly, override_methods
from rushlight.eager.override.foreign import FUNCTION, disabled
from rushlight.eager.persistence import copied, rebuild_tensor, state_of
from rushlight.eager.printing.text import format_tensor
from rushlight.eager.random import RandomMethods
from rushlight.eager.subclass import (
    attributes_of,
    give_attributes,
    give_state,
    is_own_class,
    make_subclass,
    make_wrapper_subclass,
    state_of_object,
)
from rushlight.eager.symbols import SymInt, unwrap_sizes, wrap_size
from rushlight.eager.tensor_meta import Size
from rushlight.eager.tracing import WRITTEN
from rushlight.eager.tracing.reading import needed_now, traced_item, traced_list
from rushlight.ir.dtype import Kind, from_numpy_dtype
from rushlight.ir.type import CPU
from rushlight.ops.dims import same_shape
from rushlight.support.errors import RushlightError, fail, require, warn
from rushlight.support.interpreted import interpreted
from rushlight.support.peer_names import absent_name
from rushlight.term import Op

H = TypeVar("H", bound=Handle)
_ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class Autograd(GeneratedMethods):
    """The side of a tensor that gradients see."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of it are wanted: as a leaf that asked, or because it was computed from one."""
        return requires(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        value = flag(value)
        if not self.is_leaf:
            if value:
                return
            fail("G011", "requires_grad: only of leaves can it be set", tensor=self)
        require_gradient(self, value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets `requires_grad` and returns the tensor."""
        if requires_grad is not True or self.gradient is None or not self.gradient.required:
            self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user, or requires no gradients."""
        requires(self)
        return self.gradient is None or self.gradient.node is None

    @property
    def grad_fn(self) -> Any:
        """The node that made it, or None."""
        requires(self)
        node = None if self.gradient is None else self.gradient.node
        return None if node is None else node.shown()

    @property
    def output_nr(self) -> int:
        """Which output of its node it is."""
        return 0 if self.gradient is None else self.gradient.output

    @property
    def grad(self) -> Any:
        """What backward passes have accumulated, or None."""
        gradient = self.gradient
        if STATE.tracer is not None:
            STATE.tracer.refuse_given(self)
            STATE.tracer.gradients_read.setdefault(id(self), None if gradient is None else gradient.grad)
            refuse_untraced(None if gradient is None else gradient.grad)
        if gradient is None:
            return None
        if gradient.node is not None and not gradient.retained and gradient.grad is None:
            warn("G010", "grad: the tensor is not a leaf, so nothing is accumulated", key="grad of a non-leaf")
        return gradient.grad

    @grad.setter
    def grad(self, value: Handle | None) -> None:
        if value is not None:
            require(isinstance(value, Handle), "A001", "grad: not a tensor", value=value)
            same = value.dtype is self.dtype and same_shape(value.form.shape, self.form.shape)
            require(same and value is not self, "G007", "grad: does not fit its tensor", tensor=self, grad=value)
        if STATE.tracer is not None:
            STATE.tracer.gradients_read.setdefault(id(self), WRITTEN)
            STATE.tracer.note_change(self)
        gradient_of(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(
        self,
        gradient: object = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Accumulates the gradients of this tensor into the leaves that it depends on."""
        driver.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keeps `grad` also of a tensor that is no leaf."""
        require(requires(self), "G005", "retain_grad: the tensor does not require gradients", tensor=self)
        if not self.is_leaf:
            if STATE.tracer is not None:
                STATE.tracer.note_place(self, "retain_grad")
            gradient = gradient_of(self)
            gradient.retained = True
            gradient.node.retain(gradient.output, self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on it."""
        return self.gradient is not None and self.gradient.retained

    def register_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(grad)` whenever its gradient is computed; what it returns, unless None, is used instead."""
        require(requires(self), "G005", "register_hook: the tensor does not require gradients", tensor=self)
        if STATE.tracer is not None:
            STATE.tracer.note_place(self, "register_hook")
        gradient = gradient_of(self)
        if gradient.node is not None:
            return add_hook(gradient.node.hooks_of_output(gradient.output), hook)
        gradient.hooks = {} if gradient.hooks is None else gradient.hooks
        return add_hook(gradient.hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(tensor)` after its gradient was accumulated; for leaves."""
        require(self.is_leaf and requires(self), "G005", "the hook is for leaves that require gradients", tensor=self)
        if STATE.tracer is not None:
            STATE.tracer.note_place(self, "register_hook")
        gradient = gradient_of(self)
        gradient.accumulated = {} if gradient.accumulated is None else gradient.accumulated
        return add_hook(gradient.accumulated, hook)

    def detach_(self) -> Self:
        """Takes the tensor out of its graph, in place. Errors: G006 for a view; G016 for one from outside a trace."""
        require(self.view_of is None, "G006", "detach_: a view cannot be detached in place", tensor=self)
        if STATE.tracer is not None:
            STATE.tracer.note_place(self, "detach_")
        self.gradient = None
        require_gradient(self, False)
        return self

    @property
    def data(self) -> Tensor:
        """The same elements without history; writes to it are not seen by autograd."""
        return share(self, own_version=True)

    @data.setter
    def data(self, value: Handle) -> None:
        require(isinstance(value, Handle), "A001", "data: not a tensor", value=value)
        if STATE.tracer is not None:
            if STATE.tracer.shows_the_same(self, value):  # as `p.data -= x` sets what it has written to
                return
            hint = "write to its elements: with rl.no_grad(): tensor.copy_(value)"
            fail(
                "A006",
                "data: the memory of a tensor cannot be exchanged in a compiled function",
                tensor=self,
                hint=hint,
            )
        floats = not requires(self) or value.dtype.kind >= Kind.FLOAT
        require(floats, "D001", "data: a tensor that requires gradients holds floating-point numbers", data=value)
        move(self, value)

    @property
    def _version(self) -> int:
        return self.version.value

    @property
    def _base(self) -> Handle | None:
        return None if self.view_of is None else self.view_of.base


class Reading(GeneratedMethods):
    """Elements as Python values, arrays and text."""

    __slots__ = ()

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        if STATE.tracer is not None:
            return traced_item(self)
        if self.form.numel != 1:
            fail("S015", "item: the tensor has several elements, or none", tensor=self)
        return read_wrapper(self) if is_wrapper(self) else first_element(self)

    def tolist(self) -> Any:
        """The elements as nested lists."""
        if STATE.tracer is not None:
            return traced_list(self) if self.form.shape else traced_item(self)
        array = asked_array_of(self)
        return (array.astype(np.float64) if array.dtype.kind == "V" else array).tolist()

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """The elements as an array that shares the tensor's memory; G012 if gradients of it are recorded."""
        if STATE.grad and requires(self) and not force:
            fail("G012", "numpy: the tensor requires gradients", hint="call detach() first")
        if not force:
            require_host_memory(self)
        return asked_array_of(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The elements as an array, in another dtype on request. `copy` forces or forbids a copy. Errors: A002."""
        array = self.numpy()
        converted = dtype is not None and np.dtype(dtype) != array.dtype
        if converted and copy is False:
            fail("A002", "__array__: another dtype needs a copy", tensor=self, dtype=dtype)
        return array.astype(dtype) if converted else array.copy() if copy else array

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory of its elements for Python's buffer protocol, which asks for it from Python 3.12 on.

        Errors: those of `numpy`, and BufferError for dtypes that the protocol has no letter for, as bfloat16.
        """
        array: Any = self.numpy()
        try:
            return memoryview(array)
        except ValueError as cause:
            raise BufferError(f"there are no buffers of {self.dtype.name}") from cause

    def __array_wrap__(self, array: Any, context: object = None, return_scalar: bool = False) -> Any:
        """What a function of numpy's has computed from tensors, as a tensor if there is such a dtype."""
        return array if from_numpy_dtype(array.dtype) is None else tensor_of(np.asarray(array))

    def __dlpack__(
        self, *, stream: object = None, max_version: object = None, dl_device: object = None, copy: bool | None = None
    ) -> object:
        """A capsule of the DLPack protocol on the tensor's memory, or on a copy of it."""
        if requires(self):
            fail("G012", "__dlpack__: the tensor requires gradients", hint="call detach() first")
        return exported(self, stream, max_version, dl_device, copy)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The functions of the array API standard. Errors: A002 for a version that they do not follow."""
        valid = api_version is None or api_version in _ARRAY_API_VERSIONS
        require(valid, "A002", "__array_namespace__: no such version of the standard", api_version=api_version)
        return import_module("rushlight.compat.array_api")

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind and index of its device in the DLPack protocol. Errors: M002 without memory."""
        require(self.device is CPU, "M002", "__dlpack_device__: capsules are of memory of the CPU", tensor=self)
        return CPU_DEVICE

    def __bool__(self) -> bool:
        if self.form.numel != 1:
            fail("S015", "bool: the truth of several elements is ambiguous", tensor=self)
        return bool(needed_now(self))

    def __int__(self) -> int:
        return int(needed_now(self))

    def __float__(self) -> float:
        return float(needed_now(self))

    def __complex__(self) -> complex:
        return complex(needed_now(self))

    def __index__(self) -> int:
        require(self.dtype.kind in (Kind.BOOL, Kind.INT), "A001", "only integer tensors can be an index", tensor=self)
        return int(self.item())

    def __pos__(self) -> Self:
        require(self.dtype.kind is not Kind.BOOL, "D001", "positive: not supported for bool", input=self)
        return self

    def __len__(self) -> int:
        if not self.form.shape:
            fail("A001", "len: a tensor without dims has no length")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.form.shape:
            fail("A001", "iter: a tensor without dims cannot be iterated over")
        return iter(self.unbind(0))  # a method, so that subclasses keep their class

    def __reversed__(self) -> Any:
        """The tensor flipped along its first dim, which is what PyTorch's `reversed(x)` gives."""
        return self.flip((0,)) if self.form.shape else self

    def __contains__(self, value: object) -> bool:
        return bool((self == required_operand(value)).any())

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return format_tensor(self, tensor_contents)

    def _repr_html_(self) -> str:
        return import_module("rushlight.eager.printing.html").tensor_html(self, type(self).__name__)

    def __format__(self, spec: str) -> str:
        if self.form.shape and spec:
            fail("A001", "format: a tensor with dims has no format", spec=spec, hint="format its item(), or its text")
        plain = spec or (self.__class__ is adopted() and not self.form.shape and self.backing is not None)
        if not plain:
            return repr(self)
        value = self.item()
        if isinstance(value, Handle):  # which a trace computes
            fail_without_data(self)
        return format(value, spec)


class Tensor(
    ExtremeOverloads,
    SpreadOverloads,
    ShapeOverloads,
    OrderMethods,
    indexing.IndexMethods,
    RandomMethods,
    ConversionOverloads,
    SecondNames,
    CompositeMethods,
    MemoryMethods,
    Autograd,
    Reading,
    GeneratedMethods,
    Handle,
):
    """A strided view of a storage, with PyTorch's methods."""

    __slots__ = ()
    __array_priority__ = 1000

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.class_keys = 0 if cls.__torch_function__ is disabled else FUNCTION
        if cls.class_keys:
            override_methods(cls)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Answer a function on tensors of a subclass: call it as if they were plain, and keep the class.

        Classes define their own, and call this one; `disabled` stands for no answer at all.
        """
        return answer_plainly(cls, func, types, args, kwargs)

    def __new__(cls, *args: object, device: object = None) -> Self:
        """Legacy constructor, as torch.Tensor: of the default dtype, from data, or undefined in a shape.

        `Tensor()` has no elements, `Tensor(2, 3)` and `Tensor(size)` have sizes, `Tensor([1, 2])` has data;
        `Tensor(tensor)` shows the same elements.
        """
        return wrap(made(args, None, device), cls)

    def apply(self, op: Op, args: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        """Dispatches an operator call; SymInts among the attributes become sizes."""
        for value in attrs.values():
            if isinstance(value, (SymInt, tuple)):
                attrs = {name: unwrap_sizes(attr) for name, attr in attrs.items()}
                break
        return super().apply(op, args, attrs)

    @property
    def shape(self) -> Size:
        """The sizes of its dims; SymInts where they are symbols."""
        form = self.form
        return Size([wrap_size(size) for size in form.shape]) if form.symbolic else form.shape

    @property
    def is_meta(self) -> bool:
        """Whether it is on the meta device."""
        return self.device.type == "meta"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return wrap_size(self.form.numel * self.dtype.itemsize)

    def as_subclass(self, cls: type[H]) -> H:
        """The same elements as a tensor of another class, with this tensor's history."""
        require(
            isinstance(cls, type) and issubclass(cls, Tensor), "A001", "as_subclass: not a class of tensors", cls=cls
        )
        return wrap(functions.alias(self), cls)

    def dim(self) -> int:
        """The number of dims."""
        return len(self.form.shape)

    def to_device(self, device: object, /, *, stream: object = None) -> Any:
        """The tensor on a device, as the array API standard asks for it; itself if it is there. Errors: A002."""
        require(stream is None, "A002", "to_device: there are no streams", stream=stream)
        return self.to(device=device)

    def numel(self) -> Any:
        """The number of elements."""
        return wrap_size(self.form.numel)

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def storage_offset(self) -> int:
        """The place of the first element in the storage."""
        return wrap_size(self.offset if STATE.tracer is None else STATE.tracer.offset(self))

    def data_ptr(self) -> int:
        """The address of the first element; 0 where there is none, and without data."""
        return 0 if self.backing is None or not self.form.numel else self.address()

    def is_floating_point(self) -> bool:
        """Whether its dtype is a real floating-point one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether its dtype is complex."""
        return self.dtype.is_complex

    @property
    def real(self) -> Tensor:
        """The real parts, in the same storage; assigned to, they are overwritten."""
        return functions.real(self)

    @real.setter
    def real(self, value: object) -> None:
        functions.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts of a complex tensor, in the same storage; assigned to, they are overwritten.

        Errors: D001 for real tensors.
        """
        return functions.imag(self)

    @imag.setter
    def imag(self, value: object) -> None:
        functions.imag(self).copy_(value)

    def __getattr__(self, name: str) -> Any:
        raise absent_name("rushlight.Tensor", name, dir(type(self)))

    def __getitem__(self, index: object) -> Tensor:
        try:
            return indexing.get(self, index)
        except RushlightError as report:
            name_operation(report, "indexing")
            raise

    def __setitem__(self, index: object, value: object) -> None:
        with called("assignment"):
            indexing.put(self, index, value)

    def __delitem__(self, index: object) -> None:
        fail("A001", "a tensor's elements cannot be deleted", hint="select those to keep, or use cat")

    _make_subclass = staticmethod(make_subclass)
    _make_wrapper_subclass = staticmethod(make_wrapper_subclass)

    def __reduce_ex__(self, protocol: object) -> Any:
        return rebuild_tensor, (type(self), *state_of(self), state_of_object(self))

    @interpreted
    def __deepcopy__(self, memo: dict[int, object]) -> object:
        if id(self) in memo:
            return memo[id(self)]
        require(self.is_leaf, "G012", "deepcopy: only leaves can be copied with their history", tensor=self)
        result = copied(self, memo)
        require_gradient(result, self.requires_grad)
        if self.gradient is not None and self.gradient.grad is not None:
            gradient_of(result).grad = self.gradient.grad.__deepcopy__(memo)
        memo[id(self)] = result
        if type(self) is not Parameter:  # whose copies have no attributes, as in PyTorch
            give_attributes(result, *deepcopy(attributes_of(self), memo))
        return result

    @interpreted
    def __copy__(self) -> Self:
        result = wrap(share(self), type(self))
        require_gradient(result, self.requires_grad and self.is_leaf)
        give_state(result, state_of_object(self))
        return result


class _ByMark(type):
    """`isinstance` asks for the mark too: a parameter of a subclass of tensors keeps its class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or (
            cls is Parameter and isinstance(instance, Tensor) and PARAMETER_MARK in vars(instance)
        )


class Parameter(Tensor, metaclass=_ByMark):
    """A tensor that is a module's parameter: it requires gradients by default.

    One of a subclass of Tensor is of that class, with a mark.
    """

    __torch_function__ = disabled

    def __new__(cls, data: object = None, requires_grad: bool = True) -> Self:
        """On the storage of `data`."""
        base: Any = tensor([]) if data is None else required_tensor(data)
        if base.keys & PYTHON and cls is Parameter:
            marked = base.detach()
            vars(marked)[PARAMETER_MARK] = True
            require_gradient(marked, requires_grad)
            return marked
        foreign = cls is Parameter and not is_own_class(type(base))
        result: Any = wrap(share(base, own_version=False), type(base) if foreign else cls)
        if foreign:
            vars(result)[PARAMETER_MARK] = True
        require_gradient(result, requires_grad)
        return result

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return "Parameter containing:\n" + format_tensor(self, tensor_contents)


def _named_as(cls: type, bases: Iterable[type]) -> None:
    """Lets Python's own errors say `Tensor.sum()` for methods that are written down in other classes."""
    for base in bases:
        for name, value in vars(base).items():
            if isinstance(value, FunctionType):
                value.__qualname__ = f"{cls.__name__}.{name}"


_named_as(Tensor, Tensor.__mro__[1:-1])
adopt(Tensor)
