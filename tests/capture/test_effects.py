"""What a compiled function does to containers, attributes and variables happens at every call, once, or is an error."""

from __future__ import annotations

import types
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.api import CompiledModule, explain_entries
from rushlight.eager.dispatch import Key, register
from rushlight.eager.interception import TorchDispatchMode
from rushlight.support.errors import CompileError, DeprecationNotice, forget_warnings
from rushlight.term import Op


def appended(x: Any, items: list[Any]) -> Any:
    items.append(x * 2)
    return x.sum()


def written(x: Any, items: dict[str, Any]) -> Any:
    items["y"] = x * 2
    return items


def deleted(x: Any, items: dict[str, Any]) -> Any:
    items.pop("a", None)
    return x + 1


def reordered(x: Any, items: dict[str, Any]) -> Any:
    items["a"] = items.pop("a")
    return x + 1


def replaced(x: Any, items: list[Any]) -> Any:
    items[0] = x
    return items[0]


CASES = [
    (appended, list),
    (written, lambda: {"a": 1}),
    (deleted, lambda: {"a": 1, "b": 2}),
    (reordered, lambda: {"a": 1, "b": 2}),
    (reordered, lambda: OrderedDict(a=1, b=2)),
    (replaced, lambda: [1, 2]),
]


@pytest.mark.parametrize(("function", "make"), CASES)
def test_containers_among_the_arguments(function: Callable[..., Any], make: Callable[[], Any]) -> None:
    one, other = make(), make()
    compiled = rl.compile(function)
    for at in range(3):
        x = rl.ones(2) * at
        result, wanted = compiled(x, one), function(x, other)
        assert repr(result) == repr(wanted) and (result is one) == (wanted is other)
        assert repr(one) == repr(other)


def test_bytes_that_change_are_an_error_and_stay_as_they_were() -> None:
    items = bytearray([1])

    def function(x: Any) -> Any:
        items.append(2)
        return x

    with pytest.raises(rl.RushlightError) as caught:
        rl.compile(function, fullgraph=True)(rl.ones(1))
    assert caught.value.code == "C003" and len(items) == 1


def test_a_list_that_is_given_twice_is_one_list() -> None:
    compiled = rl.compile(lambda x, one, other: (appended(x, one), len(other), one is other), fullgraph=True)
    items: list[Any] = []
    for count in (1, 2):
        assert compiled(rl.ones(1), items, items)[1:] == (count, True) and len(items) == count
    assert compiled(rl.ones(1), items, [])[1:] == (0, False)


RATE = 2.0


def scaled(x: Any) -> Any:
    return x * RATE


def test_globals_of_functions_that_are_called_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return scaled(x)

    compiled = rl.compile(function)
    assert compiled(rl.ones(1)).item() == 2
    monkeypatch.setitem(globals(), "RATE", 5.0)
    assert compiled(rl.ones(1)).item() == 5


class Counter:
    """An object whose method counts."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """One more."""
        self.count += 1


def test_attributes_that_methods_change_change_at_every_call() -> None:
    counter = Counter()

    def function(x: Any) -> Any:
        counter.add()
        return x + 1

    compiled = rl.compile(function)
    for at in range(3):
        compiled(rl.ones(1))
        assert counter.count == at + 1


def test_attributes_that_nobody_reads_are_not_guarded() -> None:
    layer = nn.Linear(2, 2)
    layer.log = []
    layer.seen = 0
    compiled = rl.compile(layer)
    rl.compiler.reset()
    for at in range(4):
        layer.log.append(compiled(rl.ones(1, 2)))
        layer.seen = at
    layer.log = []
    compiled(rl.ones(1, 2))
    assert rl.compiler.graph_count() == 1


def test_a_compiled_module_lists_the_attributes_of_the_module() -> None:
    module = nn.Linear(2, 2)
    assert {*dir(module), "_orig_mod"} <= {*dir(rl.compile(module))}


def test_methods_that_give_the_module_give_the_compiled_one() -> None:
    compiled = rl.compile(nn.Linear(2, 2))
    for made in (compiled.to("cpu"), compiled.eval(), compiled.train(), compiled.double(), compiled.requires_grad_()):
        assert made is compiled and isinstance(made, CompiledModule)


class Pair(tuple[Any, ...]):
    """A tuple that attributes can be set on."""

    note: Any


def test_attributes_of_tuples_are_kept() -> None:
    def function(x: Any) -> Any:
        pair: Any = Pair((x, 1))
        pair.note = x * 2
        return pair

    found: Any = rl.compile(function)(rl.ones(2))
    assert type(found) is Pair and found.note.tolist() == [2, 2]


class Mode(TorchDispatchMode):
    """A mode that changes nothing."""


class Wrapper(rl.Tensor):
    """A subclass that answers operators itself."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*[getattr(item, "inner", item) for item in args], **(kwargs or {}))


