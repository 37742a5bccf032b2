"""Backends that compile forward and backward graphs, by PyTorch's names: those of `torch._functorch.aot_autograd`.

A backend of `rl.compile` that is a function gets forward graphs. One that `aot_autograd` makes, or that returns what
`aot_module_simplified` gives, gets the graphs of backward passes too:

```python
import rushlight as rl
from rushlight.compiler.aot_autograd import aot_autograd, make_boxed_func

seen = []

def compiler(module, inputs):
    seen.append(module.code)
    return make_boxed_func(module.forward)

step = rl.compile(lambda x: (x * x).sum(), backend=aot_autograd(fw_compiler=compiler))
step(rl.ones(3, requires_grad=True)).backward()
```
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.capture import compile
from rushlight.capture.backends import is_given
from rushlight.compiler.partition import default_partition, min_cut_rematerialization_partition
from rushlight.eager.boundary import checked
from rushlight.eager.handle import Handle
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.graph_module import GraphModule
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "AotAutograd",
    "aot_autograd",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "default_partition",
    "make_boxed_compiler",
    "make_boxed_func",
    "min_cut_rematerialization_partition",
    "nop",
]

Function = Callable[..., object]
Compiler = Callable[[GraphModule, list[object]], Function]
Decompositions = Mapping[object, Function]


@checked
def make_boxed_func(f: Function) -> Callable[[list[object]], object]:
    """Return a function of a list of arguments, which it empties: they live no longer than `f` needs."""

    def call(args: list[object]) -> object:
        given = tuple(args)
        args.clear()
        return f(*given)

    made: Any = call
    made._boxed_call = True
    return made


@checked
def make_boxed_compiler(compiler: Compiler) -> Compiler:
    """Return a compiler whose functions take a list of arguments."""

    @functools.wraps(compiler)
    def compile_boxed(module: GraphModule, inputs: list[object]) -> Function:
        function = compiler(module, inputs)
        return function if getattr(function, "_boxed_call", False) else make_boxed_func(function)

    return compile_boxed


@make_boxed_compiler
def nop(module: GraphModule, inputs: list[object]) -> Function:
    """Return the graph itself, which runs operator by operator: a compiler that does nothing."""
    return module


class AotAutograd:
    """A backend of `rl.compile` that compiles forward and backward graphs.

    Without a `bw_compiler` the `fw_compiler` gets both. `partition_fn` is one of the two of `rl.compiler.partition`.
    `decompositions` has what takes the place of operators, as for `make_fx`.
    """

    @checked
    def __init__(
        self,
        *,
        fw_compiler: Compiler,
        bw_compiler: Compiler | None = None,
        inference_compiler: Compiler | None = None,
        partition_fn: Function = default_partition,
        decompositions: Decompositions | None = None,
        keep_inference_input_mutations: bool = False,
    ) -> None:
        self.forward_compiler = _decomposing(fw_compiler, decompositions)
        self.backward_compiler = _decomposing(bw_compiler or fw_compiler, decompositions)
        self.recomputes = _recomputes(partition_fn)

    def __call__(self, module: GraphModule, inputs: list[object]) -> Function:
        """Compile a forward graph."""
        return self.forward_compiler(module, inputs)


def _recomputes(partition_fn: Function) -> bool:
    named = partition_fn.func if isinstance(partition_fn, functools.partial) else partition_fn
    known = (default_partition, min_cut_rematerialization_partition)
    require(
        named in known,
        "A006",
        "aot_autograd: a joint graph is parted by default_partition or min_cut_rematerialization_partition",
        given=named,
        hint="make the joint graph by make_fx of func.vjp, and part that",
    )
    return named is min_cut_rematerialization_partition


def _decomposing(compiler: Compiler, table: Decompositions | None) -> Compiler:
    """The compiler, of graphs without the operators in the table."""
    if not table:
        return compiler

    def compile_decomposed(module: GraphModule, inputs: list[object]) -> Function:
        numbers = [one for one in inputs if not isinstance(one, Handle)]
        require(not numbers, "A006", "aot_autograd: a graph of numbers is not decomposed", numbers=numbers)
        return compiler(make_fx(module, table, tracing_mode="symbolic")(*inputs), inputs)

    return compile_decomposed


def aot_autograd(**options: Any) -> AotAutograd:
    """Return a backend that compiles forward and backward graphs, `AotAutograd`."""
    return AotAutograd(**options)


def aot_function(
    fn: Function,
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Function = default_partition,
    decompositions: Decompositions | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
) -> Function:
    """Return a function whose forward and backward graphs these compilers compile."""
    backend = AotAutograd(
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
        partition_fn=partition_fn,
        decompositions=decompositions,
        inference_compiler=inference_compiler,
    )
    return compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)


def aot_module(mod: Function, *args: Any, **options: Any) -> Function:
    """Return a module that is compiled by `aot_function`, whose arguments these are."""
    return aot_function(mod, *args, **options)


def aot_module_simplified(
    mod: object,
    args: Sequence[object],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Function = default_partition,
    decompositions: Decompositions | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
) -> Function:
    """Compile the graph that a backend was given; its backward graphs are compiled when they first run.

    A backend returns what this returns. Of another module the result takes what the module takes.
    """
    backend = AotAutograd(
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
        partition_fn=partition_fn,
        decompositions=decompositions,
        inference_compiler=inference_compiler,
    )
    if not (isinstance(mod, GraphModule) and is_given(mod)):
        return compile(mod, backend=backend, fullgraph=True)
    return _Forward(backend(mod, list(args)), backend.backward_compiler)


class _Forward:
    """A compiled forward graph, and what compiles those of its backward passes."""

    def __init__(self, function: Function, backward_compiler: Compiler) -> None:
        self._function = function
        self._boxed_call = getattr(function, "_boxed_call", False)
        self.backward_compiler = backward_compiler

    def __call__(self, *args: object) -> object:
        """Run the graph."""
        return self._function(*args)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
