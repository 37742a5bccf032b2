"""`torch.library`: operators that a program defines in Python, called as they are, and traced with their callers.

What is registered for a CPU, or for any device, is what a call runs. Implementations for other devices and types are
accepted and never asked for: `register_fake` tells shapes that a trace of the function tells as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.autograd import Function
from rushlight.torch.passing import refuse, say_passed

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)
Devices = str | Sequence[str] | None

_ASKED = ("", "cpu", "default", "compositeimplicitautograd", "compositeexplicitautograd", "types")
_TRACED = "the operator is traced as its function is"


class CustomOpDef:
    """An operator of a program: `namespace::name`, called like the function that was registered for it."""

    def __init__(self, name: str) -> None:
        self._qualname = name
        self.__name__ = name.partition("::")[2]
        self.function: Rule | None = None
        self.backward: Rule | None = None
        self.setup_context: Rule | None = None

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: it has one overload."""
        return self

    def overloads(self) -> list[str]:
        """Return the names of overloads."""
        return ["default"]

    def __call__(self, *args: object, **options: object) -> object:
        """Call the function; with the derivative that was registered for it, if there is one."""
        if self.function is None:
            refuse(f"torch.ops.{self._qualname.replace('::', '.')}", "no function is registered for it on the CPU")
        if self.backward is None:
            return self.function(*args, **options)
        return self._differentiable().apply(*args, *options.values())

    def _differentiable(self) -> type[Function]:
        function, backward, setup = self.function, self.backward, self.setup_context
        assert function is not None and backward is not None

        class Differentiable(Function):
            @staticmethod
            def forward(ctx: object, *args: object) -> object:
                output = function(*args)
                if setup is not None:
                    setup(ctx, args, output)
                return output

            @staticmethod
            def backward(ctx: object, *gradients: object) -> object:
                return backward(ctx, *gradients)

        return Differentiable

    def register_fake(self, function: F, /) -> F:
        """Accept how shapes follow from shapes; the function itself is traced."""
        say_passed("torch.library.register_fake", _TRACED)
        return function

    def register_kernel(self, device_types: Devices, func: Rule | None = None, /) -> object:
        """Register a function for devices; those for other devices than the CPU are never called."""
        return register_kernel(self._qualname, device_types, func)

    def register_autograd(self, backward: Rule, /, *, setup_context: Rule | None = None) -> None:
        """Register the derivative."""
        self.backward, self.setup_context = backward, setup_context

    def register_vmap(self, func: Rule | None = None) -> object:
        """Accept a rule for batches; calls under vmap batch the operators of the function."""
        return register_vmap(self._qualname, func)

    def register_autocast(self, device_type: str, cast_inputs: object) -> None:
        """Accept a dtype for autocast; the operators of the function follow their own policies."""
        register_autocast(self._qualname, device_type, cast_inputs)


OPERATORS: dict[str, CustomOpDef] = {}


def _operator(name: object) -> CustomOpDef:
    if isinstance(name, CustomOpDef):
        return name
    qualified = str(name).partition("(")[0].partition(".")[0]
    return OPERATORS.setdefault(qualified, CustomOpDef(qualified))


def _asked_for(devices: Devices) -> bool:
    listed = (devices or "",) if isinstance(devices, str) or devices is None else devices
    return any(device.lower() in _ASKED for device in listed)


def custom_op(
    name: str,
    fn: Rule | None = None,
    /,
    *,
    mutates_args: str | Sequence[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: object = None,
) -> object:
    """Define an operator by a function; a decorator where no function is given."""

    def register(function: Rule) -> CustomOpDef:
        operator = _operator(name)
        if _asked_for(device_types):
            operator.function = function
        return operator

    return register if fn is None else register(fn)


def triton_op(
    name: str, fn: Rule | None = None, /, *, mutates_args: str | Sequence[str], schema: str | None = None
) -> object:
    """Define an operator by a function, which is called on the CPU as any other."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: object, /) -> object:
    """Raise A006."""
    refuse("torch.library.wrap_triton", "kernels are made by the compiler here")


def define(qualname: str, schema: str, *, lib: object = None, tags: object = ()) -> None:
    """Make the name of an operator known."""
    _operator(qualname)


def impl(qualname: object, types: Devices, func: Rule | None = None, *, lib: object = None) -> object:
    """Register a function for devices; a decorator where no function is given."""
    return register_kernel(qualname, types, func)


def register_kernel(op: object, device_types: Devices, func: Rule | None = None, /, *, lib: object = None) -> object:
    """Register a function for devices; those for other devices than the CPU are never called."""

    def register(function: F) -> F:
        if _asked_for(device_types):
            _operator(op).function = function
        return function

    return register if func is None else register(func)


def register_fake(
    op: object,
    func: Rule | None = None,
    /,
    *,
    lib: object = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> object:
    """Accept how shapes follow from shapes; the function itself is traced."""
    say_passed("torch.library.register_fake", _TRACED)
    return (lambda function: function) if func is None else func


def register_autograd(op: object, backward: Rule, /, *, setup_context: Rule | None = None, lib: object = None) -> None:
    """Register the derivative of an operator."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: object, func: Rule | None = None, /, *, lib: object = None) -> object:
    """Accept a rule for batches; calls under vmap batch the operators of the function."""
    say_passed("torch.library.register_vmap", _TRACED)
    return (lambda function: function) if func is None else func


def register_autocast(op: object, device_type: str, cast_inputs: object, /, *, lib: object = None) -> None:
    """Accept a dtype for autocast; the operators of the function follow their own policies."""
    say_passed("torch.library.register_autocast", "operators within the function follow their own policies")


def register_torch_dispatch(
    op: object, torch_dispatch_class: object, func: Rule | None = None, /, **options: object
) -> object:
    """Raise A006."""
    refuse("torch.library.register_torch_dispatch", "operators of programs see no dispatch mode")


def opcheck(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.library.opcheck", "use autograd.gradcheck, and compare with what the operator should give")


def get_ctx() -> object:
    """Raise A006."""
    refuse("torch.library.get_ctx", "what is registered by register_fake is not called")


def fallthrough_kernel(*args: object) -> object:
    """Raise A006."""
    refuse("torch.library.fallthrough_kernel", "there are no kernels by key")


class Library:
    """A namespace: `define` names its operators and `impl` registers functions for them."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Make the name of an operator known, and return it."""
        name = schema.partition("(")[0].strip()
        _operator(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: object, fn: F, dispatch_key: str = "", *, with_keyset: bool = False) -> F:
        """Register a function for a key; those for other devices than the CPU are never called."""
        if with_keyset:
            refuse("torch.library.Library.impl with a set of keys", "functions see no dispatcher")
        operator = op_name if isinstance(op_name, CustomOpDef) else f"{self.ns}::{str(op_name).rpartition('::')[2]}"
        register_kernel(operator, dispatch_key or self.dispatch_key, fn)
        return fn