def meeting(case: str) -> None:
    compiled = rl.compile(lambda x: x * 2, fullgraph=True)
    compiled(rl.ones(2))
    wrapper = rl.Tensor._make_wrapper_subclass(Wrapper, (2,), dtype=rl.float32)
    wrapper.inner = rl.ones(2)
    if case == "mode within":

        def function(x: Any) -> Any:
            with Mode():
                return x * 2

        rl.compile(function, fullgraph=True)(rl.ones(2))
    elif case == "argument":
        compiled(wrapper)
    else:
        rl.compile(lambda x: x + wrapper, fullgraph=True)(rl.ones(2))


@pytest.mark.parametrize("case", ["mode within", "argument", "closure"])
def test_modes_and_wrappers_that_cannot_be_taken_apart_are_an_error(case: str) -> None:
    with pytest.raises(rl.RushlightError) as caught:
        meeting(case)
    assert caught.value.code == "C036"


def test_a_failed_capture_leaves_everything_as_it_was() -> None:
    layer = nn.Linear(2, 2)
    optimizer = rl.optim.Adam(layer.parameters())
    log = {"a": 1, "b": 2}

    def step(x: Any) -> Any:
        del log["a"]
        log["c"] = x
        layer(x).sum().backward()
        optimizer.step()
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        rl.compile(step, fullgraph=True)(rl.ones(1, 2))
    assert list(log.items()) == [("a", 1), ("b", 2)]
    assert layer.weight.grad is None and not optimizer.state_dict()["state"]


@pytest.mark.parametrize("present", [True, False])
def test_gradients_that_are_cleared_are_gone_at_every_call(present: bool) -> None:
    weight = nn.Parameter(rl.ones(3))

    def function(x: Any) -> Any:
        weight.grad = None
        return x * 2

    compiled = rl.compile(function)
    for has_gradient in (present, True, False):
        weight.grad = rl.ones(3) if has_gradient else None
        compiled(rl.ones(3))
        assert weight.grad is None


def test_gradients_of_arguments_are_cleared() -> None:
    x = rl.ones(3, requires_grad=True)

    def function(x: Any) -> Any:
        x.grad = None
        return x * 2

    compiled = rl.compile(function)
    for _ in range(2):
        x.grad = rl.ones(3)
        compiled(x)
        assert x.grad is None


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("owner", ["x", "w"])
@pytest.mark.parametrize(
    "body",
    [
        "{0}.grad = None",
        "del {0}.grad",
        "if {0}.grad is None: return x.detach() * 2",
        "if {0}.grad is not None: {0}.grad.zero_()",
        "(x * w).sum().backward()",
        "{0}.grad = None; (x * w).sum().backward()",
        "if {0}.grad is not None: x = {0}.grad * 2",
        "{0}.grad = w.detach() * 5",
    ],
)
def test_whether_there_is_a_gradient_counts_where_it_is_read(body: str, owner: str, present: bool) -> None:
    """The owner is an argument or a tensor that the function reaches; gradients come and go between calls."""

    def outcomes(compiled: bool) -> list[object]:
        space: dict[str, Any] = {"w": rl.tensor([1.0, 2.0], requires_grad=True)}
        exec(f"def f(x):\n    {body.format(owner)}\n    return x.detach()", space)
        f, x, w = (rl.compile(space["f"]) if compiled else space["f"]), rl.ones(2, requires_grad=True), space["w"]
        seen: list[object] = []
        for value in (1.0, None, 2.0) if present else (None, 3.0, None):
            for tensor in (x, w):
                tensor.grad = None if value is None else rl.full((2,), value)
            seen.append(f(x).tolist())
            seen += [None if tensor.grad is None else tensor.grad.tolist() for tensor in (x, w)]
        return seen

    assert outcomes(True) == outcomes(False)


def test_gradients_of_tensors_that_want_none_are_read_and_written() -> None:
    @rl.compile
    def f(x: Any) -> Any:
        if x.grad is None:
            x.grad = x * 3
            return x + 0
        return x.grad * 2

    x = rl.ones(2)
    assert f(x).tolist() == [1.0, 1.0] and x.grad.tolist() == [3.0, 3.0]
    assert f(x).tolist() == [6.0, 6.0]
    assert f(rl.ones(2)).tolist() == [1.0, 1.0]


