"""Tensors of modules that are computed from others: a weight as a function of what is trained in its place."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import become
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_UNSAFE = "register with unsafe=True where the parametrization is meant to change it"


class _Cache(NamedTuple):
    """The tensors that a region of `cached` has computed, which began under this tracer or none."""

    tracer: object
    tensors: dict[Module, Tensor]


@contextmanager
def cached() -> Generator[None]:
    """Compute each parametrized tensor once in this region, when it is first read.

    Regions within each other are one. A compiled function that is called within a region keeps none of its tensors.

    ```python
    with parametrize.cached():
        output = rnn(input)
    ```
    """
    outer: _Cache | None = STATE.parametrized
    shared = outer is not None and outer.tracer is STATE.tracer
    with Scope(parametrized=outer if shared else _Cache(STATE.tracer, {})):
        yield


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in the order in which they apply, and what the first applies to.

    That is `original`, or `original0`, `original1` and so on where its `right_inverse` gives several tensors. Calling
    the list gives the parametrized tensor.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        require(len(modules), "A002", "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            inverse = _possible_inverse(self, original)
        self.is_tensor = isinstance(inverse, Tensor)
        self.ntensors = 1 if isinstance(inverse, Tensor) else len(inverse)
        if isinstance(inverse, Tensor):
            _require_alike("right_inverse", inverse, dtype=dtype, device=original.device)
            _show(original, inverse)
            _register(self, "original", original)
        else:
            for at, tensor in enumerate(inverse):
                _register(self, f"original{at}", _like_original(_required(tensor), original))
        if not unsafe:
            _require_alike("a parametrization", self(), dtype=dtype, shape=shape)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{at}") for at in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor becomes `value`, by the inverses."""
        with no_grad():
            for module in reversed([*self]):
                name = type(module).__name__
                require(_inverts(module), "A004", f"parametrization {name} does not implement right_inverse.")
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else value
            several = isinstance(values, Sequence)
            require(several, "A002", f"'right_inverse' must return a sequence of tensors. Got {type(values).__name__}.")
            count = f"{self.ntensors}. Got a sequence of length {len(values)}."
            fits = len(values) == self.ntensors
            require(fits, "A002", f"'right_inverse' must return a sequence of tensors of length {count}")
            originals = self._originals()
            for original, tensor in zip(originals, values, strict=True):
                _require_alike("right_inverse", tensor, dtype=original.dtype)
            for original, tensor in zip(originals, values, strict=True):
                if original.shape == tensor.shape:
                    original.copy_(tensor)
                else:
                    _show(original, tensor)

    def forward(self) -> Any:
        """Return the parametrized tensor."""
        first, *others = self
        result = first(*self._originals())
        for module in others:
            result = module(result)
        return result


def _inverts(module: Module) -> bool:
    return hasattr(type(module), "right_inverse") or "right_inverse" in vars(module)


def _possible_inverse(modules: ParametrizationList, original: Tensor) -> Tensor | Sequence[object]:
    """What the inverses make of a tensor.

    A parametrization without one, or whose inverse is not implemented, counts as its own.
    """
    value: Any = original
    for module in reversed([*modules]):
        if _inverts(module):
            try:
                value = module.right_inverse(value)
            except NotImplementedError:
                continue
    if not isinstance(value, (Tensor, Sequence)):
        _required(value)
    return cast(Any, value)


