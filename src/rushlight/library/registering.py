"""`torch.library`'s functions and `Library`: what is registered for an operator by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.ir.dtype import DType
from rushlight.library.calls import FakeContext, Rule, context_of_fake
from rushlight.library.operators import CustomOpDef, Devices, Overload, operator_of
from rushlight.library.schemas import infer_schema
from rushlight.support.errors import fail, require

F = TypeVar("F", bound=Callable[..., object])
_KEYS = {"autogradcpu": "autograd", "autograd": "autograd", "meta": "meta"}


class Library:
    """A namespace in which `define` makes operators and `impl` registers what they do. As torch.library.Library.

    What is made through it is taken back by `_destroy()`, or at the end of a `with` block.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        require(kind in ("DEF", "IMPL", "FRAGMENT"), "A002", "Library: the kind is DEF, IMPL or FRAGMENT", kind=kind)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[CustomOpDef] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Makes an operator, `name(Tensor x, ...) -> Tensor`; returns its name. Errors: A010, A011."""
        require(self.kind != "IMPL", "A011", "Library.define: a library of kind IMPL defines nothing")
        name, parenthesis, rest = schema.partition("(")
        name = name.strip().rpartition("::")[2]
        self._made.append(CustomOpDef(f"{self.ns}::{name.partition('.')[0]}", parenthesis + rest, tags=tags))
        return name

    def impl(self, op_name: object, fn: F, dispatch_key: str = "", *, with_keyset: bool = False) -> F:
        """Registers what runs at a key: a device, `Autograd`, `AutocastCPU`, `Meta`, `CompositeImplicitAutograd`."""
        if with_keyset:
            fail("A006", "Library.impl: functions do not get a set of keys", hint="leave out with_keyset")
        operator = operator_of(op_name if isinstance(op_name, CustomOpDef | Overload) else self._name(str(op_name)))
        key = (dispatch_key or self.dispatch_key).lower()
        if _KEYS.get(key) == "meta":
            operator.register_fake(fn)
        elif _KEYS.get(key) == "autograd":
            operator.register_recorder(fn)
        elif key.startswith("autocast"):
            operator.register_autocast_kernel(key.removeprefix("autocast") or "cpu", fn)
        else:
            operator.register_kernel(key or None, fn)
        return fn

    def _name(self, name: str) -> str:
        return name if "::" in name else f"{self.ns}::{name}"

    def _register_fake(self, op_name: object, fn: F, _stacklevel: int = 1, *, allow_override: bool = False) -> F:
        """Registers a fake kernel. With `allow_override` it replaces one that is registered."""
        return register_fake(self._name(str(op_name)), fn, _stacklevel=_stacklevel, allow_override=allow_override)

    def _destroy(self) -> None:
        """Takes all operators back that this library defined."""
        for operator in self._made:
            operator.remove()
        self._made.clear()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self._destroy()


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: object = ()) -> None:
    """Makes an operator `namespace::name` with a schema that begins with its parenthesis. Errors: A010, A011."""
    name = qualname if lib is None or "::" in qualname else f"{lib.ns}::{qualname}"
    CustomOpDef(name, schema, tags=tags)


def impl(qualname: object, types: Devices, func: Any = None, *, lib: Library | None = None) -> Any:
    """Registers a kernel for kinds of devices, or for all by "default". Without a function a decorator.

    With a Library first it is `lib.impl`: a name in its namespace, then a key.
    """
    if isinstance(qualname, Library):
        name, key = str(types), "" if func is None else str(func)
        return lambda function: qualname.impl(name, function, key)
    return operator_of(qualname).register_kernel(types, func)


def register_kernel(
    op: object, device_types: Devices, func: Rule | None = None, /, *, lib: Library | None = None
) -> Any:
    """Registers what runs on kinds of devices; None is all. A decorator without a function."""
    return operator_of(op).register_kernel(device_types, func)


def register_fake(
    op: object,
    func: Rule | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Registers how types follow from types; a decorator without a function. See CustomOpDef.register_fake."""
    operator = operator_of(op)
    if allow_override:
        operator.forget_fake()
    return operator.register_fake if func is None else operator.register_fake(func)


def register_autograd(
    op: object, backward: Rule, /, *, setup_context: Rule | None = None, lib: Library | None = None
) -> None:
    """Registers a derivative. See CustomOpDef.register_autograd."""
    operator_of(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: object, func: Rule | None = None, /, *, lib: Library | None = None) -> Any:
    """Registers a rule for batches; a decorator without a function. See CustomOpDef.register_vmap."""
    return operator_of(op).register_vmap(func)


def register_autocast(op: object, device_type: str, cast_inputs: DType, /, *, lib: Library | None = None) -> None:
    """Says to what autocast casts operands. See CustomOpDef.register_autocast."""
    operator_of(op).register_autocast(device_type, cast_inputs)


def register_torch_dispatch(
    op: object, torch_dispatch_class: type, func: Rule | None = None, /, *, lib: Library | None = None
) -> Any:
    """Registers what a mode or a subclass does with an operator. See CustomOpDef.register_torch_dispatch."""
    return operator_of(op).register_torch_dispatch(torch_dispatch_class, func)


def get_ctx() -> FakeContext:
    """In a fake kernel: what makes sizes that only a run tells, `get_ctx().new_dynamic_size()`. Errors: A006.

    >>> @nonzero.register_fake
    ... def _(x):
    ...     return x.new_empty(get_ctx().new_dynamic_size(), x.ndim, dtype=rl.int64)
    """
    return context_of_fake()


def triton_op(
    name: str, fn: Rule | None = None, /, *, mutates_args: str | Sequence[str], schema: str | None = None
) -> Any:
    """Defines an operator by a function of others, which is called and traced as it is written."""

    def make(function: Rule) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(name, text, function.__doc__ or "")
        made.register_kernel("CompositeImplicitAutograd", function)
        return made

    return make if fn is None else make(fn)