def test_a_step_that_drops_gradients_is_one_program_with_and_without() -> None:
    w = rl.nn.Parameter(rl.ones(3))
    optimizer = rl.optim.SGD([w], lr=0.5)

    @rl.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(rl.ones(3))
    assert w.tolist() == [-0.5] * 3
    assert len(explain_entries(step)) == 1


@pytest.mark.parametrize("generator", [rl.default_generator, rl.Generator()], ids=["default", "own"])
def test_a_seed_is_set_at_each_call(generator):
    def drawn(x):
        generator.manual_seed(3)
        return x * rl.rand(2, generator=generator)

    expected = drawn(rl.ones(2)).tolist()
    for compiled in (rl.compile(drawn), rl.compile(drawn, fullgraph=False)):
        for _ in range(3):
            assert compiled(rl.ones(2)).tolist() == expected
    with pytest.raises(rl.CompileError, match="seed is kept out of graphs"):
        rl.compile(drawn, fullgraph=True)(rl.ones(2))


def test_a_default_dtype_is_set_at_each_call():
    def made(x):
        rl.set_default_dtype(rl.float64)
        return x + rl.ones(2)

    try:
        for compiled in (rl.compile(made), rl.compile(made, fullgraph=False)):
            for _ in range(2):
                rl.set_default_dtype(rl.float32)
                assert compiled(rl.ones(2)).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)


LONG = list(range(400))
TABLE = dict.fromkeys(range(400), 1)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])
def test_long_containers_keep_their_entries(whole):
    def reads(x, given):
        return x + LONG[399] + TABLE[399] + given[399]

    def writes(x, given):
        given[399] = x
        return x + 1

    given = list(range(400))
    for function in (reads, writes):
        for _ in range(2):
            rl.compile(function, fullgraph=whole)(rl.ones(2), given)
            assert list(range(400)) == LONG and list(TABLE) == LONG
            assert given[:399] == LONG[:399] and len(given) == 400


KEPT_FACTORS: defaultdict = defaultdict(lambda: 2.0)
KEPT_RESULTS: dict = {}


@pytest.mark.parametrize("fullgraph", [False, True])
def test_methods_of_dicts_change_them_at_each_call(fullgraph):
    def f(x):
        KEPT_RESULTS.update({"now": x + 1}, last=KEPT_RESULTS.pop("now", 0))
        return x * KEPT_FACTORS["first"] + KEPT_RESULTS.setdefault("added", 3)

    KEPT_FACTORS.clear()
    KEPT_RESULTS.clear()
    compiled = rl.compile(f, fullgraph=fullgraph)
    for size in (2, 3, 4):
        assert compiled(rl.ones(size)).tolist() == [5.0] * size
        assert KEPT_FACTORS == {"first": 2.0}
        assert [*KEPT_RESULTS] == ["now", "last", "added"] if size == 2 else ["last", "added", "now"]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_container_of_the_state_that_is_returned_is_itself(fullgraph):
    def f(x):
        KEPT_RESULTS["now"] = x + 1
        return KEPT_RESULTS, [KEPT_RESULTS]

    compiled = rl.compile(f, fullgraph=fullgraph)
    for size in (2, 3):
        whole, (part,) = compiled(rl.ones(size))
        assert whole is part is KEPT_RESULTS
        assert KEPT_RESULTS["now"].tolist() == [2.0] * size


class Named:
    def __init__(self, value):
        self.value = value


def test_what_a_graph_makes_besides_tensors_is_new_at_each_call():
    def f(x):
        y = x + 1
        named = Named(y)
        return named, [named], {1, 2}, slice(0, 2), iter([x, y]), lambda: y * 2

    compiled = rl.compile(f, fullgraph=True)
    results = [compiled(rl.ones(size)) for size in (2, 3)]
    assert not any(one is other for one, other in zip(*results, strict=True))
    for size, (named, (same,), numbers, part, values, function) in zip((2, 3), results, strict=True):
        assert named is same
        assert type(named) is Named
        assert (numbers, part) == ({1, 2}, slice(0, 2))
        assert [named.value.tolist(), *[value.tolist() for value in values]] == [[n] * size for n in (2.0, 1.0, 2.0)]
        assert function().tolist() == [4.0] * size


CALLS = [0]
SEEN: dict = {}


def counted(x):
    CALLS[0] += 1
    SEEN["last"] = x * 2
    return x + 1


