"""Cutting a joint graph into a forward and a backward graph."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from rushlight.autodiff.budget import Choices
from rushlight.autodiff.cut import can_wait, is_cheap, is_view
from rushlight.ir.graph import PARAMETER, RELAYOUT, Call, Graph, has_effect, parameter, unbacked_outputs_of
from rushlight.ir.sizes import with_hidden_sizes
from rushlight.ir.type import row_major
from rushlight.ir.value import map_operands
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr, eq, statically_known
from rushlight.term import attr_key, postorder


@frozen
class Split:
    """`forward` gives the function's outputs, then what else is saved. `backward` gives the gradients.

    `backward` takes the joint graph's parameters at the positions `inputs`, the outputs of `forward` at the positions
    `saved`, the tangents, and, where there are `sizes` that none of these shows, their values as the shape of one more.
    Gradients of gradients may also need the parameters at the positions `more`.
    """

    forward: Graph
    backward: Graph
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    sizes: tuple[SizeExpr, ...]
    more: tuple[int, ...]
    _joint: Graph
    _outputs: int
    _tangents: int
    _kept: tuple[Call, ...]

    def other_backward(
        self, calls: Sequence[Call], gradients: Sequence[Call], tangents: Sequence[Call]
    ) -> tuple[Graph, tuple[SizeExpr, ...], tuple[int, ...]]:
        """A backward graph for other gradients, made by `calls` on the same forward graph, and its sizes.

        It takes what `backward` takes, but with these `tangents`, and behind them the parameters at the positions
        that come last in the result, which are some of `more`.
        """
        joint = self._joint
        calls, gradients = _with_known_calls(joint, self._kept, calls, gradients)
        count = len(joint.parameters) - self._tangents
        cut = _Backward(joint, count, self._outputs, self._kept, tangents, self.more)
        needed = {id(call) for call in postorder(gradients, lambda call: tuple(call.inputs()))}
        late = late_calls(tangents, calls)
        for call in calls:
            if id(call) in late and id(call) in needed:
                cut.image(call)
        images = [cut.image(call) for call in gradients]
        return *cut.graph(images, f"{joint.name}_backward"), tuple(cut.more)


def _with_known_calls(
    joint: Graph, kept: Iterable[Call], calls: Sequence[Call], gradients: Sequence[Call]
) -> tuple[list[Call], list[Call]]:
    """Calls on a joint graph, and values among them, with the graph's own calls in place of equal ones.

    What a derivative asks of the forward pass is so known to be what is `kept`, although it was asked again.
    """
    numbers: dict[int, int] = {}  # of calls, by identity: equal calls have the same
    known = _KnownCalls(numbers, {id(call) for call in kept})
    for call in joint.calls:
        same = known.find(call, call.operands)
        numbers[id(call)] = id(call) if same is None else numbers[id(same)]
        known.add(call)
    images = {id(call): call for call in (*joint.parameters, *joint.calls)}
    late: list[Call] = []
    for call in calls:
        if id(call) in images:
            late.append(call)
            continue
        operands = map_operands(call.operands, lambda operand: images.get(id(operand), operand))
        same = known.find(call, operands)
        if same is None:
            same = Call(call.op, operands, call.attrs, call.type, call.frames, call.region)
            late.append(same)
        images[id(call)] = same
    return late, [images.get(id(call), call) for call in gradients]


class _KnownCalls:
    """Calls of a graph by what they compute: of equal ones the first, or one that is `made` anyway.

    Sizes among their attributes are compared by what is known: two that are equal may be written in other words.
    """

    def __init__(self, numbers: Mapping[int, int], made: Collection[int]) -> None:
        self.numbers = numbers
        self.made = made
        self.calls: dict[Hashable, list[Call]] = {}

    def add(self, call: Call) -> None:
        """Adds a call, unless an equal one is there that serves as well."""
        key = self._key(call, call.operands)
        if key is None:
            return
        calls = self.calls.setdefault(key, [])
        place = next((place for place, other in enumerate(calls) if _same_sizes(call, other)), len(calls))
        if place == len(calls):
            calls.append(call)
        elif id(call) in self.made:
            calls[place] = call

    def find(self, call: Call, operands: tuple[object, ...]) -> Call | None:
        """The call that is equal to one on these operands."""
        candidates = self.calls.get(self._key(call, operands), ())
        return next((other for other in candidates if _same_sizes(call, other)), None)

    def _key(self, call: Call, operands: tuple[object, ...]) -> Hashable | None:
        """What equal calls have in common, but sizes; None of what cannot be compared, and of effects."""
        if has_effect(call):
            return None

        def number(operand: object) -> int:
            return self.numbers.get(id(operand), id(operand))

        parts = [tuple(map(number, operand)) if isinstance(operand, tuple) else number(operand) for operand in operands]
        key = call.op, tuple(parts), tuple([(name, attr_key(_without_sizes(value))) for name, value in call.attrs])
        try:
            hash(key)
        except TypeError:
            return None
        return key


def _is_size(value: object) -> bool:
    return isinstance(value, SizeExpr) or (isinstance(value, int) and not isinstance(value, bool))


def _without_sizes(value: object) -> object:
    if isinstance(value, tuple):
        return tuple([_without_sizes(element) for element in value])
    return "size" if _is_size(value) else value


def _same_sizes(one: Call, other: Call) -> bool:
    """Whether the sizes among the attributes of two calls of one key are equal, as far as is known."""
    return all(_equal(a, b) for (_, a), (_, b) in zip(one.attrs, other.attrs, strict=True))


def _equal(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_equal, one, other))
    if isinstance(one, int | SizeExpr) and isinstance(other, int | SizeExpr) and _is_size(one):
        return one is other or statically_known(eq(one, other))
    return True  # by the key


def late_calls(tangents: Iterable[Call], calls: Iterable[Call], late: Iterable[int] = ()) -> set[int]:
    """The tangents, the calls that are `late`, and the calls that depend on either, by identity."""
    late = {*late, *[id(call) for call in tangents]}
    for call in calls:
        if any(id(input_) in late for input_ in call.inputs()):
            late.add(id(call))
    return late


def split_joint(
    joint: Graph,
    outputs: int,
    tangents: int,
    *,
    late: Collection[int] = (),
    living: Collection[int] = (),
    recompute: bool = True,
    derived: Collection[int] = (),
    budget: float = 1.0,
) -> Split:
    """Splits a joint graph into a forward and a backward graph.

    Calls that depend on no tangent are forward; values that the backward part needs are saved or recomputed. joint's
    outputs are the function's, then the gradients; its last `tangents` parameters are the outputs' gradients. Calls
    that are `late`, by identity, belong to the backward pass although they depend on no tangent, as zero gradients do.
    Their users differ with the gradients that are wanted, so the calls are kept, not their values.
    `living` are positions of parameters that live on anyway, such as a module's: to keep them is free. Unless
    `recompute`, only views are made again. The gradients have the same bits either way. Calls that are `derived`, by
    identity, were made while the backward pass was traced. With a `budget` below 1 fewer bytes are kept, and values
    that are dear are made again too, by cost (`Choices`).
    """
    count = len(joint.parameters) - tangents
    late = late_calls(joint.parameters[count:], joint.calls, late)
    gradients = joint.outputs[outputs:]
    early = [*joint.parameters[:count], *[call for call in joint.calls if id(call) not in late]]
    needed = {id(input_): input_ for call in joint.calls if id(call) in late for input_ in call.inputs()}
    needed.update({id(call): call for call in gradients})
    required = [call for key, call in needed.items() if key not in late]
    free = [joint.parameters[position] for position in living]
    results = [*joint.outputs[:outputs], *[value for _, value in joint.mutations]]
    once = {id(call) for call in postorder(results, lambda call: tuple(call.inputs()))}

    def may_wait(call: Call) -> bool:
        """Whether the backward pass may make a value: it is cheap to repeat, or the forward pass does not need it."""
        return (is_cheap if recompute else is_view)(call) or (id(call) not in once and can_wait(call))

    kept = Choices(early, required, free, may_wait, derived).within(budget)
    cut = _Backward(joint, count, outputs, kept, joint.parameters[count:])
    for call in joint.calls:
        if id(call) in late:
            cut.build(call)
    images = [cut.image(call) for call in gradients]
    backward, sizes = cut.graph(images, f"{joint.name}_backward")
    unbacked = unbacked_outputs_of(joint.calls)
    forward = Graph(
        joint.parameters[:count],
        (*[call for call in joint.calls if id(call) not in late], *cut.relayouts),
        (*joint.outputs[:outputs], *cut.extra),
        joint.mutations,
        joint.views,
        f"{joint.name}_forward",
        tuple([index for index in joint.frozen if index < count]),
        tuple(dict.fromkeys([*joint.sizes, *[symbol for symbol in sizes if symbol in unbacked]])),
        joint.asserts,
    ).without_dead_calls()
    more = _more_parameters(joint, count, kept, derived)
    return Split(
        forward, backward, tuple(cut.inputs), tuple(cut.saved), sizes, more, joint, outputs, tangents, tuple(kept)
    )


def _more_parameters(joint: Graph, count: int, kept: Sequence[Call], derived: Collection[int]) -> tuple[int, ...]:
    """The positions of parameters that values are made of which derivatives read, beyond what is kept.

    A parameter that is overwritten is none: its value is gone.
    """
    stops = {id(call) for call in kept} | {id(call) for call in joint.parameters[count:]}
    read = [operand for call in joint.calls if id(call) in derived for operand in call.inputs()]
    roots = [call for call in read if id(call) not in derived]
    reached = postorder(roots, lambda call: () if id(call) in stops else tuple(call.inputs()))
    reached = {id(call) for call in reached} - stops
    written = {position for position, _ in joint.mutations}
    positions = enumerate(joint.parameters[:count])
    return tuple([position for position, call in positions if id(call) in reached and position not in written])


class _Backward:
    """The backward graph in the making: late calls rebuilt on parameters for what is kept, the rest made again."""

    def __init__(
        self,
        joint: Graph,
        count: int,
        outputs: int,
        kept: Iterable[Call],
        tangents: Iterable[Call],
        more: Iterable[int] = (),
    ) -> None:
        self.inputs: list[int] = []
        self.saved: list[int] = []
        self.extra: list[Call] = []  # outputs of the forward graph beyond the function's
        self.relayouts: list[Call] = []
        self._calls: list[Call] = []
        self._images: dict[int, Call] = {}
        self._inputs: list[Call] = []
        self._saved: list[Call] = []
        self._tangents: list[Call] = []
        self.more: list[int] = []  # parameters that are needed beyond what is kept
        self._more: list[Call] = []
        self._available = {id(joint.parameters[position]): position for position in more}
        for index, call in enumerate(tangents):
            self._images[id(call)] = parameter(f"tangent{index}", call.type)
            self._tangents.append(self._images[id(call)])
        mutated = {position for position, _ in joint.mutations}
        positions = {
            id(call): position for position, call in enumerate(joint.parameters[:count]) if position not in mutated
        }
        returned = {id(call): position for position, call in reversed(list(enumerate(joint.outputs[:outputs])))}
        for call in kept:
            if id(call) in positions:
                self._keep_input(call, positions[id(call)])
            else:
                self._save(call, returned.get(id(call)), outputs)

    def _keep_input(self, call: Call, position: int) -> None:
        image = self._images[id(call)] = parameter(f"in{position}", call.type)
        self.inputs.append(position)
        self._inputs.append(image)

    def _save(self, call: Call, position: int | None, outputs: int) -> None:
        image = given = parameter(f"saved{len(self.saved)}", call.type)
        kept = call
        if not call.type.is_contiguous:
            # An expanded or strided value travels as a row-major copy.
            dense = row_major(call.type)
            kept, position = Call(RELAYOUT, (call,), (), dense, call.frames, call.region), None
            given = parameter(f"saved{len(self.saved)}", dense)
            image = Call(RELAYOUT, (given,), (), call.type, call.frames, call.region)
            self.relayouts.append(kept)
            self._calls.append(image)
        if position is None:
            position = outputs + len(self.extra)
            self.extra.append(kept)
        self._images[id(call)] = image
        self.saved.append(position)
        self._saved.append(given)

    def image(self, call: Call) -> Call:
        """The call's counterpart in the backward graph.

        The calls of the forward part that it needs are recomputed before it.
        """
        for ancestor in postorder([call], self._not_made):
            if id(ancestor) not in self._images:
                self.build(ancestor)
        return self._images[id(call)]

    def _not_made(self, call: Call) -> tuple[Call, ...]:
        return () if id(call) in self._images else tuple(call.inputs())

    def build(self, call: Call) -> None:
        """Makes a call again on the images of its operands."""
        if call.op is PARAMETER:
            if id(call) not in self._available:
                fail("G015", "backward: a derivative reads what the first one did not", frame=None, input=call.type)
            self.more.append(self._available[id(call)])
            self._more.append(parameter(f"in{self.more[-1]}", call.type))
            self._images[id(call)] = self._more[-1]
            return
        operands = map_operands(call.operands, self.image)
        new = self._images[id(call)] = Call(call.op, operands, call.attrs, call.type, call.frames, call.region)
        self._calls.append(new)

    def graph(self, results: Sequence[Call], name: str) -> tuple[Graph, tuple[SizeExpr, ...]]:
        """The graph, and the sizes that it is given beside its tensors."""
        parameters = (*self._inputs, *self._saved, *self._tangents, *self._more)
        graph = Graph(parameters, tuple(self._calls), tuple(results), name=name).without_dead_calls()
        return with_hidden_sizes(graph)
