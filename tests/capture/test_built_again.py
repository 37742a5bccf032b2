"""What a trace makes and keeps is built again at each call: generators, exceptions, iterators, what arguments hold."""

import collections
import functools
import io
import operator
import threading
import traceback

import pytest

import rushlight as rl
from rushlight.support import events


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


def codes():
    return {event.code for event in events.events("graph_break")}


def compiled_in_one(function):
    """A function in parts that must be one graph; what a call gives."""
    compiled = rl.compile(function, fullgraph=False)

    def call(*args):
        result = compiled(*args)
        assert not codes() and rl.compiler.graph_count() == 1
        return result

    return call


def test_a_generator_that_is_left_in_its_middle_goes_on():
    def makes(x):
        def counts(start, *, step):
            table = {"sum": x + start}
            while True:
                sent = yield table
                start += sent or step
                table["sum"] = table["sum"] * start

        generator = counts(1, step=2)
        first = next(generator)
        generator.send(3)
        return generator, first, counts(5, step=1)

    call = compiled_in_one(makes)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((2,), value)
        generator, first, other = call(x)
        expected = makes(x)
        assert first["sum"].equal(expected[1]["sum"])
        for _ in range(2):
            assert next(generator) is first
            next(expected[0])
            assert first["sum"].equal(expected[1]["sum"])
        assert next(other)["sum"].equal(x + 5)


def test_a_generator_whose_end_does_something_ends_when_python_ends_it():
    log = []

    def makes(x):
        def guarded():
            try:
                yield x + 1
            finally:
                log.append("closed")

        y = next(guarded())
        log.append("after")
        return y * 2

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
    assert log == ["closed", "after"] * 3


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_generator_that_nobody_holds_ends_at_once_within_the_graph(fullgraph):
    def leaves(x, log):
        def guarded(name):
            try:
                yield x + 1
                yield x
            finally:
                log.append(name)

        for y in guarded("loop"):
            x = y - 1
            break
        log.append("behind the loop")
        held = guarded("held")
        next(held)
        del held
        log.append("behind the statement")
        y = y + next(guarded("of nobody"))
        unfinished = [guarded("returned")]
        next(unfinished[0])
        return y * 2, unfinished

    compiled = rl.compile(leaves, fullgraph=fullgraph)
    for _ in range(3):
        log, expected = [], []
        y, unfinished = compiled(rl.ones(2), log)
        assert y.equal(leaves(rl.ones(2), expected)[0])
        assert log == ["loop", "behind the loop", "held", "behind the statement", "of nobody"]
        y = next(unfinished[0])
        assert y.equal(rl.ones(2))
        del unfinished
        assert log == expected
    assert not codes() and rl.compiler.graph_count() == 1


def test_an_end_of_a_generator_that_no_graph_holds_is_pythons():
    def leaves(x, log):
        def guarded():
            try:
                yield x + 1
            finally:
                log.append(float(x.sum()))

        y = next(guarded())
        log.append("after")
        return y * 2

    compiled = rl.compile(leaves, fullgraph=False)
    for value in (1.0, 2.0, 3.0):
        log = []
        assert compiled(rl.full((2,), value), log).tolist() == [2 * value + 2] * 2
        assert log == [2 * value, "after"]
    with pytest.raises(rl.RushlightError, match="known only when the program runs"):
        rl.compile(leaves, fullgraph=True)(rl.ones(2), [])


def test_a_coroutine_that_nobody_awaits_is_warned_of_at_each_call():
    def forgets(x):
        async def later():
            return x

        later()
        return x + 1

    compiled = rl.compile(forgets, fullgraph=False)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            compiled(rl.ones(2))