def _required(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        given = type(value).__name__
        fail("A002", f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {given}")
    return value


def _require_alike(subject: str, tensor: object, **expected: object) -> None:
    """Require that what a function of a parametrization returns is a tensor with some attributes."""
    if not isinstance(tensor, Tensor):
        fail("A002", f"{subject} must return a tensor. Got {type(tensor).__name__}.")
    for name, value in expected.items():
        same = getattr(tensor, name) == value
        require(same, "A002", f"{subject} may not change the {name}: {value}", result=tensor, hint=_UNSAFE)


def _show(original: Tensor, value: Tensor) -> None:
    """Let a parameter be on the memory of a value; it stays the same object, as optimizers need."""
    if value is not original:
        original.data = value.detach()


def _like_original(tensor: Tensor, original: Tensor) -> Tensor:
    if isinstance(original, Parameter):
        return Parameter(tensor, requires_grad=original.requires_grad)
    return tensor.requires_grad_(original.requires_grad)


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _refuse_state(self: object) -> NoReturn:
    """In place of `__getstate__`, which modules have themselves."""
    fail("A004", "Serialization of parametrized modules is only supported through state_dict()")


class _Parametrized:
    """What the class of a parametrized module has besides: such a class belongs to one module alone."""

    __slots__ = ()

    def __deepcopy__(self: Any, memo: dict[int, object]) -> object:
        base = type_before_parametrizations(self)
        become(self, base)  # so that the copy is made as that class wants it
        try:
            replica: Any = copy.deepcopy(self, memo)
        finally:
            become(self, _class_for(base, self.parametrizations))
        become(replica, _class_for(base, replica.parametrizations))
        return replica


def _class_for(base: type, names: ModuleDict) -> type:
    """A class of modules of which some tensors are parametrized."""
    properties = {name: _property_of(name) for name in names}
    namespace = {"__module__": base.__module__, "__getstate__": _refuse_state, **properties}
    return type(f"Parametrized{base.__name__}", (base, _Parametrized), namespace)


def _property_of(name: str) -> property:
    def read(module: Any) -> Any:
        parametrization: Module = module.parametrizations[name]
        cache: _Cache | None = STATE.parametrized
        if cache is None or cache.tracer is not STATE.tracer:
            return parametrization()
        if parametrization not in cache.tensors:
            cache.tensors[parametrization] = parametrization()
        return cache.tensors[parametrization]

    def write(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(read, write)


@checked
def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module from what it was: `module.weight` is `parametrization(original)`.

    Further parametrizations of a tensor apply to what the ones before give. A method `right_inverse(value)` is called
    at once, and at each assignment to the tensor; it may give several tensors, which the first parametrization takes.
    Errors: A002 where the result has another dtype or shape than the tensor, unless `unsafe`.

    ```python
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    parametrize.register_parametrization(layer, "weight", Symmetric())
    ```
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        base = type_before_parametrizations(module)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        cast(ModuleDict, module.parametrizations)[tensor_name] = made
        become(module, _class_for(base, module.parametrizations))
    else:
        kinds = "a parameter, a buffer, or a parametrized element"
        fail("A002", f"Module '{type(module).__name__}' does not have {kinds} with name '{tensor_name}'")
    return module


def _append(module: Any, name: str, parametrization: Any, unsafe: bool) -> None:
    made: ParametrizationList = module.parametrizations[name]
    if unsafe:
        made.unsafe = True
    else:
        now: Tensor = getattr(module, name)
        alike = {"dtype": now.dtype, "shape": now.shape}
        result = parametrization(now)
        _require_alike("a parametrization", result, **alike)
        if _inverts(parametrization):
            _require_alike("right_inverse", parametrization.right_inverse(result), **alike)
    made.append(parametrization)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a tensor of a module is parametrized; without a name, whether any is."""
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


@checked
def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor of a module a plain parameter or buffer again.

    It keeps the values that the parametrizations give, or without `leave_parametrized` those of its original, which
    must be a single tensor.
    """
    name = type(module).__name__
    there = is_parametrized(module, tensor_name)
    require(there, "A002", f"Module {name} does not have a parametrization on {tensor_name}")
    every: Any = module.parametrizations
    made: ParametrizationList = every[tensor_name]
    if made.is_tensor:
        kept = made.original
        if leave_parametrized:
            with no_grad():
                _show(kept, getattr(module, tensor_name))
    else:
        several = "a tensor that is parametrized in terms of a sequence of tensors"
        require(leave_parametrized, "A002", f"Cannot leave unparametrized (`leave_parametrized=False`) {several}.")
        value: Tensor = getattr(module, tensor_name)
        kept = Parameter(value.detach()) if value.requires_grad else value
    base = type_before_parametrizations(module)
    del every[tensor_name]
    if len(every):
        become(module, _class_for(base, every))
    else:
        del module.parametrizations
        become(module, base)
    _register(module, tensor_name, kept)
    return module


def type_before_parametrizations(module: Module) -> type[Any]:
    """Return the class that a module had before any tensor of it was parametrized."""
    kind = type(module)
    return kind.__bases__[0] if issubclass(kind, _Parametrized) else kind


@checked
def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the parametrizations of a module's tensors, or of one, and their originals."""
    if not is_parametrized(from_module):
        return to_module
    every: Any = from_module.parametrizations
    for name in [*every] if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in every[name]:
            register_parametrization(to_module, name, parametrization)
        taken: Any = to_module.parametrizations[name]
        for entry in [*every[name]._parameters, *every[name]._buffers]:
            setattr(taken, entry, getattr(every[name], entry))
    return to_module


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
