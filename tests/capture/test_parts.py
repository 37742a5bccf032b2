"""Functions that are compiled in parts do what they do uncompiled, and Python does not run what graphs can."""

import functools
import io
import itertools
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout

import pytest
from tests.capture.programs.collection import topics
from tests.capture.programs_in_parts import differing

import rushlight as rl
from rushlight.capture import explain_entries
from rushlight.capture.interpreter.frame import body_of
from rushlight.support import events, settings

ESCAPES = "a generator that others have as well is one of the interpreter's"
DIFFERING = {"functions/native_callbacks:generator_attribute_missing": ESCAPES}
FORCED_DIFFERING = DIFFERING | {
    "functions/generators:generator_kept_in_the_environment": ESCAPES,
    "slots/comparison_and_membership:lists_use_identity_before_equality": "a float behind a graph is another object",
}
STEP = 16  # one program in so many; `python -m tests.capture.programs_in_parts` runs all


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


@pytest.mark.row("3.1")
@pytest.mark.parametrize("topic", topics())
def test_a_sample_of_programs_does_what_python_does(topic):
    first = sum(map(ord, topic)) % STEP
    for name, found in differing(topic, first, STEP):
        if name in DIFFERING:
            assert found, f"{name} does not differ any more: take it off the list"
        else:
            assert not found, "\n".join([name, *found])


FORCED_STEP = 48  # one program in so many; `python -m tests.capture.programs_in_parts --forced` runs all


@pytest.mark.row("3.1")
@pytest.mark.parametrize("topic", topics())
def test_functions_go_on_from_every_instruction(topic):
    with settings.override(part_limit=1):
        for name, found in differing(topic, sum(map(ord, topic)) % STEP, FORCED_STEP):
            if name not in FORCED_DIFFERING:
                assert not found, "\n".join([name, *found])


def test_a_limit_ends_a_graph_after_each_instruction():
    def adds(x):
        y = x + 1
        return y * 2

    ends = []
    with settings.override(part_limit=1):
        compiled = rl.compile(adds, fullgraph=False)
        for _ in range(2):
            assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
        ends = [part.continuation.shapes[0].position for part in compiled.parts()]
    code = body_of(adds.__code__).code
    assert ends == list(range(len(code.instructions)))


def branch(x):
    y = x * 2 + 1
    return y.relu() if y.sum() > 10 else y - 100


def test_a_branch_on_a_value_takes_the_right_arm_each_time():
    compiled = rl.compile(branch, fullgraph=False)
    for value in (1.0, 5.0, -3.0, 5.0, 1.0):
        x = rl.full((4,), value)
        assert compiled(x).tolist() == branch(x).tolist()
    assert rl.compiler.graph_count() == 3  # up to the branch, and each arm


def test_print_prints_at_each_call():
    def shows(x):
        y = x + 1
        print(y.sum().item())
        return y * 2

    compiled = rl.compile(shows, fullgraph=False)
    for _ in range(3):
        text = io.StringIO()
        with redirect_stdout(text):
            compiled(rl.ones(3))
        assert text.getvalue() == "6.0\n"


@pytest.mark.parametrize("read", [lambda value: float(value), lambda value: value.item()])
def test_a_break_in_a_loop_makes_no_graph_per_turn(read):
    def adds(x, log):
        for turn in range(100):
            x = x * 0.5 + turn
            log.append(read(x.sum()))
        return x

    compiled = rl.compile(adds, fullgraph=False)
    log, expected = [], []
    assert compiled(rl.ones(3), log).tolist() == adds(rl.ones(3), expected).tolist()
    assert log == expected
    graphs = rl.compiler.graph_count()
    assert graphs <= 4
    compiled(rl.ones(3), [])
    assert rl.compiler.graph_count() == graphs


