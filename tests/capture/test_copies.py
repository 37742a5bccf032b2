"""Copies of objects in compiled functions: the methods that copying asks for are called as Python calls them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

import rushlight as rl
from rushlight.capture.resume.reached import Reroot

_LOG: list[str] = []
CALLS = 3


@dataclass
class Settings:
    scale: int = 2
    sizes: list[int] = field(default_factory=lambda: [1, 2])


class Renamed:
    """Attributes that have other names, as in settings of models; each look-up is written down."""

    names = {"width": "size"}

    def __init__(self) -> None:
        self.size = 3

    def __getattribute__(self, name: str) -> object:
        _LOG.append(name)
        return object.__getattribute__(self, Renamed.names.get(name, name))

    def __eq__(self, other: object) -> bool:
        _LOG.append("eq")
        return self is other

    __hash__ = None  # type: ignore[assignment]


class Told(Settings):
    def __getstate__(self) -> dict[str, object]:
        _LOG.append("state")
        return {"scale": self.scale + 1, "sizes": self.sizes}


class Reduced(Settings):
    def __reduce__(self) -> tuple[object, ...]:
        _LOG.append("reduce")
        return Reduced, (self.scale + 2,)


class Given:
    def __new__(cls, scale: int) -> Self:
        made = object.__new__(cls)
        made.scale = scale
        return made

    def __getnewargs__(self) -> tuple[int]:
        _LOG.append("arguments")
        return (self.scale,)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]
    scale: int


class Named(Given):
    def __new__(cls, *, scale: int) -> Self:
        return super().__new__(cls, scale)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        _LOG.append("names")
        return (), {"scale": self.scale}


class Slotted:
    __slots__ = ("__dict__", "scale")

    def __init__(self) -> None:
        self.scale, self.other = 3, 4

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]


MADE: dict[str, Callable[[], object]] = {
    "dataclass": Settings,
    "getattribute": Renamed,
    "getstate": Told,
    "getnewargs": lambda: Given(5),
    "getnewargs_ex": lambda: Named(scale=5),
    "reduce": Reduced,
    "slots": Slotted,
}


def _seen(result: tuple[rl.Tensor, object]) -> list[object]:
    """What a result and the object in it hold, without a call of its methods."""
    value, made = result
    return [value.tolist(), type(made), object.__getattribute__(made, "__dict__"), _LOG[:]]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("is_argument", [False, True])
@pytest.mark.parametrize("kind", MADE)
def test_copies_ask_the_methods_of_an_object_as_python_does(
    kind: str, how: Callable[[object], object], *, is_argument: bool
) -> None:
    held = MADE[kind]()

    def function(x: rl.Tensor, owner: object) -> tuple[rl.Tensor, object]:
        made = how(owner if is_argument else held)
        return x * 2, made

    compiled = rl.compile(function, backend="eager")
    for _ in range(CALLS):
        runs: list[list[object]] = []
        for call in (function, compiled):
            _LOG.clear()
            runs.append(_seen(call(rl.ones(2), held if is_argument else None)))
        assert runs[0] == runs[1]


def test_a_copy_of_a_dataclass_of_the_state_is_part_of_a_graph() -> None:
    held = Settings()

    def function(x: rl.Tensor) -> rl.Tensor:
        other = copy.deepcopy(held)
        other.scale += len(other.sizes)
        return x * other.scale

    compiled = rl.compile(function, fullgraph=True)
    before = rl.compiler.graph_count()
    assert [compiled(rl.ones(1)).item() for _ in range(CALLS)] == [4] * CALLS
    assert rl.compiler.graph_count() == before + 1
    held.scale = 5
    assert compiled(rl.ones(1)).item() == 7


def test_objects_whose_class_sees_every_attribute_are_made_in_a_graph() -> None:
    def function(x: rl.Tensor) -> tuple[rl.Tensor, Renamed]:
        made = Renamed()
        return x * made.width, made

    compiled = rl.compile(function, backend="eager")
    for _ in range(CALLS):
        runs: list[list[object]] = []
        for call in (function, compiled):
            _LOG.clear()
            runs.append(_seen(call(rl.ones(2))))
        assert runs[0] == runs[1]


def test_variables_of_objects_that_each_trace_makes_anew_end_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[object] = []
    made = Reroot.__init__
    monkeypatch.setattr(Reroot, "__init__", lambda *given, **named: traces.append(made(*given, **named)))

    def function(x: rl.Tensor) -> tuple[list[float], dict[str, object]]:
        model, saved, losses = rl.nn.Linear(2, 1, bias=False), {}, []
        with rl.no_grad():
            model.weight.fill_(1.0)
        for turn in range(3):
            loss = (model(x) * turn).sum()
            loss.backward()
            saved = copy.deepcopy(model.state_dict())
            with rl.no_grad():
                model.weight.mul_(2)
            losses.append(loss.item())
        return losses, {name: value.tolist() for name, value in saved.items()}

    assert rl.compile(function, backend="eager")(rl.ones(1, 2)) == function(rl.ones(1, 2))
    assert len(traces) < 32


def test_copies_of_views_share_what_they_shared() -> None:
    def copied() -> Any:
        whole = rl.zeros(4, 3)
        rows, column = copy.deepcopy([whole[1:3], whole.t()[0]])
        column.fill_(5.0)
        return rows.tolist(), whole.tolist(), rows.stride(), rows.storage_offset(), column.stride()

    assert rl.compile(copied, fullgraph=False, backend="eager")() == copied()
    with pytest.raises(rl.RushlightError, match="deepcopy: the copy of a view"):
        rl.compile(lambda x: copy.deepcopy(x[0]), fullgraph=True)(rl.ones(2, 2))
