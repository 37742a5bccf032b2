"""What export is told of sizes: `Dim`, and `dynamic_shapes` in PyTorch's form, as one specification."""

from __future__ import annotations

import enum
import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, cast

from rushlight.eager.handle import Handle
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, TensorSpec
from rushlight.ir.spec.size import ShapeExpr, ShapeVar
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.sym import optimization_hint


class Policy(enum.Enum):
    """What becomes of a size that no variable names: open as far as the program allows, open, or fixed."""

    AUTO = "AUTO"
    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"


class Dim:
    """`Dim("batch", min=1, max=64)` is a size by name: a variable of the specification, 0 or more if nothing is said.

    Expressions such as `2 * batch + 1` are sizes too. `Dim.AUTO` is a size that is open as far as the program allows,
    `Dim.DYNAMIC` one that is open or else an error, `Dim.STATIC` the size of the example.
    """

    AUTO: ClassVar[Policy] = Policy.AUTO
    DYNAMIC: ClassVar[Policy] = Policy.DYNAMIC
    STATIC: ClassVar[Policy] = Policy.STATIC

    def __new__(cls, name: str, *, min: int | None = None, max: int | None = None) -> object:
        """The variable."""
        return ShapeVar(name, 0 if min is None else min, max)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Any, ...]:
    """A tuple of sizes by name, as `Dim` makes each of them.

    ```python
    batch, length = rl.export.dims("batch", "length", max=64)
    ```
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


@frozen
class Given:
    """A specification, and the example's values of the variables that the program may ask about.

    With `asks` it may ask about something: of these, or the values of floats.
    """

    spec: ParamsSpec
    examples: Mapping[str, int]
    asks: bool


def argument_names(function: Any, args: Sequence[object]) -> tuple[str, ...]:
    """The names of positional arguments, as the function has them; those of *args are numbered."""
    given: tuple[str, ...] | None = getattr(function, "argument_names", None)
    if given is not None and len(given) == len(args):
        return given
    try:
        signature = inspect.signature(function.forward if hasattr(type(function), "forward") else function)
    except (TypeError, ValueError):
        return tuple([f"arg{position}" for position in range(len(args))])
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{position}" for position in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"arg{position}" for position in range(len(names), len(args))]
    return tuple(names[: len(args)])


def specification(
    names: Sequence[str], args: tuple[object, ...], kwargs: dict[str, object], dynamic_shapes: object
) -> Given:
    """What `dynamic_shapes` says of a call. C035 where it does not fit the arguments."""
    if isinstance(dynamic_shapes, (str, ParamsSpec)):
        spec = ParamsSpec.parse(dynamic_shapes) if isinstance(dynamic_shapes, str) else dynamic_shapes
        return Given(spec, {}, False)
    return _Maker(dynamic_shapes).given(names, args, kwargs, dynamic_shapes)


class _Maker:
    """Makes the specification of one call."""

    def __init__(self, said: object) -> None:
        taken = {variable.name for variable in _variables(said)}
        self.names = (name for name in map("s{}".format, itertools.count()) if name not in taken)
        self.examples: dict[str, int] = {}
        self.asks = False

    def given(self, names: Sequence[str], args: tuple[object, ...], kwargs: dict[str, object], said: Any) -> Given:
        """The specification; without a word on sizes all are open as far as the program allows."""
        parts: list[object] = [Policy.AUTO] * len(args)
        named: dict[str, object] = dict.fromkeys(kwargs, Policy.AUTO)
        if isinstance(said, Mapping):
            said = cast(Mapping[str, object], said)
            fits = set(said) <= {*names, *kwargs}
            _require(fits, f"it names {sorted(said)}, and they are {[*names, *kwargs]}")
            parts = [said.get(name) for name in names]
            named = {name: said.get(name) for name in kwargs}
        elif said is not None:
            _require(isinstance(said, (tuple, list)), f"it is a {type(said).__name__}, no dict by names and no tuple")
            count = len(args) + len(kwargs)
            _require(len(said) == count, f"it has {len(said)} entries, and they are {count}")
            parts, named = list(said[: len(args)]), dict(zip(kwargs, said[len(args) :], strict=True))
        items = [self.item(value, part, name) for value, part, name in zip(args, parts, names, strict=True)]
        rest: dict[str, Any] = {name: self.item(value, named[name], name) for name, value in kwargs.items()}
        return Given(ParamsSpec(*items, **rest), self.examples, self.asks)

    def item(self, value: Any, said: Any, path: str) -> object:
        """The specification of one argument."""
        if isinstance(value, Handle):
            return self.tensor(value, said, path)
        if type(value) in (tuple, list):
            parts = [said] * len(value) if said is None or isinstance(said, Policy) else said
            fits = isinstance(parts, (tuple, list)) and len(parts) == len(value)
            _require(fits, f"{path} has {len(value)} entries, and for it there is {said!r}")
            pairs = zip(value, parts, strict=True)
            return type(value)([self.item(part, one, f"{path}[{at}]") for at, (part, one) in enumerate(pairs)])
        if type(value) is dict:
            parts = dict.fromkeys(value, said) if said is None or isinstance(said, Policy) else said
            fits = isinstance(parts, dict) and set(parts) <= set(value)
            _require(fits, f"{path} has the keys {list(value)}, and for it there is {said!r}")
            return {key: self.item(part, parts.get(key), f"{path}[{key!r}]") for key, part in value.items()}
        return self.number(value, said, path)

    def number(self, value: Any, said: object, path: str) -> object:
        """The specification of an argument that is no tensor."""
        if said is None or said is Policy.STATIC or type(value) not in (int, float):
            plain = value is None or isinstance(value, (bool, int, float, str))
            hint = "export takes tensors, numbers and text, in tuples, lists and dicts"
            require(plain, "C035", f"export: {path} is a {type(value).__name__}", hint=hint)
            return ConstSpec(value)
        self.asks |= said is Policy.AUTO
        if type(value) is float:
            return FloatSpec()
        return IntSpec(said if isinstance(said, ShapeVar) else self.fresh(value, said is Policy.AUTO, None))

    def tensor(self, tensor: Handle, said: Any, path: str) -> TensorSpec:
        """The specification of a tensor."""
        sizes = [optimization_hint(size) for size in tensor.form.type.shape]
        if said is None or isinstance(said, Policy):
            entries: list[object] = [said] * len(sizes)
        elif isinstance(said, Mapping):
            places = {dim % len(sizes) if -len(sizes) <= dim < len(sizes) else dim: it for dim, it in said.items()}
            fits = set(places) <= set(range(len(sizes)))
            _require(fits, f"{path} has {len(sizes)} dims, and it names the dims {list(said)}")
            entries = [places.get(dim) for dim in range(len(sizes))]
        else:
            fits = isinstance(said, (tuple, list)) and len(said) == len(sizes)
            _require(fits, f"{path} has {len(sizes)} dims, and for it there is {said!r}")
            entries = list(said)
        dims = [self.dim(size, entry, f"dim {at} of {path}") for at, (size, entry) in enumerate(zip(sizes, entries))]
        return TensorSpec(tensor.form.dtype, dims)

    def dim(self, size: int, said: object, path: str) -> int | ShapeExpr:
        """A dim of a specification."""
        if said is None or said is Policy.STATIC:
            return size
        if isinstance(said, Policy):
            return self.fresh(size, said is Policy.AUTO, 0)
        if isinstance(said, int):
            _require(said == size, f"{path} is {size} in the example, not {said}")
        elif not isinstance(said, ShapeExpr):
            _refuse(f"for {path} there is {said!r}, no Dim, integer or None")
        return said

    def fresh(self, value: int, auto: bool, lower: int | None) -> ShapeVar:
        """A variable without a name of its own."""
        variable = ShapeVar(next(self.names), lower)
        if auto:
            self.asks = True
            self.examples[variable.name] = value
        return variable


def _variables(said: object) -> Iterator[ShapeVar]:
    if isinstance(said, ShapeExpr):
        yield from said.variables
    elif isinstance(said, (Mapping, tuple, list)):
        parts: Iterable[object] = said.values() if isinstance(said, Mapping) else said
        for part in parts:
            yield from _variables(part)


def _require(fits: bool, otherwise: str) -> None:
    if not fits:
        _refuse(otherwise)


def _refuse(reason: str) -> NoReturn:
    hint = "write a dict by parameter, or a tuple in order, of {dim: Dim(name)}; None keeps the example's sizes"
    fail("C035", f"export: dynamic_shapes does not fit the arguments: {reason}", hint=hint)