def test_arguments_hold_the_objects_that_the_call_returns():
    def fills(x, rows, table):
        one = [x + 1, {"deep": x * 2}]
        rows.append(one)
        rows.insert(0, one)
        table["row"] = one[1]
        table["self"] = rows
        del table["gone"]
        return one

    call = compiled_in_one(fills)
    for value in (1.0, 2.0, 3.0):
        rows, table = [7], {"gone": 1, "kept": 2}
        one = call(rl.full((2,), value), rows, table)
        assert rows[0] is one and rows[2] is one and rows[1] == 7 and len(rows) == 3
        assert table["row"] is one[1] and table["self"] is rows and list(table) == ["kept", "row", "self"]
        assert one[1]["deep"].tolist() == [2 * value] * 2


def test_an_exception_that_is_kept_has_its_chain_and_lines():
    def catches(x):
        def inner(value):
            raise KeyError("key", value)

        try:
            try:
                inner(x + 1)
            except KeyError as key:
                key.add_note("noted")
                raise AttributeError("absent", name="name", obj=[key]) from key
        except AttributeError as error:
            return error, ExceptionGroup("group", [error, ValueError()])

    call = compiled_in_one(catches)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((2,), value)
        error, group = call(x)
        expected, _ = catches(x)
        assert error.name == "name" and error.obj == [error.__cause__] and group.exceptions[0] is error
        assert error.__cause__ is error.__context__ and error.__suppress_context__
        assert error.__cause__.args[1].equal(x + 1) and error.__cause__.__notes__ == ["noted"]
        for one, other in ((error, expected), (error.__cause__, expected.__cause__)):
            lines, known = [
                [(line.name, line.lineno) for line in traceback.extract_tb(each.__traceback__)] for each in (one, other)
            ]
            assert lines == known
        innermost = error.__cause__.__traceback__.tb_next.tb_frame
        assert innermost.f_locals["value"].equal(x + 1)


def test_iterators_views_and_partials_go_on_where_they_were():
    def makes(x):
        table = {"a": x, "b": x + 1, "c": x + 2}
        items, keys = iter(table.items()), iter(table)
        next(items), next(keys), next(keys)
        rows = [1, 2, 3]
        numbers = iter(rows)
        next(numbers)
        rows.append(table)
        function = functools.partial(dict, [("z", x)], own=table)
        ordered = collections.OrderedDict(a=x)
        return table, items, keys, table.values(), rows, numbers, function, range(10**30), ordered.keys()

    call = compiled_in_one(makes)
    for value in (1.0, 2.0):
        x = rl.full((2,), value)
        table, items, keys, values, rows, numbers, function, long, names = call(x)
        assert [name for name, _ in items] == ["b", "c"] and list(keys) == ["c"]
        table["d"] = x
        assert len(values) == 4 and values.mapping == table
        assert list(numbers) == [2, 3, table] and rows[3] is table
        assert function()["own"] is table and long == range(10**30) and list(names) == ["a"]


def drained(iterator):
    """What an iterator gives, and how it ends."""
    given = []
    for _ in range(4):
        try:
            given.append(repr(next(iterator)))
        except (RuntimeError, StopIteration) as error:
            given.append(repr(error))
    return given


def test_iterators_over_dicts_that_have_changed_say_so():
    def makes(x):
        ordered, moved = (collections.OrderedDict(a=x, b=1, c=2) for _ in range(2))
        items, keys, backwards = iter(ordered.items()), iter(moved), reversed(ordered)
        next(items), next(keys), next(backwards)
        moved.move_to_end("a")
        table = {"a": x, "b": 1}
        replaced, last = iter(table), iter(last_of := {"c": 3})
        next(replaced), next(replaced), next(last)
        table["d"] = table.pop("a")
        return items, ordered.values(), keys, replaced, last, last_of, x * 2

    compiled = rl.compile(makes, fullgraph=False)
    for value in (1.0, 2.0):
        x = rl.full((2,), value)
        *iterators, last_of, _ = compiled(x)
        *expected, _, _ = makes(x)
        assert last_of == {"c": 3}
        assert [drained(iter(made)) for made in iterators] == [drained(iter(made)) for made in expected]


