"""Custom differentiable functions: `class Exp(Function)` with static methods forward and backward."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach, differentiable, requires
from rushlight.eager.autograd.node import Node, class_named
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.autograd.write import check_write, record_function_write
from rushlight.eager.dispatch import STATE, Key, Scope, call_user, reenter, tell_made
from rushlight.eager.handle import BATCHED, PYTHON, Handle, share
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ops.dims import same_shape, same_size
from rushlight.ops.promote import is_one, sum_to
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require


class FunctionCtx:
    """What the methods of a custom function see as `ctx`: PyTorch's name for annotations. `apply` makes them."""

    __slots__ = ()

    needs_input_grad: tuple[bool, ...]
    _dirty: tuple[Any, ...]
    _materialize: bool
    _nondifferentiable: tuple[Any, ...]
    _to_save: tuple[Any, ...]

    def save_for_backward(self, *tensors: object) -> None:
        """Keeps inputs or outputs for `saved_tensors` in backward. Errors: A001 for what is no tensor and not None."""
        for tensor in tensors:
            fits = tensor is None or isinstance(tensor, Handle)
            require(
                fits, "A001", "save_for_backward: tensors are expected", given=tensor, hint="set an attribute of ctx"
            )
        self._to_save = tensors

    def save_for_forward(self, *tensors: object) -> None:
        """Nothing: derivatives in forward mode are made by `backward`, twice, from what `save_for_backward` keeps."""

    def mark_dirty(self, *tensors: object) -> None:
        """Says which inputs the forward changes in place and returns."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: object) -> None:
        """Says which outputs have no gradient."""
        self._nondifferentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs without a gradient."""
        self._materialize = value


class FunctionParts(NamedTuple):
    """What the backward of a custom function needs, besides gradients and the attributes of `ctx`.

    `positions` are those of the tensors among the arguments, which have `input_forms`.
    """

    function: type[Function]
    needs: tuple[bool, ...]
    positions: Sequence[int]
    materializes: bool
    forms: Sequence[TensorMeta | None]
    input_forms: Sequence[TensorMeta]
    saved: Sequence[object]


class Marks(NamedTuple):
    """What a forward has said through its `ctx`."""

    saved: Sequence[Any]
    dirty: Sequence[Any]
    nondifferentiable: Sequence[Any]
    materializes: bool


