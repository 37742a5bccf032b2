"""Generated functions for later calls with tensors of subclasses: what they hold goes to a graph in straight-line code.

A class takes part whose `__tensor_context__` names an attribute: what `__tensor_flatten__` says of a tensor depends on
the identity of this attribute's value, the form, and the rank that asks. A call whose forms have been seen then needs
neither `__tensor_flatten__` nor `__tensor_unflatten__`. It is by position, its tensors and results have no history, and
it writes to none. What does not fit is left to the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from rushlight.capture.arguments import Names
from rushlight.capture.subclass.packing import Made, Packing, is_packed
from rushlight.eager.autograd.history import requires
from rushlight.eager.handle import AUTOGRAD, PARAMETER_MARK, Handle, is_wrapper, make
from rushlight.eager.tensor import Parameter, Tensor

UNKNOWN = object()  # what a call gives for which there is no graph
_MOST_PLANS = 1 << 12
_HOLD_NOTHING = frozenset((Tensor, Parameter, int, float, bool, str, type(None)))
_PLAIN = (Tensor, Parameter)
_BROKEN = (LookupError, AttributeError, ValueError)


class GeneralCall(NamedTuple):
    """A call that was made the general way: what it got, what the graph got and gave, and the result.

    The arguments have placeholders for `given`, the tensors of subclasses, of which the last ones are `reached` by the
    function. `packings` and `parts` say how the graph got them.
    """

    emptied: tuple[Any, Any]
    is_placeholder: Callable[[object], bool]
    given: Sequence[Any]
    reached: int
    packings: Sequence[Packing]
    parts: Sequence[Any]
    outcome: tuple[Any, ...]
    result: object


class DirectCalls:
    """The generated function for calls of one kind, and what it knows by the forms of a call's tensors.

    `call(args)` gives the result, or UNKNOWN; it is None as long as there is no function. `graphs` runs the graph, and
    `finish` makes the result of what that gives, if it is not what the function knows.
    """

    def __init__(self, graphs: Callable[..., Any], finish: Callable[[Sequence[Handle], Any], object]) -> None:
        self.call: Callable[[tuple[object, ...]], object] | None = None
        self.plans: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._graphs = graphs
        self._finish = finish
        self._shape: tuple[object, ...] = ()

    def learn(self, call: GeneralCall) -> None:
        """Remembers a call, if it can be made directly. The first one decides which structure results have."""
        made, results = _listed(call.outcome[0]), _listed(call.result)
        if call.emptied[1] or any(call.outcome[1:]) or not all(map(_is_simple, call.packings, call.given)):
            return
        if not all(map(_is_direct, made, results)):
            return
        shape = (type(call.result), *[type(one) if isinstance(one, Made) else None for one in made])
        if self.call is None:
            others = [value for value in call.emptied[0] if not call.is_placeholder(value)]
            if not all(type(value) in _HOLD_NOTHING for value in others):
                return
            self._shape = shape
            self.call = self._written(call, made, results)
        if shape != self._shape:
            return
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        self.plans[_key_of(call)] = _known(call, made, results)

    def _written(
        self, call: GeneralCall, made: Sequence[Any], results: Sequence[Any]
    ) -> Callable[[tuple[object, ...]], object]:
        text = _Text(call)
        lines = text.lines(made, results, type(call.result) is tuple)
        space = text.names.space
        space.update(UNKNOWN=UNKNOWN, BROKEN=_BROKEN, requires=requires, make=make)
        space.update(graphs=self._graphs, finish=self._finish, plans=self.plans)
        exec(compile("\n".join(lines), "<rushlight direct call>", "exec"), space)  # noqa: S102 - our own text
        return space.pop("call")


def _listed(value: object) -> list[Any]:
    """The results of a call: those in a tuple, or the only one."""
    return list(value) if type(value) is tuple else [value]


def _is_simple(packing: Packing, tensor: Any) -> bool:
    """Whether an argument is a wrapper of plain tensors that its form and one attribute describe."""
    told = bool(packing.names) and hasattr(packing.kind, "__tensor_context__")
    return told and not packing.recorded and not any(packing.inner) and _holds_these(tensor, packing.names)


def _holds_these(tensor: Any, names: Sequence[str]) -> bool:
    attributes = set(vars(tensor)) - {PARAMETER_MARK}
    return is_wrapper(tensor) and attributes == {*names, type(tensor).__tensor_context__}


def _is_direct(made: object, result: Any) -> bool:
    """Whether a result can be made without its class, or is none of a subclass."""
    if not isinstance(made, Made):
        return type(made) in _HOLD_NOTHING and not is_packed(result)
    simple = hasattr(made.kind, "__tensor_context__") and not (made.recorded or made.marked)
    whole = all(type(part) in _PLAIN and not requires(part) for part in made.parts)
    return simple and whole and _holds_these(result, made.names) and not requires(result)


def _key_of(call: GeneralCall) -> tuple[object, ...]:
    pairs = zip(call.packings, call.given, strict=True)
    return tuple([form for packing, tensor in pairs for form in _forms_of(tensor, packing.names)])


def _forms_of(tensor: Any, names: Sequence[str]) -> list[object]:
    return [tensor.form, *[getattr(tensor, name).form for name in names]]


def _known(call: GeneralCall, made: Sequence[Any], results: Sequence[Any]) -> tuple[object, ...]:
    """What a call's forms fix: the sizes that the graph gets, and what a result of a subclass has besides its parts."""
    known: list[object] = [number for values in call.parts for number in values[1:]]
    for one, result in zip(made, results, strict=True):
        if isinstance(one, Made):
            known += (one.size, one.stride, *[part.form for part in one.parts], result.form, result.keys)
    return tuple(known)


