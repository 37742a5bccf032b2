"""Registry: which of a module's attributes are parameters, buffers and submodules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rushlight.eager.boundary import Constructed, checked
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.tree.buffer import Buffer
from rushlight.support.errors import error, fail, require
from rushlight.support.names import did_you_mean

TABLES = ("_parameters", "_buffers", "_modules")

NO_HOOKS: Mapping[int, Any] = MappingProxyType({})
"""The table of hooks of modules that have none: one of its own is made with the first."""


class Registry(Constructed):
    """Attributes by kind. Assigning a Parameter or a module registers it; a buffer's name keeps a tensor a buffer."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  # modules, whose class is further up, or None
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        # Not plain assignments: those look in the tables that are made here.
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set())

    def _hooks_to_fill(self, table: str) -> dict[int, Any]:
        return self.__dict__.setdefault(table, {})

    def __getattr__(self, name: str) -> Any:
        for table in TABLES:
            entries = self.__dict__.get(table)
            if entries is not None and name in entries:
                return entries[name]
        if name.startswith("__"):  # protocols ask for these all the time: no search for the nearest name
            raise AttributeError(name)
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property whose getter has failed: its own error says why
        hint = did_you_mean(name, self.__dir__())
        raise error("N002", f"{type(self).__name__} has no attribute {name}", hint=hint)

    def __setattr__(self, name: str, value: object) -> None:
        tables = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, ("_buffers", "_modules"))
            self.register_parameter(name, value)
        elif isinstance(value, Registry):
            self._forget(name, ("_parameters", "_buffers"))
            self._require_initialised("module")
            tables["_modules"][name] = value
        elif name in tables.get("_parameters", ()):
            require(
                value is None, "A001", f"cannot assign {type(value).__name__} as parameter {name}: Parameter or None"
            )
            self.register_parameter(name, None)
        elif name in tables.get("_modules", ()):
            require(
                value is None, "A001", f"cannot assign {type(value).__name__} as child module {name}: Module or None"
            )
            tables["_modules"][name] = None
        elif isinstance(value, Buffer):
            self._forget(name, ())
            self.register_buffer(name, value, vars(value)["persistent"])
        elif name in tables.get("_buffers", ()):
            fits = value is None or isinstance(value, Tensor)
            require(fits, "A001", f"cannot assign {type(value).__name__} as buffer {name}: Tensor or None")
            tables["_buffers"][name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> Iterable[str]:
        names = {*super().__dir__()}
        for table in TABLES:
            names |= {*self.__dict__.get(table, ())}
        return sorted(name for name in names if name and not name[0].isdigit())

    @checked
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name without a parameter."""
        self._require_initialised("parameter")
        self._require_free(name, "_parameters")
        fits = param is None or isinstance(param, Parameter)
        require(fits, "A001", f"register_parameter: {name} is a {type(param).__name__}, not a Parameter or None")
        leaf = param is None or param.grad_fn is None
        require(leaf, "A002", f"register_parameter: {name} was computed, so it cannot be a parameter")
        self._parameters[name] = param

    @checked
    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; it is in the state dict unless `persistent` is False."""
        self._require_initialised("buffer")
        self._require_free(name, "_buffers")
        fits = tensor is None or isinstance(tensor, Tensor)
        require(fits, "A001", f"register_buffer: {name} is a {type(tensor).__name__}, not a Tensor or None")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    @checked
    def add_module(self, name: str, module: Registry | None) -> None:
        """Add a submodule under a name."""
        self._require_initialised("module")
        fits = module is None or isinstance(module, Registry)
        require(fits, "A001", f"add_module: {name} is a {type(module).__name__}, not a Module or None")
        self._require_free(name, "_modules")
        self._modules[name] = module

    def register_module(self, name: str, module: Registry | None) -> None:
        """Another name of add_module."""
        self.add_module(name, module)

    def _require_initialised(self, kind: str) -> None:
        if "_parameters" not in self.__dict__:
            fail(
                "N002",
                f"cannot assign a {kind} before Module.__init__() was called",
                hint="call super().__init__() first",
            )

    def _require_free(self, name: str, table: str) -> None:
        require(isinstance(name, str), "A001", f"a name must be a string, not {type(name).__name__}")
        require(bool(name) and "." not in name, "A007", f"a name must not be empty or contain a dot: {name!r}")
        others = [self.__dict__, *[self.__dict__[other] for other in TABLES if other != table]]
        # Not hasattr of the instance: what it looks for is nearly always missing, and an error with a hint is dear.
        taken = name not in self.__dict__[table] and (hasattr(type(self), name) or any(name in one for one in others))
        require(not taken, "A007", f"{type(self).__name__} already has an attribute {name}")

    def _forget(self, name: str, tables: tuple[str, ...]) -> None:
        for table in tables:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
        self.__dict__.pop(name, None)
        self.__dict__.get("_non_persistent_buffers_set", set[str]()).discard(name)