class FunctionNode(Node, FunctionCtx):
    """The node of a custom function, and the `ctx` that its methods see. It takes all attributes."""

    __slots__ = (
        "__dict__",
        "_dirty",
        "_forms",
        "_function",
        "_input_forms",
        "_materialize",
        "_nondifferentiable",
        "_positions",
        "_released",
        "_saved",
        "_to_save",
        "needs_input_grad",
        "runs",
    )

    def __init__(self, function: type[Function]) -> None:
        super().__init__(())
        self._function = function
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._nondifferentiable: tuple[Any, ...] = ()
        self._materialize = True
        self._released = False
        self._forms: list[TensorMeta | None] = []
        self._input_forms: list[TensorMeta] = []
        self._positions: list[int] = []
        self.needs_input_grad: tuple[bool, ...] = ()
        self.runs: Sequence[Callable[..., object]] = ()  # the program's functions, as written, of a node that is traced

    def name(self) -> str:
        """PyTorch's name of the node."""
        return self._function.__name__ + "Backward"

    def shown(self) -> Self:
        """The node in a class with its name."""
        if self.__class__ is FunctionNode:
            self.__class__ = class_named(FunctionNode, self.name())
        return self

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved; G001 after the graph was freed, G003 when a tensor was changed since."""
        saved = self.parts().saved
        return tuple([value.unpack(self, self.frame) if isinstance(value, SavedTensor) else value for value in saved])

    def parts(self) -> FunctionParts:
        """What its run needs besides attributes. Errors: G001 after the graph was freed."""
        if self._released:
            fail("G001", f"backward: {self.name()} was run before, and what it saved is freed", frame=self.frame)
        return FunctionParts(
            self._function,
            self.needs_input_grad,
            self._positions,
            self._materialize,
            self._forms,
            self._input_forms,
            self._saved,
        )

    def take_marks(self) -> Marks:
        """What the forward said through `ctx`; what was saved is let go of."""
        saved, self._to_save = self._to_save, ()
        return Marks(saved, self._dirty, self._nondifferentiable, self._materialize)

    def give_saved(self, saved: Sequence[Any]) -> None:
        """Sets what `saved_tensors` gives."""
        self._saved = tuple(saved)

    @classmethod
    def of(cls, parts: FunctionParts) -> FunctionNode:
        """A node that has these parts, and no edges."""
        node = cls(parts.function)
        node.needs_input_grad, node._positions = parts.needs, list(parts.positions)
        node._materialize, node._saved = parts.materializes, tuple(parts.saved)
        node._forms, node._input_forms = list(parts.forms), list(parts.input_forms)
        return node

    def finish_forward(self, inputs: Sequence[Handle], outputs: Sequence[object], needed: Sequence[bool]) -> None:
        """Fixes the edges and what is saved, once the outputs are known."""
        self._positions = [at for at, input_ in enumerate(inputs) if isinstance(input_, Handle)]
        self.edges = tuple([edge_of(inputs[at]) if needed[at] else None for at in self._positions])
        self._input_forms = [inputs[at].form for at in self._positions]
        self._forms = [element.form if isinstance(element, Handle) else None for element in outputs]
        saved: list[Any] = []
        for tensor in self._to_save:
            output = next((at for at, one in enumerate(outputs) if one is tensor), None)
            saved.append(SavedTensor(tensor, output) if isinstance(tensor, Handle) else tensor)
        self._saved, self._to_save = tuple(saved), ()

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Calls `backward`, and checks that it gives one gradient per argument of forward."""
        arrived = [*gradients, *[None] * (len(self._forms) - len(gradients))]
        if self._materialize:
            pairs = zip(arrived, self._forms, strict=True)
            arrived = [_zeros(form) if one is None and form is not None else one for one, form in pairs]
        with reenter(Key.AUTOCAST):
            result = call_user(self._function.backward, self, *arrived)
        results = result if isinstance(result, tuple) else (result,)
        expected = len(self.needs_input_grad)
        if len(results) != expected and not (
            len(results) > expected and all(element is None for element in results[expected:])
        ):
            fail("G007", f"{self.name()}: {len(results)} gradients for {expected} inputs", frame=self.frame)
        owned.difference_update([id(element) for element in results])
        return [self._fitted(results[at], form) for at, form in zip(self._positions, self._input_forms, strict=True)]

    def _fitted(self, gradient: object, form: TensorMeta) -> object:
        """A gradient in its input's dtype, summed over broadcast dims, as the engine of PyTorch makes it."""
        if not isinstance(gradient, Handle):
            return gradient
        shape = gradient.form.shape
        if not same_shape(shape, form.shape):
            lead = len(shape) - len(form.shape)
            pairs = zip(shape[max(lead, 0) :], form.shape, strict=lead >= 0)
            fits = lead >= 0 and all(is_one(size) or same_size(wide, size) for wide, size in pairs)
            if not fits:
                fail("G007", f"{self.name()}: a gradient has not its input's shape", gradient=gradient, input=form)
            gradient = sum_to(gradient, form.shape)
        plain = gradient.dtype is form.dtype or not gradient.dtype.is_floating_point
        return gradient if plain else OPERATORS["to_dtype"](gradient, form.dtype)

    @property
    def saves_tensors(self) -> bool:
        """True: no function runs twice without `retain_graph`."""
        return True

    def release(self) -> None:
        """Frees what was saved."""
        self._saved = ()
        self._released = True


def _without_levels(function: type[Function], args: Sequence[object]) -> Any:
    fail("X001", "a mapped tensor, and nothing that runs functions on it")


MAPPED: list[Callable[[type[Function], Sequence[object]], Any]] = [_without_levels]
"""What runs a custom function on mapped tensors."""


def _zeros(form: TensorMeta) -> Any:
    return OPERATORS["zeros"](tuple(form.shape), dtype=form.dtype, device=form.device)


