"""The driver of backward passes: roots, gradients to start from, hooks, and what is returned or accumulated.

The order is `autodiff.backward.walk`'s. Compiled autograd installs itself in `DRIVER`.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rushlight.autodiff.backward import SINK, Edge, executed, walk
from rushlight.eager.autograd.accumulate import AccumulateGrad, accumulate, edge_of
from rushlight.eager.autograd.history import require_known, requires
from rushlight.eager.dispatch import STATE, Key, Scope, bit, call_user, refuse_in_graphs
from rushlight.eager.execution.measuring import measured
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.ir.dtype import Kind
from rushlight.ops.dims import same_shape
from rushlight.ops.record import OPERATORS
from rushlight.support import settings
from rushlight.support.errors import RushlightError, fail, require, warn
from rushlight.sym import SizeExpr


class GradientEdge(NamedTuple):
    """A place of the tape: what gradients of output `output_nr` of a node arrive at. Takes the place of a tensor."""

    node: Any
    output_nr: int
    ownership_token: object = None


class Pass:
    """One backward pass: options, and the ids of gradients that nobody else refers to.

    It is `partial` if gradients are wanted at given tensors alone, and `returns` them if nothing is accumulated.
    `will_run` tells which nodes it executes.
    """

    __slots__ = ("__weakref__", "_plan", "callbacks", "create_graph", "keep", "owned", "partial", "returns")

    def __init__(self, keep: bool, create_graph: bool, partial: bool = False, returns: bool = False) -> None:
        self.keep = keep
        self.create_graph = create_graph
        self.partial = partial
        self.returns = returns
        self._plan: tuple[Sequence[Any], Sequence[Edge]] = ((), ())
        self.owned: set[int] = set()
        self.callbacks: list[Callable[[], object]] = []

    def prepare(self, node: Any, gradients: list[Any], runs: bool = True) -> None:
        """Runs the hooks on what arrived.

        Where gradients are returned, those of outputs alone unless the node `runs`.
        """
        node.prepare(gradients, self.owned, runs or not self.returns)

    def run(self, node: Any, gradients: list[Any], begun: Mapping[int, object]) -> Sequence[Any]:
        """Runs a node, with the forward's line in any error."""
        owned = self.owned
        try:
            if begun:
                node.keep_apart(begun)
            if STATE.tracer is not None:
                if node.sequence < STATE.tracer.first_step and node.__class__ is not AccumulateGrad:
                    _refuse_earlier()
                STATE.tracer.begin_step(node.sequence)
            given = gradients, self.create_graph, owned
            results = measured(node.name(), "backward", node.run, *given) if STATE.profiles else node.run(*given)
            results = node.finish(results, gradients, owned)
        except Exception as error:
            if not isinstance(error, RushlightError) or error.frame is not node.frame:
                where = "" if node.frame is None else f", recorded at {node.frame}"
                error.add_note(f"  in backward of {node.name()}{where}")
            raise
        if STATE.anomaly and STATE.anomaly_nan:
            _refuse_nan(node, results)
        owned.difference_update([id(gradient) for gradient in gradients])
        seen: set[int] = set()
        for result in results:
            if id(result) in seen:
                owned.discard(id(result))
            seen.add(id(result))
        if not self.keep and node.__class__ is not AccumulateGrad:
            node.release()
        return results

    def take(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """Prepares a node and runs it, for who walks natively: one gradient or None per edge."""
        self.prepare(node, gradients)
        return self.run_prepared(node, gradients)

    def run_prepared(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """As `take`, after the hooks have run on what arrived."""
        if not any(gradient is not None for gradient in gradients):
            return (None,) * len(node.edges)
        results = tuple(self.run(node, gradients, {}))
        if len(results) != len(node.edges):
            fail("X001", f"{node.name()}: a step gives {len(results)} gradients for {len(node.edges)} edges")
        return results

    def add(self, a: object, b: object) -> Any:
        """The sum of two gradients that meet."""
        result = OPERATORS["add"](a, b)
        self.owned.difference_update((id(a), id(b)))
        self.owned.add(id(result))
        return result

    def walk(self, roots: Sequence[Any], targets: Sequence[Any], **how: Any) -> dict[tuple[int, int], Any]:
        """Runs the pass; returns the gradients at the targets by the node's identity and its output number."""
        gradients: dict[tuple[int, int], Any] = {}
        self.plan(roots, targets)
        whole = how.get("part") is None and bool(targets) == how.get("until_targets", False)
        if whole and not self.create_graph and not STATE.anomaly and STATE.tracer is None:
            arrived: list[Any] = [None] * len(targets)
            given = list(roots), self.owned, self.keep, self.add, self.take, list(targets), arrived
            if WALK[0](self, *given):
                return {(id(step), output): one for (step, output, *_), one in zip(targets, arrived, strict=True)}

        def captured(edge: Edge, gradient: object) -> None:
            gradients[id(edge[0]), edge[1]] = gradient

        wanted = {id(edge[0]) for edge in targets}
        builder = None if STATE.tracer is None else STATE.tracer.builder
        region = None if builder is None else builder.region

        def merged(node: Any) -> Any:
            return node.merged(wanted)

        walk(
            roots,
            self.run,
            self.add,
            prepare=self.prepare,
            targets=targets,
            captured=captured,
            merged=merged,
            **how,
        )
        if builder is not None:
            builder.region = region
        return gradients

    def plan(self, roots: Sequence[Any], targets: Sequence[Edge]) -> None:
        """Says from where to where the pass goes."""
        self._plan = roots, targets

    def will_run(self) -> set[int]:
        """The nodes, by identity, at which gradients may arrive in this pass."""
        roots, targets = self._plan
        return executed([edge[0] for edge, _ in roots], targets if self.partial else None)


def _walk_in_python(*how: object) -> bool:
    return False


WALK: list[Callable[..., bool]] = [_walk_in_python]
"""Walks from roots to leaves, or to targets, by native code where that is possible.

It is given (pass, roots, owned, keep, add, take, targets, arrived); the last is a list with a place for each target.
"""


def _refuse_earlier() -> NoReturn:
    """Fails where a graph that may end would run, and free, a step that was recorded before it."""
    fail(
        "G017",
        "backward: a graph differentiates what was computed before it",
        hint="compute the loss in the same graph, or call backward() outside of it",
    )


def _refuse_nan(node: Any, results: Sequence[object]) -> None:
    """Fails where a node gives NaN; only anomaly mode asks."""
    for position, result in enumerate(results):
        if not isinstance(result, Handle) or result.backing is None or result.form.dtype.kind < Kind.FLOAT:
            continue
        if bool(np.isnan(array_of(result)).any()):
            fail("G021", f"backward: {node.name()} gives NaN as gradient {position}", frame=node.frame, gradient=result)


def engaged(grad: bool, one: Pass) -> Scope:
    """Within a pass derivative rules run as they are; only the backward of custom functions is autocast."""
    return Scope(grad=grad, engaged=one, excluded=STATE.excluded | bit(Key.AUTOCAST))


def run_backward(
    tensors: Sequence[Any],
    gradients: Sequence[Any],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] | None = None,
    accumulate: bool = True,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Differentiates `tensors`. With `inputs` only what leads to them runs; their gradients are returned or kept."""
    if STATE.anomaly:
        refuse_in_graphs("a backward pass in anomaly mode")
    roots, targets = roots_of(tensors, gradients), targets_of(inputs or ())
    if STATE.tracer is not None and targets:
        require_known(roots, targets)
    one = Pass(keep_graph, create_graph, inputs is not None, not accumulate)
    with engaged(create_graph, one):
        result = one.walk(roots, targets, until_targets=inputs is not None)
        if inputs is not None and accumulate:
            for tensor, edge in zip(inputs, targets, strict=True):
                _accumulate(tensor, edge, result.get((id(edge[0]), edge[1])), one)
        for callback in one.callbacks:
            call_user(callback)
    if accumulate:
        return ()
    return tuple([used(result.get((id(edge[0]), edge[1])), allow_unused) for edge in targets])


def roots_of(tensors: Sequence[Any], gradients: Sequence[Any]) -> list[tuple[Edge, Any]]:
    """Where a pass begins, and with which gradients. Errors: G004, G005, G007."""
    return [(_root(tensor), _start(tensor, gradient)) for tensor, gradient in zip(tensors, gradients, strict=True)]


def targets_of(inputs: Sequence[Any]) -> list[Edge]:
    """Where gradients of tensors arrive. Errors: G005."""
    targets: list[Edge] = []
    for tensor in inputs:
        edge = _edge(tensor)
        if edge is None:
            fail("G005", "grad: one of the inputs does not require gradients", input=tensor)
        targets.append(edge)
    return targets


class Arrived:
    """The gradients that have arrived at an edge, in order, and their sum so far.

    `senders` are the sequence numbers of the steps that gave them, SINK for a gradient that the pass began with. `turn`
    is which of the edges it was at which everything had arrived, counted from 0.
    """

    __slots__ = ("parts", "senders", "total", "turn")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.senders: list[int] = []
        self.turn = 0
        self.total: Any = None

    def add(self, gradient: object, sender: int, add: Callable[[object, object], object]) -> Arrived:
        """Takes one more."""
        self.parts.append(gradient)
        self.senders.append(sender)
        self.total = gradient if self.total is None else add(self.total, gradient)
        return self

    def between(self, last: int, until: int, create_graph: bool = False) -> Arrived:
        """Those that steps gave whose sequence number is at most `last` and more than `until`."""
        pairs = list(zip(self.parts, self.senders, strict=True))
        chosen = [(part, sender) for part, sender in pairs if until < sender <= last]
        if len(chosen) == len(pairs):
            return self
        result = Arrived()
        with Scope(grad=create_graph):
            for part, sender in chosen:
                result.add(part, sender, OPERATORS["add"])
        return result


class Tape:
    """A part of the tape: from results back to what was there at `since`, where its `edges` lead to."""

    __slots__ = ("_part", "_since", "edges", "roots")

    def __init__(self, results: Sequence[object], since: int) -> None:
        self.roots: list[Any] = [
            edge_of(result) if isinstance(result, Handle) and requires(result) else None for result in results
        ]
        self._part: dict[int, Any] = {}
        self._since = since
        self.edges: tuple[Any, ...] = ()
        self._take([edge for edge in reversed(self.roots) if edge is not None])

    def _take(self, stack: list[Any]) -> None:
        """Takes all steps that places lead to."""
        gradients = {(id(edge[0]), edge[1]): edge for edge in self.edges}
        while stack:
            edge = stack.pop()
            step = edge[0]
            if not self._since <= step.sequence < SINK:
                gradients[id(step), edge[1]] = edge
            elif id(step) not in self._part:
                self._part[id(step)] = step
                stack.extend([one for one in reversed(step.edges) if one is not None])
        self.edges = tuple(gradients.values())

    def root(self, edge: tuple[Any, int]) -> int:
        """The number of the root that is a place in this part of the tape: a further one if there is none yet.

        Errors: G015 where it leads out of what the tape leads to.
        """
        for number, root in enumerate(self.roots):
            if root is not None and root[0] is edge[0] and root[1] == edge[1]:
                return number
        before = self.edges, dict(self._part)
        self._take([edge])
        if len(self.edges) > len(before[0]):
            self.edges, self._part = before
            fail("G015", "backward: a derivative leads to what the first one did not reach", frame=edge[0].frame)
        self.roots.append(edge)
        return len(self.roots) - 1

    def freed(self) -> list[bool]:
        """Return for each result whether an earlier backward pass freed a step that it depends on."""
        gone: set[int] = set()
        for step in sorted(self._part.values(), key=lambda step: step.sequence):  # edges lead to earlier steps
            if step.released or any(id(edge[0]) in gone for edge in step.edges if edge is not None):
                gone.add(id(step))
        return [edge is not None and id(edge[0]) in gone for edge in self.roots]

    def freeing(self) -> list[int]:
        """For each result the steps that a pass from it frees: a bit for each step that saves tensors."""
        bits: dict[int, int] = {}
        ordered = sorted(self._part.values(), key=lambda step: step.sequence)  # edges lead to earlier steps
        for number, step in enumerate(ordered):
            bits[id(step)] = (1 << number) * step.saves_tensors
            for edge in step.edges:
                bits[id(step)] |= 0 if edge is None else bits.get(id(edge[0]), 0)
        return [0 if edge is None else bits.get(id(edge[0]), 0) for edge in self.roots]

    def gradients(
        self, gradients: Sequence[object], starts: Sequence[object] = (), create_graph: bool = False, keep: bool = False
    ) -> tuple[list[Any], set[int]]:
        """Returns the gradients at `edges`, given those of the results.

        The second result has the ids of gradients that nobody else refers to. `starts` is empty, or has
        an initial gradient for each edge, which the gradients that arrive there are added to.
        """
        pairs = [*zip(self.roots, gradients, strict=True), *zip(self.edges, starts, strict=False)]
        roots = [(edge, gradient) for edge, gradient in pairs if edge is not None]
        one = Pass(keep, create_graph)
        with engaged(create_graph, one):
            arrived = one.walk(roots, self.edges, part=self._part)
        return [arrived.get((id(edge[0]), edge[1])) for edge in self.edges], one.owned

    def sequences(self) -> list[int]:
        """Return the sequence number of the step that each result comes from: SINK for one from before."""
        steps = [self._part.get(id(edge[0])) for edge in self.roots if edge is not None]
        return [SINK if step is None else step.sequence for step in steps]

    def reached_from(self, number: int) -> tuple[set[tuple[int, int]], set[int]]:
        """Return where a result leads to: `edges`, and other results, by number, behind which nothing is looked for."""
        root = self.roots[number]
        others = {id(edge[0]): at for at, edge in enumerate(self.roots) if edge is not None}
        edges, results, seen = set[tuple[int, int]](), set[int](), set[int]()
        stack = [root] if id(root[0]) not in self._part else [edge for edge in root[0].edges if edge is not None]
        while stack:
            step, output = stack.pop()
            if id(step) not in self._part:
                edges.add((id(step), output))
            elif id(step) in others:
                results.add(others[id(step)])
            elif id(step) not in seen:
                seen.add(id(step))
                stack += [edge for edge in step.edges if edge is not None]
        return edges, results

    def arrived(
        self,
        gradients: Sequence[Any],
        passed: Callable[[Any], object] = id,
        whole: Collection[int] = (),
        until: int = -1,
        watched: Sequence[int] = (),
        create_graph: bool = False,
    ) -> list[Arrived]:
        """What arrives at each of the `edges` from gradients of the results; the tape can be walked again.

        `passed` is called with each gradient that a step gives, and with each that a hook leaves. The gradients of
        results that are `whole`, by number, have all that arrives there in them. Steps of a sequence number up to
        `until` do not run. What arrives at the results that are `watched` follows what arrives at the edges. With
        `create_graph` what is computed is recorded itself.
        """
        result = [Arrived() for _ in (*self.edges, *watched)]
        edges = [*self.edges, *[self.roots[number] for number in watched]]
        pairs = [*zip(edges, result, strict=True), *zip(self.roots, gradients, strict=True)]
        replaced = {(id(self.roots[number][0]), self.roots[number][1]): gradients[number] for number in whole}
        one = Pass(keep=True, create_graph=create_graph)
        sender = SINK

        def add(a: object, b: object) -> Any:
            return a.add(b, sender, one.add) if isinstance(a, Arrived) else one.add(a, b)

        def prepare(node: Any, given: list[Any], runs: bool) -> None:
            if node.sequence <= until:
                return
            given[:] = [replaced.get((id(node), output), gradient) for output, gradient in enumerate(given)]
            one.prepare(node, given, runs)
            noted(given)

        def run(node: Any, given: list[Any], begun: Mapping[int, object]) -> Sequence[Any]:
            nonlocal sender
            sender = node.sequence
            return noted(one.run(node, given, begun)) if sender > until else [None] * len(node.edges)

        turns = itertools.count()

        def captured(edge: Edge, gradient: Any) -> None:
            if gradient is not None:
                gradient.turn = next(turns)

        def noted(items: Sequence[object]) -> Sequence[Any]:
            for result in items:
                if isinstance(result, Handle):
                    passed(result)
            return items

        roots = [(edge, gradient) for edge, gradient in pairs if edge is not None]
        with engaged(create_graph, one):
            walk(roots, run, add, prepare=prepare, targets=self.edges, captured=captured, part=self._part)
        return result


def _run_first(tensors: Sequence[Any], gradients: Sequence[Any], *how: Any) -> tuple[Any, ...]:
    """Runs a pass while nobody has taken the slot, as compiled autograd does once the setting says so."""
    if settings.get().compiled_autograd:
        importlib.import_module("rushlight.capture.tape.engine")  # which takes the slot
        return DRIVER[0](tensors, gradients, *how)
    return run_backward(tensors, gradients, *how)


DRIVER: list[Callable[..., tuple[Any, ...]]] = [_run_first]
"""Who runs backward passes."""


def _edge(tensor: Any) -> Edge | None:
    """Where gradients of a tensor go; a view's history is brought up to date first."""
    if isinstance(tensor, GradientEdge):
        return tensor[:2]
    require(isinstance(tensor, Handle), "A001", "backward: not a tensor", value=tensor)
    requires(tensor)
    return edge_of(tensor)


def _root(tensor: object) -> Edge:
    edge = _edge(tensor)
    if edge is None:
        fail("G005", "backward: the tensor does not require gradients", tensor=tensor)
    return edge


def _start(tensor: Any, gradient: object) -> Any:
    """The gradient to start from: 1 for a tensor of one element, unless one is given."""
    if isinstance(tensor, GradientEdge):
        return _given(gradient)
    if gradient is None:
        if isinstance(tensor.form.numel, SizeExpr) or tensor.form.numel != 1:
            fail("G004", "backward: a tensor of several elements needs a gradient", tensor=tensor)
        with Scope(grad=False):
            return OPERATORS["full_like"](tensor, 1)
    if not isinstance(gradient, Handle):
        fail("A001", "backward: a gradient must be a tensor", gradient=gradient)
    dtype = tensor.form.dtype
    fits = gradient.form.dtype.is_complex == dtype.is_complex  # integers start gradients too, as in PyTorch
    if not fits or not same_shape(gradient.form.shape, tensor.form.shape):
        fail("G007", "backward: the gradient does not fit its tensor", tensor=tensor, gradient=gradient)
    return gradient if gradient.form.dtype is dtype else OPERATORS["to_dtype"](gradient, dtype)


def _given(gradient: object) -> object:
    require(isinstance(gradient, Handle), "G004", "backward: from an edge of the graph a gradient is needed")
    return gradient


def _accumulate(tensor: Handle, edge: Edge, gradient: Handle | None, one: Pass) -> None:
    if gradient is None:
        return
    if isinstance(edge[0], AccumulateGrad):
        edge[0].finish(edge[0].run([gradient], one.create_graph, one.owned), [gradient], one.owned)
    else:
        accumulate(tensor, gradient, one.create_graph, id(gradient) in one.owned)


def used(gradient: Any, allow_unused: bool) -> Any:
    """A gradient that is returned. Errors: G009 for none, unless that is allowed."""
    if gradient is None and not allow_unused:
        fail("G009", "grad: one of the inputs was not used to compute the outputs")
    return gradient


def _listed(value: object) -> tuple[Any, ...]:
    if isinstance(value, GradientEdge):
        return (value,)
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, Handle) or not isinstance(value, Iterable):
        return (value,)
    items: Iterable[Any] = value
    return tuple(items)


def backward(
    tensors: object,
    grad_tensors: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: object = None,
    inputs: object = None,
) -> None:
    """Accumulates gradients of `tensors` into the leaves they depend on, as torch.autograd.backward.

    `grad_variables` is the old name of `grad_tensors`. Errors: A004 for both.
    """
    if grad_variables is not None:
        warn("A009", "backward: grad_variables is deprecated", key="grad_variables", hint="pass grad_tensors")
        require(grad_tensors is None, "A004", "backward: grad_tensors and grad_variables are the same argument")
        grad_tensors = grad_variables
    listed = _listed(tensors)
    given = (None,) * len(listed) if grad_tensors is None else _listed(grad_tensors)
    require(len(given) == len(listed), "A004", f"backward: {len(given)} gradients for {len(listed)} tensors")
    keep = create_graph if retain_graph is None else retain_graph
    DRIVER[0](listed, given, keep, create_graph, None if inputs is None else _listed(inputs))


def grad(
    outputs: object,
    inputs: object,
    grad_outputs: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, as torch.autograd.grad. Nothing is accumulated.

    A dict of inputs gives a dict of gradients, else they come as a tuple. `only_inputs` is always so (A009 if False).
    With `is_grads_batched` the gradients to start from have a first dim of places, and so have the results.
    """
    if not only_inputs:
        warn("A009", "grad: only_inputs is deprecated and has no effect", key="only_inputs", hint="leave it out")
    if isinstance(inputs, dict):
        gradients = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
        return dict(zip(inputs, gradients, strict=True))
    if is_grads_batched:
        how = retain_graph, create_graph, only_inputs, allow_unused, False, materialize_grads
        return _grad_of_batch(outputs, inputs, grad_outputs, *how)
    listed, wanted = _listed(outputs), _listed(inputs)
    require(len(wanted) > 0, "A002", "grad: no inputs are given")
    refused = materialize_grads and allow_unused is False
    require(not refused, "A002", "grad: materialize_grads needs allow_unused", hint="leave allow_unused out")
    given = (None,) * len(listed) if grad_outputs is None else _listed(grad_outputs)
    require(len(given) == len(listed), "A004", f"grad: {len(given)} gradients for {len(listed)} outputs")
    keep = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    gradients = DRIVER[0](listed, given, keep, create_graph, wanted, False, unused)
    if not materialize_grads:
        return gradients
    with Scope(grad=False):
        return tuple([_zeros(leaf) if one is None else one for leaf, one in zip(wanted, gradients, strict=True)])


def _grad_of_batch(outputs: object, inputs: object, grad_outputs: object, *how: Any) -> tuple[Any, ...]:
    """The gradients from each place along the first dim of `grad_outputs`, stacked."""
    given = _listed(grad_outputs)
    there: list[bool] = []

    def one_place(*gradients: Any) -> list[Any]:
        arrived = iter(gradients)
        found = grad(outputs, inputs, [None if one is None else next(arrived) for one in given], *how)
        there[:] = [gradient is not None for gradient in found]
        return [gradient for gradient in found if gradient is not None]

    vmap = importlib.import_module("rushlight.func.vectorize").vmap  # which is a layer above
    batches = iter(vmap(one_place)(*[gradient for gradient in given if gradient is not None]))
    return tuple([next(batches) if one else None for one in there])


def _zeros(leaf: Any) -> Any:
    """The gradient of what was not used; it can be differentiated again."""
    gradient = OPERATORS["full_like"](leaf, 0)
    gradient.requires_grad = True
    return gradient