def test_keys_locks_and_files_in_memory_have_the_state_that_the_call_left():
    def makes(x):
        smaller = functools.cmp_to_key(lambda one, other: float(other[0] - one[0]))
        lock = threading.RLock()
        lock.acquire()
        text, closed = io.StringIO(), io.BytesIO(b"ab")
        text.write("abc")
        text.seek(1)
        closed.close()
        return smaller, smaller([x.sum()]), smaller([x.sum() + 1]), lock, lock.acquire(), text, closed

    call = compiled_in_one(makes)
    for value in (1.0, 2.0):
        smaller, one, other, lock, _, text, closed = call(rl.full((2,), value))
        assert text.read(1) == "b" and text.getvalue() == "abc" and closed.closed
        assert other < one and smaller([rl.zeros(())]) > one and one.obj[0].item() == 2 * value
        assert "count=2" in repr(lock)


def test_a_key_of_before_is_compared_by_its_function_at_each_call():
    log = []

    def compare(one, other):
        log.append((one, other))
        return one - other

    key = functools.cmp_to_key(compare)

    def orders(x):
        return sorted([3, 1], key=key), key(1) == key(2), x + 1

    compiled = rl.compile(orders, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2))[:2] == ([1, 3], False)
    assert log == [(1, 3), (1, 2)] * 3


def test_circles_through_tuples_and_classes_are_closed():
    def makes(x):
        class Node:
            def __init__(self):
                Node.last = self

        node = Node()
        rows = [x + 1]
        pair = (rows, node)
        rows.append(pair)
        node.pair = pair
        return node, Node

    call = compiled_in_one(makes)
    for _ in range(3):
        node, kind = call(rl.ones(2))
        assert type(node) is kind and kind.last is node
        assert node.pair[0][1] is node.pair and node.pair[1] is node


def test_what_is_deep_in_containers_is_compared_at_each_call():
    log = []

    class Kept:
        def __eq__(self, other):
            log.append("asked")
            return True

        __hash__ = None

    def compares(x):
        same = [[Kept()]] == [[Kept()]]
        rows = [Kept()]
        rows.append(Kept())
        return x * same + len(rows)

    compiled = rl.compile(compares, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]
    assert log == ["asked"] * 3


def test_objects_of_c_that_change_are_those_of_each_call():
    def makes(x):
        data = bytearray(b"abcd")
        part = memoryview(data)[1:3]
        rl.compiler.graph_break()
        part[0] = 90
        return x + 1, bytes(data)

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2))[1] == b"aZcd"


def test_the_keywords_of_a_methodcaller_are_those_of_each_call():
    class Taking:
        def takes(self, *args, **kwargs):
            return args, kwargs

    def calls(x):
        caller = operator.methodcaller("takes", x + 1, scaled=x * 2)
        print(end="")  # a graph ends while it lives
        return caller(Taking()), caller

    compiled = rl.compile(calls)
    for value in (1.0, 2.0):
        (args, kwargs), caller = compiled(rl.full((2,), value))
        assert args[0].tolist() == [value + 1] * 2 and kwargs["scaled"].tolist() == [value * 2] * 2
        assert caller(Taking())[1]["scaled"] is kwargs["scaled"]


@pytest.mark.parametrize(
    "over", [dict.items, dict.values, dict.keys, dict, enumerate, reversed, lambda held: map(str, held)]
)
def test_a_dict_that_grows_in_a_graph_and_is_iterated_over_where_it_ends(over):
    def program(x):
        held, seen = {"a": x * 2}, []
        rl.get_rng_state()  # ends a graph
        held |= {"b": x * 3, "c": 3.0}
        rest = iter(over(held))
        seen.append(next(rest))
        rl.get_rng_state()
        return [*seen, *rest], held

    compiled = rl.compile(program, backend="eager")
    for _ in range(2):
        assert str(compiled(rl.ones(2))) == str(program(rl.ones(2)))
