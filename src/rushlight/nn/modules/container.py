"""Modules that hold modules or parameters in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, TypeVar, cast, overload

from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.modules.module import Module, indented
from rushlight.support.errors import error, fail, require, warn

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

T = TypeVar("T")


Entries = Mapping[str, T] | Iterable[tuple[str, T]]


class _Numbered(Module):
    """Entries of one of the tables under the names "0", "1", and so on."""

    _table = "_modules"

    def _entries(self) -> dict[str, Any]:
        return self.__dict__[self._table]

    def _name_at(self, index: SupportsIndex) -> str:
        at, size = operator.index(index), len(self)
        require(-size <= at < size, "I001", f"{type(self).__name__}: index {at} is out of range for {size} entries")
        return str(at % size)

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries().values())

    def __setitem__(self, index: SupportsIndex, value: Any) -> None:
        setattr(self, self._name_at(index), value)

    def _replace(self, values: Iterable[object]) -> None:
        entries = self._entries()
        entries.clear()
        for index, value in enumerate(values):
            setattr(self, str(index), value)


class Sequential(Module):
    """Modules called one after the other, each with the result of the one before."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in cast(Mapping[str, Module], args[0]).items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def forward(self, input: Any) -> Any:
        """Run all modules in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: SupportsIndex) -> str:
        at, size = operator.index(index), len(self)
        require(-size <= at < size, "I001", f"Sequential: index {at} is out of range for {size} modules")
        return list(self._modules)[at]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        kept = list(self._modules.values())
        if all(name.isdigit() for name in self._modules):
            self._modules.clear()
            self._modules.update({str(at): module for at, module in enumerate(kept)})

    def __add__(self, other: Iterable[Module]) -> Self:
        return type(self)(*self, *other)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before a place."""
        modules = list(self._modules.values())
        fits = -len(modules) <= index <= len(modules)
        require(fits, "I001", f"Sequential: no place {index} among {len(modules)} modules")
        modules.insert(index, module)
        self._modules.clear()
        self._modules.update({str(at): one for at, one in enumerate(modules)})
        return self

    def __mul__(self, times: int) -> Self:
        """The modules one after the other, so many times: the same ones, as of a list."""
        return type(self)(*self).__imul__(times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        require(times > 0, "A002", "Sequential: how often must be at least once", times=times)
        return self.extend(list(self) * (times - 1))

    def pop(self, key: int | slice) -> Module:
        """Take a module out."""
        removed = self[key]
        del self[key]
        return removed


class Container(Module):
    """A module with the submodules that are given by name; Module itself has taken its place."""

    def __init__(self, **kwargs: Module | None) -> None:
        super().__init__()
        warn("A009", "nn.Container is deprecated", key="Container", hint="derive the class from nn.Module")
        for name, module in kwargs.items():
            self.add_module(name, module)


class ModuleList(_Numbered):
    """A list of modules, which are registered."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        modules = list(self)
        del modules[index]
        self._replace(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def append(self, module: Module | None) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if isinstance(modules, Module) and not hasattr(modules, "__iter__"):
            fail("A001", f"ModuleList.extend: takes modules, not one {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before a place."""
        modules = list(self)
        modules.insert(index, module)
        self._replace(modules)

    def pop(self, key: int | slice) -> Module:
        """Take a module out."""
        removed = self[key]
        del self[key]
        return removed

    def _repr_of_children(self) -> list[str]:
        """Equal neighbours are printed once: `(0-3): 4 x Linear(...)`."""
        runs: list[tuple[int, int, str]] = []
        for at, text in enumerate([repr(module) for module in self]):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], at, text)
            else:
                runs.append((at, at, text))
        return [
            f"({first}-{last}): {last - first + 1} x {indented(text)}"
            if last > first
            else f"({first}): {indented(text)}"
            for first, last, text in runs
        ]


class ModuleDict(Module):
    """Modules by name, which are registered."""

    def __init__(self, modules: Entries[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        if key not in self._modules:
            fail("A007", f"ModuleDict: there is no module {key}")
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out."""
        removed = self[key]
        del self[key]
        return removed

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs of name and module."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Entries[Module]) -> None:
        """Add modules from a mapping or from pairs."""
        for name, module in pairs_of(modules, "ModuleDict"):
            self[name] = module


class ParameterList(_Numbered):
    """A list of parameters, which are registered; tensors become parameters."""

    _table = "_parameters"

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Parameter: ...
    def __getitem__(self, index: SupportsIndex | slice) -> object:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._parameters[self._name_at(index)]

    def __setitem__(self, index: SupportsIndex, value: Tensor) -> None:
        super().__setitem__(index, _parameter(value))

    def __iadd__(self, values: Iterable[Tensor]) -> Self:
        return self.extend(values)

    def append(self, value: Tensor) -> Self:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add parameters at the end."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return a line for each parameter."""
        return "\n".join([f"({name}): {_described(param)}" for name, param in self._parameters.items()])


class ParameterDict(Module):
    """Parameters by name, which are registered; tensors become parameters, others stay."""

    def __init__(self, parameters: Entries[Any] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            fail("A007", f"ParameterDict: there is no parameter {key}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        require(isinstance(key, str), "A001", "ParameterDict: names are texts", name=key)
        setattr(self, key, _parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        if key not in self._keys:
            fail("A007", f"ParameterDict: there is no parameter {key}")
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(list(other.items()))
        return result

    def copy(self) -> ParameterDict:
        """Return another one of the same parameters."""
        return ParameterDict(list(self.items()))

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of name and value."""
        return [(name, self[name]) for name in self._keys]

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [self[name] for name in self._keys]

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of a name, or the default where there is none."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value of a name, which is the default from now on where there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a name; return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last name; return it with its value."""
        if not self._keys:
            fail("A007", "ParameterDict: there is no parameter left")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all names."""
        for key in list(self._keys):
            del self[key]

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return another one of these names, all with one value."""
        return ParameterDict([(key, default) for key in keys])

    def update(self, parameters: Entries[Any]) -> None:
        """Add parameters from a mapping or from pairs."""
        for name, value in pairs_of(parameters, "ParameterDict"):
            self[name] = value

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join([f"  ({key}): {_described(value)}" for key, value in self.items()])


def pairs_of(given: Any, name: str) -> list[tuple[str, Any]]:
    """The pairs of name and value of a mapping, or of a sequence of pairs; A001 for anything else."""
    try:
        return [(key, value) for key, value in (given.items() if hasattr(given, "items") else given)]
    except Exception as cause:
        raise error("A001", f"{name}: a dict, or pairs of name and value, is expected", given=given) from cause


def _parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(param: Any) -> str:
    if not isinstance(param, Tensor):
        return f"Object of type: {type(param).__name__}"
    size = "x".join([str(size) for size in param.shape])
    return f"Parameter containing: [{param.dtype} of size {size}]"