def test_a_list_that_grows_in_a_loop_is_read_where_the_program_reads_it():
    def adds(x, log):
        rows = []
        for _ in range(8):
            log.append(float(x.sum()))
            rows.append(x * len(log))
            x = x + log[-1] / (1 + sum(log)) if len(log) % 3 else x * 2
        return x, rows, rl.stack(rows).sum()

    compiled = rl.compile(adds, fullgraph=False)
    for value in (1.0, 2.0):
        log, expected = [], []
        x, rows, total = compiled(rl.full((2,), value), log)
        known = adds(rl.full((2,), value), expected)
        assert log == expected and x.equal(known[0]) and total.equal(known[2])
        assert [row.tolist() for row in rows] == [row.tolist() for row in known[1]]


def test_a_break_three_calls_deep_keeps_every_frame():
    def deep(x):
        y = x * 3
        return y + float(y.sum())

    def middle(x):
        return deep(x + 1) * 2

    def outer(x):
        return middle(x - 1) + x

    x = rl.tensor([1.0, 2.0])
    compiled = rl.compile(outer, fullgraph=False)
    assert compiled(x).tolist() == compiled(x).tolist() == outer(x).tolist()
    assert rl.compiler.graph_count() == 2


def test_gradients_flow_through_parts():
    def loss(x):
        y = x.sin()
        return (y * y).sum() if float(y.sum()) > 0 else y.sum()

    for values in ([1.0, 2.0], [-1.0, -2.0]):
        x, twin = (rl.tensor(values, requires_grad=True) for _ in range(2))
        rl.compile(loss, fullgraph=False)(x).backward()
        loss(twin).backward()
        assert x.grad.tolist() == twin.grad.tolist()


def test_a_module_is_compiled_in_parts():
    class Net(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = rl.nn.Linear(4, 4), rl.nn.Linear(4, 2)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            h = self.first(x).relu()
            return self.second(h) if h.sum() > 0 else h

    net = Net()
    compiled = rl.compile(net, fullgraph=False)
    x = rl.ones(3, 4)
    expected = net(x)
    assert compiled(x).tolist() == compiled(x).tolist() == expected.tolist()
    assert net.calls == 3


def test_errors_name_the_users_lines_and_reach_the_users_handlers():
    def fails(x, index):
        y = x + 1
        try:
            return y[index]
        except IndexError as error:
            return str(error)

    compiled = rl.compile(fails, fullgraph=False)
    assert compiled(rl.ones(3), 1).item() == 2.0
    text = compiled(rl.ones(3), 9)
    assert "return y[index]" in text
    assert text == fails(rl.ones(3), 9)


def test_a_list_of_the_arguments_stays_the_one_it_is():
    def keeps(x, rows):
        rows.append(x * 2)
        print(len(rows))
        return rows

    rows = []
    with redirect_stdout(io.StringIO()):
        assert rl.compile(keeps, fullgraph=False)(rl.ones(2), rows) is rows
    assert rows[0].tolist() == [2.0, 2.0]


def test_why_a_graph_ends_is_an_event():
    def stops(x):
        y = x + 1
        print(end="")
        return y * 2

    compiled = rl.compile(stops, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    here = [event for event in events.events("graph_break") if event.frame.function == "stops"]
    assert [(event.code, event.reason) for event in here] == [("B002", "builtins.print is called")]  # for three calls


def test_grad_mode_is_left_as_python_leaves_it():
    def inside(x):
        with rl.no_grad():
            y = x * 2
            print(end="")
            z = y + 1
        return z + x

    x = rl.ones(2, requires_grad=True)
    compiled = rl.compile(inside, fullgraph=False)
    for _ in range(2):
        assert compiled(x).requires_grad
        assert rl.is_grad_enabled()


def test_threads_share_the_graphs_of_a_function():
    compiled = rl.compile(branch, fullgraph=False)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda k: compiled(rl.full((4,), float(k % 7))).tolist(), range(64)))
    assert values == [branch(rl.full((4,), float(k % 7))).tolist() for k in range(64)]