def test_globals_of_functions_that_are_called_change_at_each_call():
    compiled = rl.compile(lambda x: rl.utils.checkpoint.checkpoint(counted, x) * 2, fullgraph=True)
    CALLS[0] = 0
    for size in (2, 3, 4):
        assert compiled(rl.ones(size)).tolist() == [4.0] * size
        assert SEEN["last"].tolist() == [2.0] * size
    assert CALLS == [3]
    with pytest.raises(CompileError, match="changes"):
        rl.export.export(lambda x: counted(x) * 2, (rl.ones(2),))


def test_by_default_what_one_graph_cannot_hold_runs_between_graphs(capsys):
    def f(x):
        y = x + 1
        print("between")
        return y * 2

    compiled = rl.compile(f)
    assert [compiled(rl.ones(size)).tolist() for size in (2, 3)] == [[4.0] * 2, [4.0] * 3]
    assert capsys.readouterr().out == "between\nbetween\n"
    with pytest.raises(CompileError, match="print is called"):
        rl.compile(f, fullgraph=True)(rl.ones(2))
    assert capsys.readouterr().out == ""


COUNTED: int


def counts(x):
    global COUNTED
    try:
        COUNTED += 1
    except NameError:
        COUNTED = 0
    return x + COUNTED


def leaves_nothing(x):
    global COUNTED
    COUNTED = x * 2
    value = COUNTED
    del COUNTED
    return value


@pytest.mark.parametrize("full", [True, False])
def test_globals_that_were_not_there_are_bound_and_deleted(full):
    variables = globals()
    compiled = rl.compile(counts, fullgraph=full)
    for turn in range(3):
        assert compiled(rl.zeros(2)).tolist() == [turn, turn] and variables["COUNTED"] == turn
    del variables["COUNTED"]
    assert compiled(rl.zeros(2)).tolist() == [0, 0] and variables["COUNTED"] == 0
    del variables["COUNTED"]
    compiled = rl.compile(leaves_nothing, fullgraph=full)
    for _ in range(2):
        assert compiled(rl.ones(2)).tolist() == [2, 2] and "COUNTED" not in variables
    variables["COUNTED"] = 7
    if not full:  # what was there before is deleted between graphs
        assert compiled(rl.ones(2)).tolist() == [2, 2]
    variables.pop("COUNTED", None)


def bound_before_a_break(x):
    made = {}
    put = made.setdefault
    put("first", x + 1)
    rl.compiler.graph_break()
    put("second", x * 2)
    return made, len(made), "second" in made


def variables_of_an_object(x, held):
    made = {}
    made.update(held.__dict__)
    return list(made), x + 1


@pytest.mark.parametrize("program", [bound_before_a_break, variables_of_an_object])
def test_a_method_that_is_bound_to_a_dict_changes_that_dict(program):
    held = (types.SimpleNamespace(a=1, b=2),)[: program.__code__.co_argcount - 1]
    compiled = rl.compile(program, fullgraph=False)
    expected = str(program(rl.ones(2), *held))
    for _ in range(3):
        assert str(compiled(rl.ones(2), *held)) == expected


def test_a_kernel_is_registered_once_where_a_graph_is_made_again() -> None:
    op = Op("test::registered_once")

    def program(x: Any) -> Any:
        y = x * 2
        register(op, Key.DEVICE_1, lambda value: value)
        print(end="")
        return y + 1

    assert rl.compile(program)(rl.ones(2)).tolist() == [3.0, 3.0]


def warned(x):
    doubled = x * 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = doubled[[slice(0, 2)]] + 1
    return result, [str(each.message) for each in seen]


def test_a_warning_is_given_where_eager_code_gives_it_and_leaves_no_break():
    compiled = rl.compile(warned)
    for forget in (True, False, True, False):
        if forget:
            forget_warnings()
        expected = warned(rl.ones(3))
        if forget:
            assert expected[1]
            forget_warnings()
        found = compiled(rl.ones(3))
        assert found[1] == expected[1]
        assert found[0].tolist() == expected[0].tolist()

    forget_warnings()
    plain = rl.compile(lambda x: (x * 2)[[slice(0, 2)]] + 1)
    with pytest.warns(DeprecationNotice, match="list of indices"):
        plain(rl.ones(3))
    rl.compiler.reset()
    plain(rl.ones(3))
    assert rl.compiler.graph_count() == 1


def test_a_warning_that_is_an_error_goes_to_the_programs_handler():
    def careful(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return (x * 2)[[slice(0, 2)]], "given"
            except DeprecationNotice:
                return x * 3, "refused"

    forget_warnings()
    assert careful(rl.ones(3))[1] == "refused"
    forget_warnings()
    assert rl.compile(careful)(rl.ones(3))[1] == "refused"