class _Text:
    """Writes the function for calls like one.

    def call(args):
        try:
            (t0, t1, ) = args
            if t0.__class__ is not v0 or ... or t0 is t1: return UNKNOWN
            h0_0 = t0._local_tensor
            h1_0 = t1._local_tensor
            (n1_0, size0, stride0, p0_0, form0, keys0, ) = plans[(t0.form, h0_0.form, t1.form, h1_0.form, )]
        except BROKEN:
            return UNKNOWN
        outcome = graphs(*((v2, v3, ), {}, (((h0_0, ), ), ((h1_0, ), n1_0, ), )))
        o0 = outcome[0]
        if outcome[1] or o0.__class__ is not v4 or ...: return finish((t0, t1, ), outcome)
        r0 = make(None, form0, 0, v5)
        ...
        return r0
    """

    def __init__(self, call: GeneralCall) -> None:
        self.names = Names()
        self.failed: list[str] = []
        self.held: list[str] = []
        self.key: list[str] = []
        self.parts: list[str] = []
        self.known: list[str] = []
        count = len(call.given) - call.reached
        self.tensors = [f"t{at}" if at < count else self.names(one) for at, one in enumerate(call.given)]
        self.taken, self.passed = self._arguments(call)
        for at, packing in enumerate(call.packings):
            self._take_apart(at, packing, call.given[at], len(call.parts[at]) - 1)
        self.failed += [f"{one} is {other}" for one, other in combinations(self.tensors, 2)]

    def _arguments(self, call: GeneralCall) -> tuple[str, str]:
        """What the arguments are assigned to, and what the graph gets in their place."""
        taken, passed, seen = list[str](), list[str](), set[int]()
        for at, value in enumerate(call.emptied[0]):
            name = f"x{at}"
            if not call.is_placeholder(value):
                self.failed.append(f"{name}.__class__ not in {self.names(_HOLD_NOTHING)}")
            elif value.position in seen:
                self.failed.append(f"{name} is not {self.tensors[value.position]}")
            else:
                seen.add(value.position)
                name = self.tensors[value.position]
            taken.append(name)
            passed.append(self.names(value) if call.is_placeholder(value) else name)
        return _tuple(taken), _tuple(passed)

    def _take_apart(self, at: int, packing: Packing, tensor: Any, numbers: int) -> None:
        """Takes a tensor apart, after a look at all that the general way would look at."""
        name, attribute = self.tensors[at], packing.kind.__tensor_context__
        self.failed += [
            f"{name}.__class__ is not {self.names(packing.kind)}",
            f"{name}.{attribute} is not {self.names(getattr(tensor, attribute))}",
            f"{name}.keys & {AUTOGRAD} and requires({name})",
            f"{name}.backing is not None",
            f"({PARAMETER_MARK!r} in {name}.__dict__) is not {packing.marked}",
        ]
        held = [f"h{at}_{position}" for position in range(len(packing.names))]
        sizes = [f"n{at}_{position}" for position in range(numbers)]
        self.held += [f"{one} = {name}.{part}" for one, part in zip(held, packing.names, strict=True)]
        self.key += [f"{name}.form", *[f"{one}.form" for one in held]]
        self.known += sizes
        self.parts.append(_tuple([_tuple([_tuple([one]) for one in held]), *sizes]))

    def result(self, at: int, made: object, result: Any) -> tuple[str, list[str]]:
        """Whether a result is another one than is known, and lines that make it."""
        one = f"o{at}"
        if not isinstance(made, Made):
            return f"{one}.__class__ not in {self.names(_HOLD_NOTHING)}", [f"r{at} = {one}"]
        attribute = made.kind.__tensor_context__
        forms = [f"p{at}_{position}" for position in range(len(made.parts))]
        self.known += [f"size{at}", f"stride{at}", *forms, f"form{at}", f"keys{at}"]
        differs = f"{one}.__class__ is not {self.names(Made)} or {one}.context is not {self.names(made.context)}"
        differs += f" or {one}.recorded or {one}.marked or {one}.size != size{at} or {one}.stride != stride{at}"
        differs += "".join([f" or {one}.parts[{position}].form is not {form}" for position, form in enumerate(forms)])
        lines = [f"r{at} = make(None, form{at}, 0, {self.names(made.kind)})", f"r{at}.keys = keys{at}"]
        lines += [f"r{at}.{name} = {one}.parts[{position}]" for position, name in enumerate(made.names)]
        return differs, [*lines, f"r{at}.{attribute} = {self.names(getattr(result, attribute))}"]

    def lines(self, made: Sequence[Any], results: Sequence[Any], several: bool) -> list[str]:
        """The text of the function for these results, line by line."""
        told = [self.result(at, one, result) for at, (one, result) in enumerate(zip(made, results, strict=True))]
        outs, values = (_tuple([f"{name}{at}" for at in range(len(made))]) for name in "or")
        differs = [f"value.__class__ is not tuple or len(value) != {len(made)}"] if several else []
        finish = f"return finish({_tuple(self.tensors)}, outcome)"
        return [
            "def call(args):",
            "    try:",
            f"        {self.taken} = args",
            f"        if {' or '.join(self.failed)}: return UNKNOWN",
            *[f"        {line}" for line in self.held],
            f"        {_tuple(self.known)} = plans[{_tuple(self.key)}]",
            "    except BROKEN:",
            "        return UNKNOWN",
            f"    outcome = graphs({self.passed}, {{}}, {_tuple(self.parts)})",
            "    value = outcome[0]",
            f"    if {' or '.join(['outcome[1]', *differs])}: {finish}",
            f"    {outs} = {'value' if several else '(value, )'}",
            f"    if {' or '.join([differs for differs, _ in told] or ['False'])}: {finish}",
            *[f"    {line}" for _, lines in told for line in lines],
            f"    return {values if several else 'r0'}",
        ]


def _tuple(texts: Sequence[str]) -> str:
    return f"({''.join([f'{text}, ' for text in texts])})"