def test_a_graph_for_two_lists_does_not_take_one_list_twice():
    def both(a, b):
        a[0] = a[0] + 1
        return b[0] * 2, a is b

    compiled = rl.compile(both, fullgraph=False)
    for _ in range(2):
        a, b = [rl.ones(1)], [rl.ones(1)]
        assert compiled(a, b)[0].tolist() == [2.0]
        assert a[0].tolist() == [2.0]
        y, same = compiled(a, a)
        assert (y.tolist(), same, a[0].tolist()) == ([6.0], True, [3.0])


def test_a_tuple_given_twice_is_the_same_tuple():
    def is_same(x, a, b):
        return x + 1, a is b

    compiled = rl.compile(is_same, fullgraph=False)
    x, pair = rl.ones(1), (1, 2)
    for other in (tuple(range(1, 3)), pair) * 2:
        assert compiled(x, pair, other)[1] == (other is pair)


def test_a_call_that_fails_leaves_the_graphs_to_others():
    def guarded(x, n):
        rl.check(n.item() > 0, "positive")
        return x * 2 + n

    compiled = rl.compile(guarded, fullgraph=False)
    x = rl.ones(2)
    for _ in range(3):
        assert compiled(x, rl.tensor(1)).tolist() == [3.0, 3.0]
        with pytest.raises(rl.RushlightError, match="positive"):
            compiled(x, rl.tensor(-1))
    graphs = rl.compiler.graph_count()
    assert compiled(x, rl.tensor(2)).tolist() == [4.0, 4.0]
    assert rl.compiler.graph_count() == graphs == 1


def test_a_function_whose_code_is_replaced_runs_the_new_code():
    def first(x):
        return x + 1

    def second(x):
        return x + 2

    compiled = rl.compile(first, fullgraph=False)
    x = rl.zeros(1)
    assert [compiled(x).item(), compiled(x).item()] == [1.0, 1.0]
    first.__code__ = second.__code__
    assert [compiled(x).item(), compiled(x).item()] == [2.0, 2.0]


