"""Functions without writes: what a function does is traced, and done again with new values in place of writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rushlight.eager.autograd.function import FunctionNode
from rushlight.eager.autograd.history import requires
from rushlight.eager.composite.replaying import Interpreter
from rushlight.eager.dispatch import STATE, Scope, call_user
from rushlight.eager.handle import PYTHON, Handle
from rushlight.eager.mutation import Mutation
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.eager.symbols import unwrap_size
from rushlight.eager.tracing import Tracer
from rushlight.eager.tracing.tensor_values import Binding
from rushlight.fx.ops import relayout
from rushlight.ir.graph import RELAYOUT, Call, Graph, GraphBuilder, Node
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact
from rushlight.runtime.generator import Generator
from rushlight.support.errors import fail, require
from rushlight.sym import Scope as SizeScope
from rushlight.sym import SizeExpr, free_symbols


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that does the same without writes: new values, and arguments set at the end.

    The function is traced at each call, on tensors without data, and then run operator by operator: what asks for a
    value, as `bool(x)`, is error C002. Results that are views of arguments or of each other stay so. Gradients are
    those of the operators; what autograd does not see, as a write under no_grad to a tensor that has a gradient, is
    error A006. `remove` is PyTorch's; views have no memory of their own either way.

    def step(x):
        y = x.clone()
        y[0].mul_(2)
        return y

    rl.func.functionalize(step)(rl.ones(2, 3))
    """
    valid = remove in ("mutations", "mutations_and_views")
    require(valid, "A002", f"functionalize: remove is mutations or mutations_and_views, not {remove}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if STATE.tracer is not None:  # what is traced has no writes to begin with
            return call_user(func, *args, **kwargs)
        return _Run().result(func, args, kwargs)

    return call


class _FunctionalTracer(Tracer):
    """Detaches what is computed under no_grad, and notes what is written to while gradients are recorded."""

    detaches = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.recorded: set[int] = set()  # cells, by identity
        self.outer = STATE.grad
        self.leaves: list[Handle] = []  # views of which the base has no gradient

    def _lifted(self, tensor: Handle) -> Binding:
        base = None if tensor.view_of is None else tensor.view_of.base
        if base is None or not requires(tensor) or requires(base):
            return super()._lifted(tensor)
        self.parameter(tensor, self._lift(tensor))  # its gradient would not come by way of the base
        self.leaves.append(tensor)
        return tensor.node

    def refuse_shared(self, written: Collection[Handle]) -> None:
        """C012 where memory of such a leaf is written to through another tensor."""
        storages = {id(tensor.backing) for tensor in written}
        for leaf in self.leaves:
            if id(leaf.backing) in storages:
                fail("C012", "functionalize: the memory of a leaf is written to through another tensor", tensor=leaf)

    def _write(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        binding = self.binding(op.target_of(operands))
        if STATE.grad:
            self.recorded.add(id(binding.cell))
        if not STATE.grad or any(Fact.NONDIFFERENTIABLE in step[0].facts for step in binding.steps):
            self._refuse_hidden(op, binding)
        return super()._write(op, operands, attrs)

    def _over(self, target: Handle, op: Mutation, value: Node) -> Node:
        """What replaces all of a view has the history of the view's base: it gives that a gradient of 0."""
        binding = self.binding(target)
        if op.base is not None or not binding.steps or not STATE.grad or not requires(target):
            return value
        return self.builder.apply(OPERATORS["where"], (True, value, binding.node), {})

    def _refuse_hidden(self, op: Any, binding: Binding) -> None:
        """A006 where a write that autograd does not see changes what has a gradient."""
        others = [tensor for tensor in self.seen() if tensor.node is not None and tensor.node.cell is binding.cell]
        if self.outer and any(requires(tensor) for tensor in others):
            hint = "write to a clone, or call under no_grad"
            fail("A006", f"functionalize: {op.name} changes a tensor that has a gradient, unseen by it", hint=hint)


class _Run:
    """One call of a function: traced, then run."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("functional")
        self.scope = SizeScope()
        self.tracer = _FunctionalTracer(self.builder, self.scope, self._lift, _random_state)

    def _lift(self, tensor: Handle) -> TensorType:
        require(not tensor.keys & PYTHON, "C036", "functionalize: a tensor with __torch_dispatch__ is read")
        return tensor.form.type

    def result(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the function gives; its arguments are as it leaves them."""
        tracer = self.tracer
        try:
            with tracer.active():
                leaves, structure = flatten_tree(call_user(function, *args, **kwargs))
                bindings = {at: tracer.binding(leaf) for at, leaf in enumerate(leaves) if isinstance(leaf, Handle)}
                _refuse_own_derivatives([leaves[at] for at in bindings])
                cells = {id(tensor): tensor.node.cell for tensor in tracer.lifted}
                graph = self._graph(leaves, bindings, cells)
        finally:
            tracer.close()
        written = {key: cell for key, cell in cells.items() if cell.writes and cell.source is not None}
        tracer.refuse_shared([cell.source for cell in written.values() if not requires(cell.source)])
        inputs = [_copied(tensor) if id(tensor) in written else tensor for tensor in tracer.lifted]
        run = _LaidOut({}, self.scope.asserts)
        values = run.run(graph, inputs)
        for cell in written.values():
            with Scope(grad=STATE.grad and id(cell) in tracer.recorded):
                cell.source.copy_(values[id(cell.node.call)])
        outside = {id(leaf) for leaf in flatten_tree((args, kwargs))[0]} | set(cells)
        made = {
            at: leaves[at] if id(leaves[at]) in outside else self._made(binding, values)
            for at, binding in bindings.items()
        }
        sizes = {
            at: run.size(size) for at, leaf in enumerate(leaves) if isinstance(size := unwrap_size(leaf), SizeExpr)
        }
        return unflatten_tree(structure, [made.get(at, sizes.get(at, leaf)) for at, leaf in enumerate(leaves)])

    def _graph(self, leaves: Sequence[Any], bindings: Mapping[int, Any], cells: Mapping[int, Any]) -> Graph:
        nodes = [node for binding in bindings.values() for node in (binding.node, binding.cell.node)]
        nodes += [cell.node for cell in cells.values()]
        sizes = [size for leaf in leaves if isinstance(size := unwrap_size(leaf), SizeExpr)]
        symbols = dict.fromkeys([symbol for size in sizes for symbol in free_symbols(size)])
        return self.builder.graph(nodes, sizes=tuple(symbols))

    def _made(self, binding: Any, values: Mapping[int, Any]) -> Any:
        """A new result: a view of an argument or of another result where it was one."""
        source = binding.cell.source
        value = values[id(binding.cell.node.call)] if source is None else source
        for op, others, attrs in binding.steps:
            if any(isinstance(other, Handle) for other in flatten_tree(others)[0]):
                return values[id(binding.node.call)]
            value = op(value, *others, **attrs)
        return value


class _LaidOut(Interpreter):
    """Runs a graph; values have the strides that it says."""

    def _call(self, call: Call, values: Mapping[int, Any]) -> Any:
        if call.op is not RELAYOUT:
            return super()._call(call, values)
        sizes = [tuple(map(self.size, one)) for one in (call.type.shape, call.type.strides)]
        return relayout(values[id(call.operands[0])], *sizes)


def _copied(tensor: Handle) -> Any:
    """An argument that is overwritten, as it was: derivatives read it after the write."""
    return OPERATORS["clone"](tensor)


def _random_state(generator: Generator, count: int) -> tuple[int, int]:
    return generator.next_ordinal(count)


def _refuse_own_derivatives(results: Sequence[Any]) -> None:
    """A006 where a derivative on the way to a result is none of its operators.

    Those are what the program wrote itself, and that of a view by strides of a view, which sees its operand alone.
    """
    strided = [
        one for one in results if requires(one) and any(Fact.STRIDED in step[0].facts for step in one.node.steps)
    ]
    require(not strided, "A006", "functionalize: a view by strides that has a gradient")
    stack = [result.grad_fn for result in results if requires(result)]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, FunctionNode):
            fail("A006", "functionalize: an autograd.Function has a derivative of its own", function=node.name())
        stack.extend([edge[0] for edge in node.edges if edge is not None])