class Function:
    """Base of custom functions. Call them by `apply`.

    Either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`; and `backward(ctx,
    *grads)`.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs; nothing in it is recorded."""
        fail("A006", "Function: forward is not written")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves for backward, where forward takes no ctx."""
        fail("A006", "Function: setup_context is not written")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs from those of the outputs."""
        fail("A006", "Function: backward is not written")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The outputs for a batch of `info.batch_size` places, and the batch's dim in each, or None.

        It is not needed: without one the methods run on all places at once.
        """
        fail("A006", "Function: vmap is not written")

    @staticmethod
    def _called(ctx: Any) -> Sequence[Callable[..., object]]:
        """The program's functions that backward calls, of a function of ours."""
        return ()

    @classmethod
    def apply(cls, *args: object) -> Any:
        """Runs forward and records backward."""
        if any(isinstance(arg, Handle) and arg.keys & BATCHED for arg in args):
            return MAPPED[0](cls, args)
        node = FunctionNode(cls)
        tell_made(node)
        needed = tuple([isinstance(arg, Handle) and requires(arg) for arg in args])
        node.needs_input_grad = needed
        with Scope(grad=False):
            if cls.setup_context is Function.setup_context:
                result = call_user(cls.forward, node, *args)
            else:
                args = _with_defaults(cls.forward, args)
                needed = (*needed, *[False] * (len(args) - len(needed)))
                node.needs_input_grad = needed
                result = call_user(cls.forward, *args)
                call_user(cls.setup_context, node, args, result)
        outputs = list(result) if isinstance(result, tuple) else [result]
        if STATE.grad and any(needed):
            _record(node, args, outputs, needed)
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)


def _with_defaults(forward: Callable[..., object], args: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments of a forward with its defaults for those that were not given."""
    code, defaults = getattr(forward, "__code__", None), getattr(forward, "__defaults__", None) or ()
    missing = 0 if code is None else code.co_argcount - inspect.ismethod(forward) - len(args)
    return (*args, *defaults[-missing:]) if 0 < missing <= len(defaults) else args


def _record(node: FunctionNode, args: Sequence[Any], outputs: list[Any], needed: Sequence[bool]) -> None:
    for output in node._dirty:
        check_write(node.name(), output)
        require(any(output is one for one in outputs), "A004", f"{node.name()}: a dirty input must be returned")
        output.version.value += 1  # the write may be one that nothing here has seen, as through numpy
    if STATE.tracer is not None:
        node.runs = inspect.unwrap(node._function.backward), *node._function._called(node)
        STATE.tracer.note_change(node)
        for arg in itertools.compress(args, needed):  # which forward may have read nothing of
            if not arg.keys & PYTHON:  # those of wrappers are their class's own
                STATE.tracer.binding(arg)
    node.finish_forward(args, outputs, needed)
    for position, output in enumerate(outputs):
        plain = isinstance(output, Handle) and differentiable(output)
        if not plain or any(output is one for one in node._nondifferentiable):
            continue
        dirty = any(output is one for one in node._dirty)
        if not dirty and any(output is one for one in args):
            output = outputs[position] = share(output)
        if dirty:
            record_function_write(output, node, position)
        else:
            attach(output, node, position)


def once_differentiable(backward: Callable[..., object]) -> Callable[..., Any]:
    """For a backward that cannot itself be differentiated: doing so is error G008."""

    @functools.wraps(backward)
    def run(ctx: Any, *grads: object) -> Any:
        with Scope(grad=False):
            gradients = backward(ctx, *grads)
        if not STATE.grad:
            return gradients
        results = gradients if isinstance(gradients, tuple) else (gradients,)
        known = [gradient for gradient in grads if isinstance(gradient, Handle)]
        for result in results:
            if isinstance(result, Handle) and differentiable(result):
                node = OnceDifferentiable(ctx.name(), (*ctx.edges, *[edge_of(gradient) for gradient in known]))
                if STATE.tracer is not None:
                    STATE.tracer.note_change(node, ctx)
                attach(result, node, 0)
        return gradients

    made: Any = run
    made.once_differentiable = True
    return made


class OnceDifferentiable(Node):
    """The node of a gradient that was computed once and for all."""

    __slots__ = ("_function",)

    def __init__(self, function: str, edges: Sequence[Any]) -> None:
        super().__init__(edges)
        self._function = function

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Fails."""
        fail("G008", f"{self._function}: marked once_differentiable, and differentiated again", frame=self.frame)