def test_layers_in_a_list_are_one_graph():
    class Net(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = rl.nn.ModuleList([rl.nn.Linear(2, 2) for _ in range(3)])

        def forward(self, x, scales):
            for at, (layer, scale) in enumerate(zip(self.layers, scales, strict=True)):
                x = layer(x) * scale + at
            return x

    events.reset()
    net, x, scales = Net(), rl.ones(1, 2), [rl.tensor(2.0), rl.tensor(0.5), rl.tensor(1.0)]
    compiled = rl.compile(net)
    assert compiled(x, scales).tolist() == compiled(x, scales).tolist() == net(x, scales).tolist()
    assert rl.compiler.graph_count() == 1
    assert not events.events("graph_break")


def test_compiled_functions_and_modules_are_part_of_the_graph_that_calls_them():
    layer = rl.compile(rl.nn.Linear(2, 2))
    double = rl.compile(lambda x: x * 2)
    compiled = rl.compile(lambda x: double(layer(x)) + 1)
    x = rl.ones(1, 2)
    assert compiled(x).tolist() == (layer._orig_mod(x) * 2 + 1).tolist()
    assert rl.compiler.graph_count() == 1


def test_a_call_without_operators_leaves_the_graphs_to_others():
    compiled = rl.compile(lambda x, doubled: x * 2 if doubled else x)
    x = rl.ones(2)
    for doubled in (True, False, True, False):
        assert compiled(x, doubled).tolist() == ([2.0, 2.0] if doubled else [1.0, 1.0])
    assert len(explain_entries(compiled)) == 2


def test_items_of_lists_of_modules_are_written_in_the_graph():
    class Net(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [rl.zeros(2), 0]

        def forward(self, x):
            self.kept[0] = self.kept[0] + x
            self.kept[1] += 1
            return self.kept[0] * 2

    net = Net()
    compiled = rl.compile(net)
    for turn in range(1, 5):
        assert compiled(rl.ones(2)).tolist() == [2.0 * turn] * 2
        assert net.kept[1] == turn and net.kept[0].tolist() == [turn] * 2
    assert rl.compiler.graph_count() <= 2


def test_tensors_are_unpacked_in_the_graph():
    def attended(x):
        (q, k), (first, *rest) = x.permute(1, 0), x.sort(0)
        for row in x:
            q = q + row.sum()
        return q * k + first[:, 0] + rest[0][:, 0]

    x = rl.tensor([[3.0, 1.0], [2.0, 5.0]])
    assert rl.compile(attended)(x).tolist() == attended(x).tolist()
    assert rl.compiler.graph_count() == 1


def test_a_function_that_keeps_a_tensor_of_a_graph_gets_the_real_one():
    def curved(w, x):
        made = rl.func.hessian(functools.partial(lambda w, x: (w @ x).exp().sum(), w * 2))
        print(end="")  # a graph ends while `made` lives
        return made(x)

    w, x = rl.tensor([[1.0, 2.0], [0.5, -1.0]]), rl.tensor([0.25, -0.5])
    compiled = rl.compile(curved)
    for factor in (1.0, 2.0):
        assert compiled(w * factor, x).tolist() == curved(w * factor, x).tolist()


def test_coroutines_and_asynchronous_generators_are_part_of_one_graph():
    def awaits(x, log):
        async def doubled(y):
            log.append("doubled")
            return y * 2

        async def counted(n):
            for i in range(n):
                yield await doubled(x) + i

        async def total():
            return sum([y async for y in counted(2)], x)

        running = total()
        try:
            running.send(None)
        except StopIteration as stop:
            return stop.value

    compiled = rl.compile(awaits, fullgraph=False)
    for value in (1.0, 2.0):
        expected, log, x = [], [], rl.full((3,), value)
        assert compiled(x, log).equal(awaits(x, expected)) and log == expected
    assert not events.events("graph_break") and rl.compiler.graph_count() == 1


def test_a_coroutine_that_nobody_awaits_is_warned_of_at_each_call():
    def forgets(x):
        async def nothing():
            return 1

        y = x * 2
        nothing()
        return y + 1

    compiled = rl.compile(forgets, fullgraph=False)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]


def test_a_generator_that_has_not_begun_is_one_of_pythons():
    def begins(x, *rest, scale=2, **more):
        def numbers(first, *others, last, **names):
            total = first + scale * x
            yield total
            yield from (others, last, names)

        return numbers(x + 1, *rest, last=scale, **more)

    compiled = rl.compile(begins, fullgraph=True)
    for _ in range(2):
        made = compiled(rl.ones(2), 5, scale=3, key=4)
        assert type(made) is types.GeneratorType and made.__qualname__.endswith("numbers")
        first, *others = made
        assert first.tolist() == [5.0, 5.0] and others == [(5,), 3, {"key": 4}]


def test_an_object_that_sees_every_attribute_is_asked_for_those_of_the_program():
    def looks(x, log):
        class Seeing:
            def method(self):
                return 1

            def __getattribute__(self, name):
                log.append(name)
                return object.__getattribute__(self, name)

        seeing = Seeing()
        seeing.size = 2
        return x * seeing.size + seeing.method() + len(seeing.__dict__)

    compiled = rl.compile(looks, fullgraph=False)
    for _ in range(3):
        expected, log = [], []
        assert compiled(rl.ones(2), log).tolist() == looks(rl.ones(2), expected).tolist()
        assert log == expected == ["size", "method", "__dict__"]


def test_numbers_of_objects_are_those_of_each_call():
    def numbers(x, kept):
        made = [x]
        table = {id(made): "made", id(kept): "kept"}
        return x * 2, made, kept, list(table), table.get(id(kept)), id(made) in table

    compiled = rl.compile(numbers, fullgraph=False)
    for _ in range(3):
        kept = [1]
        _, made, same, keys, name, found = compiled(rl.ones(2), kept)
        assert keys == [id(made), id(kept)] and same is kept and name == "kept" and found
        assert all(type(key) is int for key in keys)
    assert not events.events("graph_break") and rl.compiler.graph_count() == 1


@pytest.mark.parametrize("ask", [str, hex, "{:d}".format, "%x".__mod__, (1).__add__, lambda n: n % 16])
def test_what_else_is_asked_of_the_number_of_an_object_ends_the_graph(ask):
    def asks(x):
        made = [x + 1]
        return made, ask(id(made)) == ask(id(made)), ask(id(made))

    compiled = rl.compile(asks, fullgraph=False)
    for _ in range(3):
        made, same, text = compiled(rl.ones(2))
        assert same and text == ask(id(made))


def test_a_number_of_an_object_that_was_kept_is_found_again():
    def remembers(x, seen):
        known = id(x) in seen
        seen.add(id(x))
        return x + 1, known

    compiled = rl.compile(remembers, fullgraph=False)
    x, y, seen = rl.ones(2), rl.ones(2), set()
    assert [compiled(value, seen)[1] for value in (x, x, y, x, y)] == [False, True, False, True, True]
    assert seen == {id(x), id(y)}


def test_an_iterator_that_an_instruction_used_up_before_it_failed_is_used_once():
    def joins(x, log):
        def texts():
            for text in ("a", 5, "b"):
                log.append(text)
                yield text

        y = x + 1
        try:
            return y, "".join(map(str.upper, texts()))
        except TypeError as error:
            log.append(str(error))
            raise

    compiled = rl.compile(joins, fullgraph=False)
    for _ in range(3):
        expected, log = [], []
        for run, kept in ((joins, expected), (compiled, log)):
            with pytest.raises(TypeError):
                run(rl.ones(2), kept)
        assert log == expected


ITERATOR = iter(())
TAKEN = {
    "next": lambda x: (x * 2 + next(ITERATOR), next(ITERATOR)),
    "in a list": lambda x: (x * 2, list(itertools.chain.from_iterable([ITERATOR]))),
    "by a map": lambda x: (x * 2, list(map(next, [ITERATOR, ITERATOR]))),
    "by a zip": lambda x: (x * 2, list(zip(ITERATOR, ITERATOR, strict=False))),
    "by an enumeration": lambda x: (x * 2, next(enumerate(ITERATOR)), 2 in ITERATOR),
    "by a star": lambda x: (x * 2, [*ITERATOR]),
    "in a closure": lambda x: (x * 2, (lambda: next(ITERATOR))()),
    "in a tuple": lambda x: (x * 2, next((ITERATOR, 1)[0])),
}


@pytest.mark.parametrize("how", TAKEN)
def test_an_iterator_that_was_there_goes_on_once(how, monkeypatch):
    taken = TAKEN[how]
    seen = []
    for function in (taken, rl.compile(taken)):
        monkeypatch.setitem(globals(), "ITERATOR", iter([1, 2, 3, 4, 5, 6]))
        kept = ITERATOR
        seen.append([(repr(function(rl.ones(1))), kept.__length_hint__()) for _ in range(2)])
    assert seen[0] == seen[1]


def test_code_that_is_compiled_from_text_is_part_of_the_graph():
    def executes(x, kept):
        names = {"x": x, "kept": kept}
        exec("def doubled(y):\n    kept.append(len(kept))\n    return y * 2\ntotal = doubled(x) + 1", names)
        return names["total"], eval("x - len(kept)"), sorted(names.keys() - {"__builtins__"})

    compiled = rl.compile(executes, fullgraph=False)
    for _ in range(3):
        expected, kept, x = [], [], rl.ones(2)
        total, rest, names = compiled(x, kept)
        assert total.tolist() == [3.0, 3.0] and rest.tolist() == [0.0, 0.0]
        assert names == executes(x, expected)[2] and kept == expected == [0]
    assert not events.events("graph_break") and rl.compiler.graph_count() == 1
