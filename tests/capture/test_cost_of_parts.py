"""What a function in parts costs between its graphs: counts of bytecodes, places and graphs, not of time."""

import itertools
import traceback
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.resume.balance import Balance, saved_by
from rushlight.capture.resume.patience import PatientInterpreter
from rushlight.support import events
from rushlight.support.provenance import user_frame

CALLS = 30


class Configured:
    """What computes nothing, in many bytecodes and with a break."""

    def __init__(self, count: int) -> None:
        self.parts: list[str] = []
        for number in range(count):
            print(end="")
            self.parts.append(str(number))
        self.caller = user_frame()


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytecodes are carried out between graphs, and how often a constructor is interpreted."""
    counts = [0, 0]
    go_on, leave = PatientInterpreter._go_on, PatientInterpreter.leave

    def counted(self: PatientInterpreter, *args: Any) -> None:
        counts[0] += 1
        go_on(self, *args)

    def left(self: PatientInterpreter, depth: int) -> None:
        counts[1] += 1
        leave(self, depth)

    monkeypatch.setattr(PatientInterpreter, "_go_on", counted)
    monkeypatch.setattr(PatientInterpreter, "leave", left)
    return counts


def test_a_constructor_that_no_graph_holds_is_pythons_from_its_second_call_on(interpreted: list[int]) -> None:
    def program(x: rl.Tensor) -> tuple[rl.Tensor, list[str]]:
        made = Configured(20)
        return x * 2, made.parts

    compiled = rl.compile(program)
    for call in range(3):
        result, parts = compiled(rl.ones(2) * call)
        assert result.tolist() == [2.0 * call] * 2
        assert parts == [str(number) for number in range(20)]
    assert interpreted[0] < 30
    assert interpreted[1] == 1


def test_an_error_of_such_a_constructor_has_the_lines_of_the_program() -> None:
    class Failing:
        def __init__(self, value: int) -> None:
            print(end="")
            if value == 2:
                raise LookupError(value)

    def program(x: rl.Tensor, value: int) -> rl.Tensor:
        x = x + 1
        Failing(value)
        return x * 2

    compiled = rl.compile(program)
    for value in (0, 1):
        assert compiled(rl.ones(2), value).tolist() == [4.0, 4.0]
    with pytest.raises(LookupError) as raised:
        compiled(rl.ones(2), 2)
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__) if frame.filename == __file__]
    assert names[-2:] == ["program", "__init__"]


def test_a_list_that_is_in_another_one_of_the_function_takes_no_graphs_away() -> None:
    def program(batches: list[list[rl.Tensor]]) -> list[rl.Tensor]:
        sums: list[rl.Tensor] = []
        for images in batches:
            print(end="")
            total = images[0] * 2
            for image in images[1:]:
                total = total + image * 2
            images.append(total)
            print(end="")
            sums.append(total.exp() + len(images))
        return sums

    def given() -> list[list[rl.Tensor]]:
        return [[rl.ones(2), rl.ones(2)], [rl.ones(3), rl.ones(3)]]

    rl.compiler.reset()
    compiled, counts = rl.compile(program), list[int]()
    for _ in range(8):
        batches, expected = given(), given()
        assert [value.tolist() for value in compiled(batches)] == [value.tolist() for value in program(expected)]
        assert [[image.tolist() for image in images] for images in batches] == [
            [image.tolist() for image in images] for images in expected
        ]
        counts.append(rl.compiler.graph_count())
    assert 0 < counts[0] <= 4
    assert counts[4] == counts[-1]


def test_copies_of_modules_and_of_trees_that_hold_a_tensor_twice() -> None:
    """The record of what is copied is in itself, and holds the copies."""
    module = rl.nn.Linear(2, 2)

    def module_copied(x: rl.Tensor) -> rl.Tensor:
        return deepcopy(module)(x)

    def tree_copied(x: rl.Tensor) -> rl.Tensor:
        tree = deepcopy({"one": module.weight, "list": [module.weight]})
        tree["one"].data.add_(1)
        return tree["one"] * x + tree["list"][0]

    for program in (module_copied, tree_copied):
        compiled = rl.compile(program)
        for _ in range(3):
            assert compiled(rl.ones(2, 2)).tolist() == program(rl.ones(2, 2)).tolist()


def _of_python(x: rl.Tensor) -> rl.Tensor:
    total = 0
    for number in range(200):
        print(end="")
        total += number * number % 7
        total -= number // 3
    return x * 2 + total


def _another_text_each_time() -> Callable[[rl.Tensor], rl.Tensor]:
    draws = itertools.count()

    def program(x: rl.Tensor) -> rl.Tensor:
        print(end="")
        text = str(next(draws) % 2**16)
        return x + len(text.replace("1", ""))  # which depends on its value

    return program


class _Scaled(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = rl.nn.Parameter(rl.ones(2))
        self.norm = rl.nn.LayerNorm(2)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.norm(x * self.weight)


def _another_module_each_time() -> Callable[[rl.Tensor], rl.Tensor]:
    def program(x: rl.Tensor) -> rl.Tensor:
        module = _Scaled()
        print(end="")
        x = module(x)
        print(end="")
        return x + module(x)

    return program


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [lambda: _of_python, _another_text_each_time, _another_module_each_time])
def test_a_function_whose_graphs_do_not_pay_is_pythons(make: Callable[[], Callable[[rl.Tensor], rl.Tensor]]) -> None:
    rl.compiler.reset()
    events.reset()
    eager, program = make(), make()
    compiled, counts = rl.compile(program), list[int]()
    for call in range(CALLS + 10):
        x = rl.ones(2, 2) * call
        assert compiled(x).tolist() == eager(x).tolist()
        counts.append(rl.compiler.graph_count())
    assert counts[CALLS] == counts[-1]
    found = [event for event in events.events("graph_break") if event.code == "B029"]
    assert len(found) == 1
    assert found[0].frame is not None and found[0].frame.function == program.__name__


def test_a_function_that_pays_now_and_then_is_compiled() -> None:
    balance = Balance()
    for _ in range(100):
        assert not balance.ended(-20_000)
        assert not balance.ended(-20_000)
        assert not balance.ended(100)
    assert not balance.is_lost
    lost = [balance.ended(-30_000) for _ in range(6)]
    assert lost == [False, False, False, True, False, False]
    assert balance.is_lost


def test_calls_of_large_tensors_save_more() -> None:
    programs = [rl.export.export(lambda size=size: rl.ones(size) * 2 + 1, ()) for size in (4, 1 << 20)]
    saved = [saved_by(program.graph.calls) for program in programs]
    assert saved[1] > 10 * saved[0] > 0


def test_one_graph_for_a_call_goes_on_to_serve_where_others_do_not_pay() -> None:
    def program(x: rl.Tensor, count: int) -> rl.Tensor:
        if count == 0:
            return (x * 2 + 1).exp()
        return _of_python(x)

    compiled = rl.compile(program)
    events.reset()
    for call in range(CALLS):
        assert compiled(rl.ones(2), call and 1).tolist() == program(rl.ones(2), call and 1).tolist()
    assert any(event.code == "B029" for event in events.events("graph_break"))
    with rl.compiler.set_stance("fail_on_recompile"):
        assert compiled(rl.ones(2), 0).tolist() == program(rl.ones(2), 0).tolist()
