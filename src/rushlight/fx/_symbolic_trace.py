"""Tracing a module or function by calling it with proxies."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, MethodType

from rushlight.eager.tensor import Parameter, Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, map_aggregate
from rushlight.fx.proxy import ParameterProxy, Proxy, TracerBase
from rushlight.nn import Module, Sequential
from rushlight.support.errors import fail, require

__all__ = ["ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_wrapped: dict[tuple[int, str], dict[str, Argument]] = {}  # the globals of functions that are not looked into, by name
_tracing: list[Tracer] = []


def is_fx_tracing() -> bool:
    """Return whether a function is being traced by proxies."""
    return bool(_tracing)


def current_tracer() -> Tracer | None:
    """Return what traces now, if anything does."""
    return _tracing[-1] if _tracing else None


def wrap(fn_or_name: str | Callable[..., Argument]) -> Argument:
    """Let calls of a function of the calling module be one node: call it at the module's top level, or decorate."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    namespace = sys._getframe(1).f_globals
    _wrapped[id(namespace), name] = namespace
    return fn_or_name


def _recording(function: Callable[..., Argument]) -> Callable[..., Argument]:
    """A function that becomes a node where an argument is a proxy."""

    @functools.wraps(function)
    def call(*args: Argument, **kwargs: Argument) -> Argument:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda leaf: proxies.append(leaf) if isinstance(leaf, Proxy) else None)
        if not proxies:
            return function(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_function", function, args, kwargs)

    return call


class Tracer(TracerBase):
    """Traces a module by calling it with proxies; subclasses decide what becomes a node.

    Modules of `rl.nn` are nodes, unless `is_leaf_module` says otherwise; others are looked into. Functions in
    `autowrap_functions`, and those of `autowrap_modules`, are nodes where an argument is a proxy.
    """

    root: Module

    def __init__(
        self,
        autowrap_modules: tuple[Argument, ...] = (),
        autowrap_functions: tuple[Callable[..., Argument], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self.autowrap = [(vars(module), name) for module in autowrap_modules for name in _functions_of(module)]
        self.autowrap_functions = autowrap_functions
        self.param_shapes_constant = param_shapes_constant
        self.proxy_buffer_attributes = False
        self.submodule_paths: dict[Module, str] = {}
        self.tensor_attrs: dict[int, str] = {}
        self._parameters: dict[str, Argument] = {}

    # -------------------------------------------------- what subclasses change

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a call of the module is one node."""
        return type(m).__module__.startswith("rushlight.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the dotted name of a module within the root."""
        path = self.submodule_paths.get(mod)
        if path is None:
            fail(
                "A001",
                "fx: a module that is called is not part of the module that is traced",
                module=type(mod).__name__,
            )
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Argument], args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Decide what a call of a module becomes: a node, or the nodes of its own calls."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Argument, parameter_proxy_cache: dict[str, Argument]) -> Argument:
        """Return what an attribute of a module is to the function: for parameters a proxy."""
        name = self.tensor_attrs.get(id(attr_val))
        if name is None or not (self.proxy_buffer_attributes or isinstance(attr_val, Parameter)):
            return attr_val
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self._attribute(name, attr_val)
        return parameter_proxy_cache[name]

    def _attribute(self, name: str, value: object) -> Argument:
        if not self.param_shapes_constant:
            return self.create_proxy("get_attr", name, (), {})
        return self.create_proxy(
            "get_attr", name, (), {}, proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value)
        )

    def create_arg(self, a: Argument) -> Argument:
        """Return an argument of a node for a value: modules' tensors become nodes, others are kept as constants."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, value: Argument) -> Argument:
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, Tensor):
            name = self.tensor_attrs.get(id(value)) or self._constant(value)
            return self.create_node("get_attr", name, (), {})
        if isinstance(value, Module):
            return self.create_node("get_attr", self.path_of_module(value), (), {})
        return value

    def _constant(self, tensor: Argument) -> str:
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        name = f"_tensor_constant{number}"
        setattr(self.root, name, tensor)
        self.tensor_attrs[id(tensor)] = name
        return name

    # ----------------------------------------------------------------- tracing

    def create_args_for_root(
        self, root_fn: Callable[..., Argument], is_module: bool, concrete_args: dict[str, Argument] | None = None
    ) -> tuple[Callable[..., Argument], list[Argument]]:
        """Add an input for each argument; return the function and what it is called with."""
        given = concrete_args or {}
        args: list[Argument] = [self.root] if is_module else []
        parameters = list(inspect.signature(root_fn).parameters.values())[len(args) :]
        keywords: dict[str, Argument] = {}
        for parameter in parameters:
            value = given[parameter.name] if parameter.name in given else self._input(parameter)
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords["**"] = value
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args.append(_Starred(value))
            else:
                args.append(value)
        return functools.partial(_called, root_fn, keywords), args

    def _input(self, parameter: inspect.Parameter) -> Argument:
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = () if parameter.default is parameter.empty else (parameter.default,)
        kind = None if parameter.annotation is parameter.empty else parameter.annotation
        if isinstance(kind, str):
            kind = None
        return self.create_proxy("placeholder", stars + parameter.name, default, {}, type_expr=kind)

    def trace(self, root: Module | Callable[..., Argument], concrete_args: dict[str, Argument] | None = None) -> Graph:
        """Return the graph of a call of a module or function; arguments in `concrete_args` are these values."""
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            require(callable(root), "A001", "fx: a module or function is traced", given=type(root).__name__)
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {id(tensor): name for name, tensor in _tensors_of(self.root)}
        traced, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with self._patched():
            result = traced(*args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        self.submodule_paths = {}
        return self.graph

    @contextmanager
    def _patched(self) -> Generator[None]:
        """While inside, calls of modules, reads of parameters and calls of wrapped functions come here."""
        call, read = Module.__call__, Module.__getattr__
        cache: dict[str, Argument] = {}

        def call_module(module: Module, *args: Argument, **kwargs: Argument) -> Argument:
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def read_attribute(module: Module, name: str) -> Argument:
            return self.getattr(name, read(module, name), cache)

        with ExitStack() as stack:
            for function in self.autowrap_functions:
                for namespace in (function.__globals__,) if isinstance(function, FunctionType) else ():
                    _wrapped.setdefault((id(namespace), function.__name__), namespace)
            for namespace, name in [*[(space, key[1]) for key, space in _wrapped.items()], *self.autowrap]:
                before = namespace.get(name, getattr(sys.modules["builtins"], name, None))
                if callable(before):
                    stack.callback(_restore, namespace, name, namespace.get(name, _ABSENT))
                    namespace[name] = _recording(before)
            stack.callback(_tracing.pop)
            _tracing.append(self)
            stack.callback(_assign, call, read)
            _assign(call_module, read_attribute)
            yield


_ABSENT = object()


def _assign(call: Argument, read: Argument) -> None:
    Module.__call__ = call
    Module.__getattr__ = read


def _restore(namespace: dict[str, Argument], name: str, value: object) -> None:
    if value is _ABSENT:
        namespace.pop(name, None)
    else:
        namespace[name] = value


def _functions_of(module: Argument) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


class _Starred:
    """Stands for a function's further positional arguments."""

    def __init__(self, value: Argument) -> None:
        self.value = value


def _called(function: Callable[..., Argument], keywords: dict[str, Argument], *args: Argument) -> Argument:
    plain = [arg for arg in args if not isinstance(arg, _Starred)]
    rest = next((arg.value for arg in args if isinstance(arg, _Starred)), None)
    names = {name: value for name, value in keywords.items() if name != "**"}
    code = function.__func__ if isinstance(function, MethodType) else function
    if rest is None and "**" not in keywords:
        return function(*plain, **names)
    require(isinstance(code, FunctionType), "A006", "fx: only functions of Python may take any number of arguments")
    return _with_stars(function, plain, names, rest, keywords.get("**"))


def _with_stars(
    function: Callable[..., Argument],
    plain: list[Argument],
    names: dict[str, Argument],
    rest: Argument,
    options: Argument,
) -> Argument:
    """Calls a function whose `*args` and `**kwargs` are proxies: by a copy that takes them as plain parameters."""
    source: Argument = function.__func__ if isinstance(function, MethodType) else function
    code = source.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = code.co_argcount
    stars = [value for value in (rest, options) if value is not None]
    keywords = code.co_kwonlyargcount
    made = FunctionType(
        code.replace(co_flags=flags, co_argcount=count + keywords + len(stars), co_kwonlyargcount=0),
        source.__globals__,
        source.__name__,
        source.__defaults__ if not keywords else None,
        source.__closure__,
    )
    order = [names[name] for name in code.co_varnames[count : count + keywords]]
    return made(*plain, *order, *stars)


def _tensors_of(root: Module) -> Iterator[tuple[str, Argument]]:
    for path, module in root.named_modules():
        prefix = f"{path}." if path else ""
        for name, value in [*vars(module).items(), *module._buffers.items(), *module._parameters.items()]:
            if isinstance(value, Tensor):
                yield prefix + name, value


class ProxyableClassMeta(type):
    """The metaclass of classes that may be made of proxies while a function is traced."""


def symbolic_trace(
    root: Module | Callable[..., Argument], concrete_args: dict[str, Argument] | None = None
) -> GraphModule:
    """Return a module that does what a module or function does, as a graph of the calls that it makes.

    module = rl.fx.symbolic_trace(rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.ReLU()))
    print(module.graph)
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name if name.isidentifier() else "GraphModule")
