"""Operators as functions: what graphs call, what `__torch_dispatch__` is given, and what `rl.ops.aten` has.

There is one function for each operator, so that programs may tell operators by `is`.
"""

from __future__ import annotations

from typing import Any, cast

from rushlight.eager.handle import Handle
from rushlight.eager.mutation import COPY, FILL, Mutation, in_place, out_form
from rushlight.eager.override.answering import answer, relevant
from rushlight.ops.record import OPERATORS, UNBACKED, Operator
from rushlight.term import Op

# PyTorch's names of overloads: all of an operator's are one function here.
_OVERLOADS = frozenset(
    (
        "default",
        "Tensor",
        "Scalar",
        "Tensor_Scalar",
        "Tensor_Tensor",
        "Scalar_Tensor",
        "Tensor_mode",
        "Scalar_mode",
        "int",
        "int_Scalar",
        "int_Tensor",
        "self",
        "out",
        "dim",
        "dim_IntList",
        "dim_int",
        "correction",
        "start",
        "start_step",
        "dtype",
        "device",
        "other",
        "memory_format",
        "size",
        "vec",
        "values",
        "names",
        "input",
        "value",
        "p",
        "src",
        "order",
    )
)
_functions: dict[str, OperatorFunction] = {}
_WRITES = {one.name: one for one in (COPY, FILL)}


class OperatorFunction:
    """An operator as a function: what it is called with follows its schema.

    `default`, `Tensor` and PyTorch's other names of overloads are the function itself, but for `out`, which is another
    one. It equals the operator's record.
    """

    namespace = "aten"
    _overloadname = "default"

    def __init__(self, operator: Operator | Mutation) -> None:
        self.operator = operator
        base = operator if isinstance(operator, Operator) else operator.base
        schema = self._schema = None if base is None else base.schema
        self.__name__ = self.__qualname__ = identifier(operator.name)
        self.__module__ = "rushlight.fx.ops"
        self.__doc__ = operator.doc if isinstance(operator, Operator) else f"{operator.name}, in place."
        self._unbacked = tuple([one.name for one in schema.attributes if one.type in UNBACKED]) if schema else ()

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Apply the operator."""
        asked = relevant([*args, *kwargs.values()])
        if any(not isinstance(one, Handle) for one in asked):
            return answer(self, asked, args, kwargs)
        given = {**dict.fromkeys(self._unbacked), **kwargs} if self._unbacked else kwargs
        return self._apply(*args, **given)

    def _apply(self, *args: object, **kwargs: object) -> object:
        return self.operator(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.operator

    def __hash__(self) -> int:
        return hash(self.operator)

    @property
    def overloadpacket(self) -> object:
        """The function itself."""
        return self

    def overloads(self) -> list[str]:
        """The names of the overloads: one."""
        return [self._overloadname]

    def name(self) -> str:
        """Return the operator's name."""
        return self.operator.name

    def __getattr__(self, name: str) -> OperatorFunction:
        if name == "out" and isinstance(self.operator, Operator):
            return function_for(out_form(self.operator))
        if name in _OVERLOADS:
            return self
        raise AttributeError(name)

    def __reduce__(self) -> tuple[object, ...]:
        return function_of, (self.operator.name,)

    def __repr__(self) -> str:
        return f"rushlight.fx.ops.{self.__name__}"


class ReadFunction(OperatorFunction):
    """What a wrapper is asked for its one element: called with a tensor, it gives a Python number."""

    def __init__(self) -> None:
        super().__init__(OPERATORS["item"])
        self.__name__ = self.__qualname__ = "_local_scalar_dense"

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Return the element."""
        (tensor,) = (*args, *kwargs.values())
        return cast(Any, tensor).item()


def identifier(name: str) -> str:
    """Return an operator's name as Python writes it."""
    return name.replace("::", "__").replace(".", "_")


def function_for(operator: Op) -> OperatorFunction:
    """Return an operator as a function: the same one each time."""
    function = _functions.get(operator.name)
    if function is None or function.operator is not operator:
        assert isinstance(operator, (Operator, Mutation)), "others are no operators of programs"
        function = _functions[operator.name] = OperatorFunction(operator)
    return function


def adopt_function(function: OperatorFunction) -> None:
    """Makes a function the one of its operator."""
    _functions[function.operator.name] = function


def forget_function(name: str) -> None:
    """Lets go of the function of an operator that is gone."""
    _functions.pop(name, None)


def function_of(name: str) -> OperatorFunction:
    """Return an operator as a function, by its name."""
    return function_for(_operator_of(name))


def _operator_of(name: str) -> Operator | Mutation:
    if name in OPERATORS or ".over_" in name:  # of a batch, whose name may end like that of an in-place form
        return OPERATORS[name]
    if name.endswith(".out"):
        return out_form(OPERATORS[name.removesuffix(".out")])
    return _WRITES[name] if name in _WRITES else in_place(OPERATORS[name.removesuffix("_")])


def is_operator(name: str) -> bool:
    """Whether there is an operator, or an in-place form, of a name."""
    return name in OPERATORS or name in _WRITES or (name.endswith("_") and name[:-1] in OPERATORS)
