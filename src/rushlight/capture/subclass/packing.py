"""Tensors of subclasses around a graph: arguments are taken apart for it, and results put together again.

A wrapper among the arguments, or among what a function reaches, is given to the graph as the tensors that it holds, and
the traced function gets another wrapper of those. What a graph is for are classes, contexts and how sizes follow from
those of the inner tensors (`Packing`); numbers in a context are arguments of the graph. Autograd is above the wrappers
on both sides: `TakenApart` and `PutTogether` carry gradients from the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple, NoReturn, TypeGuard

from rushlight.eager.autograd.function import Function
from rushlight.eager.autograd.history import differentiable, requires
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import PARAMETER_MARK, SPARSE, Handle, is_wrapper, share, wrap
from rushlight.eager.override.foreign import FUNCTION
from rushlight.eager.subclass import flattens, intercepts, taken_apart
from rushlight.eager.symbols import SymFloat, SymInt, wrap_size
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.eager.tracing import TracedNumber
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

_PLAIN = (Tensor, Parameter, TracedNumber)
_NUMBERS: dict[type, type] = {int: int, SymInt: int, float: float, SymFloat: float}
_MOST_PLANS = 256  # of one function and class: one for each form, of sizes as they come


def is_packed(value: object) -> TypeGuard[Handle]:
    """Whether a value is a tensor of a class that no graph takes as it is."""
    return isinstance(value, Handle) and type(value) not in _PLAIN


class Number(NamedTuple):
    """Stands for a number of a context in what a graph is for."""

    kind: type


@frozen
class Packing:
    """How one tensor of a subclass is given to a graph.

    Of a wrapper, `names` are those of its inner tensors, and `inner` how these are given if they are wrappers. `sizes`
    says of each dim which inner tensor has it as which of its dims, or is None for a number; `strides` is the number of
    the inner tensor that has them, None for those of row-major order, or they themselves. A tensor on storage of its
    own is given as a plain one: it has no names, and `context` are its attributes.
    """

    kind: Any
    names: tuple[str, ...]
    inner: tuple[Packing | None, ...]
    context: object
    sizes: tuple[tuple[int, int] | None, ...]
    strides: tuple[int, ...] | int | None
    recorded: bool
    marked: bool


class Given(NamedTuple):
    """A result that is a tensor which the graph was given."""

    position: int


class Again(NamedTuple):
    """A result that is another one, by number."""

    position: int


class Made(NamedTuple):
    """A result of a subclass, in the parts that the graph gives."""

    kind: Any
    names: tuple[str, ...]
    recorded: bool
    marked: bool
    parts: tuple[Any, ...]
    context: Any
    size: tuple[object, ...]
    stride: tuple[object, ...]


class TakenApart(Function):
    """From a wrapper to what it holds. With a carrier, for gradients that are no wrappers, in front of that."""

    @staticmethod
    def forward(ctx: Any, wrapper: Tensor, carries: bool) -> tuple[object, ...]:
        """The inner tensors without history."""
        ctx.set_materialize_grads(False)
        inner, context = taken_apart(wrapper)
        parts = [share(part) for part in inner.values()]
        ctx.wrapping = (
            type(wrapper),
            tuple(inner),
            context,
            wrapper.size(),
            wrapper.stride(),
            [part.form for part in parts],
        )
        return (*([carrier_of(wrapper)] if carries else []), *parts)

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> tuple[object, None]:
        """A wrapper of the gradients of what it holds."""
        kind, names, context, size, stride, forms = ctx.wrapping
        carried, parts = gradients[: -len(names)], gradients[-len(names) :]
        if all(part is None for part in parts):
            return (carried[0] if carried else None), None
        whole = [
            OPERATORS["zeros"](tuple(form.shape), dtype=form.dtype) if part is None else part
            for part, form in zip(parts, forms, strict=True)
        ]
        context = gradient_context(kind, context)
        return kind.__tensor_unflatten__(dict(zip(names, whole, strict=True)), context, size, stride), None


class PutTogether(Function):
    """From inner tensors to the wrapper that `build` makes of them."""

    @staticmethod
    def forward(ctx: Any, build: Callable[[Sequence[Handle]], object], carrier: object, *parts: Handle) -> object:
        """The wrapper of the tensors without their history."""
        ctx.set_materialize_grads(False)
        wrapper = build([share(part) for part in parts])
        ctx.wrapping = type(wrapper), [differentiable(part) for part in parts], carrier is not None
        ctx.context = gradient_context(type(wrapper), taken_apart(wrapper)[1])
        return wrapper

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> tuple[object, ...]:
        """The gradients of what the wrapper holds, or its own, for the carrier."""
        (gradient,) = gradients
        kind, wanted, carries = ctx.wrapping
        nothing = [None] * len(wanted)
        if gradient is None or (carries and not is_packed(gradient)):
            return None, gradient, *nothing
        if type(gradient) is kind and all(wanted):
            parts = _described(gradient, ctx.context)
            if parts is not None and len(parts) == len(wanted):
                return None, None, *parts
        return refuse("a gradient is of another class, or described otherwise, than its tensor", gradient)


def gradient_context(kind: Any, context: object) -> object:
    """What describes a gradient of what a context describes: the same, unless the class says otherwise."""
    return getattr(kind, "__tensor_gradient_context__", lambda same: same)(context)


def _described(gradient: Any, context: object) -> tuple[Handle, ...] | None:
    """What a gradient holds once its class has brought it to a context; None if it cannot."""
    wanted = template_of(context, [])
    inner, own = taken_apart(gradient)
    if template_of(own, []) == wanted:
        return tuple(inner.values())
    if not hasattr(gradient, "__coerce_same_metadata_as_tangent__"):
        return None
    inner, own = taken_apart(gradient.__coerce_same_metadata_as_tangent__(context))
    return tuple(inner.values()) if template_of(own, []) == wanted else None


def refuse(reason: str, tensor: object) -> NoReturn:
    """C036 for a tensor of a subclass that no graph can hold."""
    fail("C036", f"compile: {reason}", kind=type(tensor).__name__)


def carrier_of(wrapper: Handle) -> object:
    """A tensor of the sizes of a wrapper that takes no memory."""
    zero = OPERATORS["zeros"]((), dtype=wrapper.dtype)
    return OPERATORS["expand"](zero, tuple(wrapper.form.shape))


def template_of(context: object, numbers: list[object]) -> object:
    """A context without its numbers, which are added to a list."""
    if type(context) in (tuple, list, dict):
        return in_containers(lambda part: template_of(part, numbers), context)
    if isinstance(context, Size):
        return tuple([template_of(part, numbers) for part in context])
    if isinstance(context, TracedNumber):
        numbers.append(context)
        return Number(type(context.value))
    if isinstance(context, Handle):
        refuse("the context of a wrapper holds a tensor", context)
    if type(context) in _NUMBERS:
        numbers.append(context)
        return Number(_NUMBERS[type(context)])
    return context


def filled_in(template: object, numbers: Iterator[object]) -> object:
    """A context with numbers in their places."""
    if isinstance(template, Number):
        return next(numbers)
    return in_containers(lambda part: filled_in(part, numbers), template)


class Packer:
    """Packs the tensors of subclasses that the calls of one function are given.

    What follows from forms, class and context alone is computed once: of three DTensors it takes 25 us.
    """

    def __init__(self) -> None:
        self._plans: dict[Any, dict[tuple[object, ...], tuple[Packing, list[int]]]] = {}

    def packed(self, tensor: Handle) -> tuple[Packing, tuple[object, ...]]:
        """How a tensor of a subclass is given to a graph, and the values that stand for it."""
        kind = type(tensor)
        recorded, marked = requires(tensor), PARAMETER_MARK in vars(tensor)
        if not is_wrapper(tensor):
            return _packed_plain(tensor, recorded, marked)
        plans = self._plans.get(kind)
        if plans is None:
            if not flattens(kind):
                refuse("a wrapper has no __tensor_flatten__ and __tensor_unflatten__", tensor)
            plans = self._plans[kind] = {}
        inner, context = taken_apart(tensor)
        held: Any = tuple(inner.values())
        parts = held
        carriers: tuple[object, ...] = ()
        if recorded:
            with Scope(grad=True):
                carrier, *parts = TakenApart.apply(tensor, True)
            carriers = (carrier,)
        # The plan holds the context, so that no other one has its place in memory.
        key = (id(context), recorded, marked, tensor.form, *inner, *[part.form for part in held], *map(type, held))
        plan = plans.get(key)
        if plan is not None:
            packing, own = plan
            sizes = tensor.form.shape
            return packing, (*carriers, tuple([(part,) for part in parts]), *[sizes[dim] for dim in own])
        numbers = list[object]()
        template = template_of(context, numbers)
        below = [self.packed(part) if is_packed(part) else (None, (part,)) for part in parts]
        packings = tuple([packing for packing, _ in below])
        sizes, strides = _derived_sizes(tensor, parts), _derived_strides(tensor, parts)
        own = [dim for dim, place in enumerate(sizes) if place is None]
        packing = Packing(kind, tuple(inner), packings, template, sizes, strides, recorded, marked)
        is_opaque = template is context and not isinstance(context, (tuple, list, dict))
        if is_opaque and not any(packings) and not tensor.form.symbolic:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plans[key] = packing, own
        others = [tensor.form.shape[dim] for dim in own]
        return packing, (*carriers, tuple([values for _, values in below]), *others, *numbers)

    def clear(self) -> None:
        """Forgets what is known."""
        self._plans.clear()


def _packed_plain(tensor: Handle, recorded: bool, marked: bool) -> tuple[Packing, tuple[object, ...]]:
    """How a tensor of a subclass on storage of its own is given: as a plain one, and its attributes."""
    _require_elements(tensor)
    numbers = list[object]()
    attributes = {name: value for name, value in vars(tensor).items() if name != PARAMETER_MARK}
    context = template_of(attributes, numbers)
    plain = _plain_view(tensor)
    return Packing(type(tensor), (), (), context, (), None, recorded, marked), (plain, *numbers)


def _require_elements(tensor: Handle) -> None:
    """C036 for a tensor of a subclass that is not given as a plain one, by its class."""
    if tensor.keys & SPARSE:
        refuse("an argument is a sparse tensor", tensor)
    if intercepts(type(tensor)):
        refuse("a class with __torch_dispatch__ has elements of its own", tensor)


def _plain_view(tensor: Handle) -> Handle:
    """A plain tensor that shows all of one, with its history."""
    with Scope(grad=True, overriding=False, excluded=STATE.excluded | FUNCTION):
        return OPERATORS["alias"](tensor)


def _derived_sizes(tensor: Handle, parts: Sequence[Handle]) -> tuple[tuple[int, int] | None, ...]:
    """Which dims of the inner tensors have the sizes of a wrapper: the same dim of one if possible.

    A class may say of which dims none has, whatever their sizes are just now: `__tensor_sizes__`, by form and context.
    """
    rank = len(tensor.form.shape)
    own = getattr(tensor, "__tensor_sizes__", lambda: (False,) * rank)()

    def place(dim: int, size: int) -> tuple[int, int] | None:
        if own[dim]:
            return None
        shapes = [part.form.shape for part in parts]
        same = [(at, dim) for at, shape in enumerate(shapes) if len(shape) == rank and shape[dim] == size]
        others = [(at, other) for at, shape in enumerate(shapes) for other, one in enumerate(shape) if one == size]
        return next(iter([*same, *others]), None)

    return tuple([place(dim, size) for dim, size in enumerate(tensor.form.shape)])


def _derived_strides(tensor: Handle, parts: Sequence[Handle]) -> tuple[int, ...] | int | None:
    form = tensor.form
    for position, part in enumerate(parts):
        if part.form.shape == form.shape and part.form.strides == form.strides:
            return position
    return None if form.is_contiguous else form.strides


def unpacked(packing: Packing, values: Sequence[Any]) -> Any:
    """The tensor of a subclass that stands for one while a function is traced, made of stand-ins."""
    if not packing.names:
        result = wrap(OPERATORS["alias"](values[0]), packing.kind)
        vars(result).update(filled_in(packing.context, iter(values[1:])))
    else:
        carrier, (parts, *numbers) = (values[0], values[1:]) if packing.recorded else (None, values)
        given = [
            part[0] if below is None else unpacked(below, part)
            for below, part in zip(packing.inner, parts, strict=True)
        ]
        others, context = numbers[: packing.sizes.count(None)], numbers[packing.sizes.count(None) :]
        context = filled_in(packing.context, iter(context))

        def build(inner: Sequence[Tensor]) -> object:
            rest = iter(others)
            sizes = Size([_size_of(next(rest)) if at is None else inner[at[0]].shape[at[1]] for at in packing.sizes])
            named = dict(zip(packing.names, inner, strict=True))
            return packing.kind.__tensor_unflatten__(named, context, sizes, _strides_of(packing, sizes, inner))

        if packing.recorded:
            with Scope(grad=True):
                result = PutTogether.apply(build, carrier, *given)
        else:
            result = build(given)
    if packing.marked:
        vars(result)[PARAMETER_MARK] = True
    return result


def _size_of(number: object) -> object:
    """A number as a size of a trace."""
    return wrap_size(number.size()) if isinstance(number, TracedNumber) else number


def gradient_maker(wrapper: Handle) -> Callable[..., object]:
    """What makes a gradient like this one, which is a wrapper, of the tensors with elements in it.

    Errors: C036 for one that is not described by these tensors alone.
    """
    packing = _packing_of(wrapper)

    def make(*parts: object) -> object:
        return unpacked(packing, _values(packing, iter(parts)))

    return make


def _packing_of(wrapper: Handle) -> Packing:
    inner, context = taken_apart(wrapper)
    numbers, parts = list[object](), tuple(inner.values())
    template_of(context, numbers)
    sizes = _derived_sizes(wrapper, parts)
    if None in sizes or any(type(number) not in (int, float) for number in numbers):
        refuse("a gradient depends on sizes besides those of its inner tensors", wrapper)
    below = tuple([_packing_of(part) if is_wrapper(part) else None for part in parts])
    return Packing(type(wrapper), tuple(inner), below, context, sizes, _derived_strides(wrapper, parts), False, False)


def _values(packing: Packing, parts: Iterator[object]) -> tuple[object, ...]:
    return (tuple([(next(parts),) if below is None else _values(below, parts) for below in packing.inner]),)


def _strides_of(packing: Packing, sizes: Size, inner: Sequence[Tensor]) -> tuple[object, ...]:
    if isinstance(packing.strides, int):
        return inner[packing.strides].stride()
    if packing.strides is not None:
        return packing.strides
    steps = [1]
    for size in sizes[:0:-1]:
        steps.insert(0, steps[0] * size)
    return tuple(steps[: len(sizes)])


class Results:
    """Takes apart the tensors of subclasses among what a traced function gives. `given` stand for inputs."""

    def __init__(self, given: Sequence[object]) -> None:
        self._given = {id(tensor): position for position, tensor in enumerate(given)}
        self._known: dict[int, int] = {}
        self._kept: list[object] = []

    def packed(self, value: object) -> object:
        """A value with what stands for tensors of subclasses in it; the value itself where there are none."""
        if is_packed(value):
            return self._tensor(value)
        return in_containers(self.packed, value, (tuple, list, dict))

    def _tensor(self, tensor: Handle) -> object:
        if id(tensor) in self._given:
            return Given(self._given[id(tensor)])
        if STATE.tracer is not None and tensor.node is None and id(tensor) not in STATE.tracer.wrappers:
            return tensor  # it was there before
        if id(tensor) in self._known:
            return Again(self._known[id(tensor)])
        self._known[id(tensor)] = len(self._known)
        self._kept.append(tensor)
        return self.made(tensor)

    def made(self, tensor: Any) -> Made:
        """A tensor of a subclass in parts."""
        kind, marked = type(tensor), PARAMETER_MARK in vars(tensor)
        if not is_wrapper(tensor):
            _require_elements(tensor)
            context = {name: value for name, value in vars(tensor).items() if name != PARAMETER_MARK}
            return Made(kind, (), False, marked, (_plain_view(tensor),), context, (), ())
        if not flattens(kind):
            refuse("a wrapper has no __tensor_flatten__ and __tensor_unflatten__", tensor)
        if tensor.gradient is not None and tensor.gradient.required:
            refuse("a new wrapper requires gradients", tensor)
        inner, context = taken_apart(tensor)
        parts: Any = tuple(inner.values())
        recorded = requires(tensor)
        if recorded:
            with Scope(grad=True):
                parts = TakenApart.apply(tensor, False)
        below = tuple([self.made(part) if is_packed(part) else part for part in parts])
        sizes, strides = (tuple(map(wrap_size, part)) for part in (tensor.form.shape, tensor.form.strides))
        return Made(kind, tuple(inner), recorded, marked, below, context, sizes, strides)


class Rebuilt:
    """Puts together the tensors of subclasses among what a graph gives. `given` are its inputs."""

    def __init__(self, given: Sequence[object]) -> None:
        self._given = given
        self._made: list[object] = []

    def value(self, value: object) -> object:
        """A value with tensors of subclasses in place of what stands for them."""
        if isinstance(value, Given):
            return self._given[value.position]
        if isinstance(value, Again):
            return self._made[value.position]
        if isinstance(value, Made):
            self._made.append(None)
            position = len(self._made) - 1
            self._made[position] = made = self.tensor(value)
            return made
        return in_containers(self.value, value, (tuple, list, dict))

    def tensor(self, made: Made) -> Any:
        """A tensor of a subclass, with its history."""
        parts: list[Any] = [self.tensor(part) if isinstance(part, Made) else part for part in made.parts]
        if not made.names:
            result = wrap(parts[0], made.kind)
            vars(result).update(made.context)
        else:

            def build(inner: Sequence[object]) -> object:
                kind = made.kind
                named = dict(zip(made.names, inner, strict=True))
                return kind.__tensor_unflatten__(named, made.context, Size(made.size), made.stride)

            result = PutTogether.apply(build, None, *parts) if made.recorded else build(parts)
        if made.marked:
            vars(result)[PARAMETER_MARK] = True
        return result


def in_containers(change: Callable[[object], object], value: Any, kinds: tuple[type, ...] = ()) -> object:
    """A container with its values changed, itself if none is another one then; anything else as it is.

    Containers are tuples, lists and dicts, and instances of `kinds`.
    """
    if (type(value) not in (tuple, list, dict) and not isinstance(value, kinds)) or not value:
        return value
    before: list[object] = list(value.values()) if isinstance(value, dict) else list(value)
    parts = [change(part) for part in before]
    if are_same(parts, before):
        return value
    if isinstance(value, dict):
        return type(value)(zip(value, parts, strict=True))
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def entries_of(container: Any) -> list[object]:
    """What is in a tuple, list or dict, keys included."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def are_same(values: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(values) == len(others) and all(map(is_, values, others))
