"""itertools, math, copy and other modules of the standard library that programs use without a thought."""

import copy
import itertools
import math


def case_chain(x, env):
    return (
        list(itertools.chain("ab", env.items, (i for i in range(2)))),
        list(itertools.chain.from_iterable([[1], [], [x]])),
        list(itertools.chain()),
    )


def case_chain_is_lazy(x, env):
    def g(name):
        env.log.append(name)
        yield name

    it = itertools.chain(g("a"), g("b"))
    env.log.append("made")
    return next(it), env.log, x * x


def case_chain_error_in_the_middle(x, env):
    it = itertools.chain([1], 5)
    env.log.append(next(it))
    next(it)


def case_count_cycle_repeat(x, env):
    take = lambda it, n: list(itertools.islice(it, n))
    return (
        take(itertools.count(5, -2), 3),
        take(itertools.cycle("ab"), 5),
        list(itertools.repeat(x, 2)),
        take(itertools.count(0.5), 2),
        list(itertools.cycle([])),
    )


def case_islice_consumes_what_it_needs(x, env):
    it = iter(range(10))
    return (
        list(itertools.islice(it, 1, 4, 2)),
        next(it),
        list(itertools.islice(it, 2)),
        list(itertools.islice(it, 0)),
        next(it),
    ), (x * 2).mean()


def case_islice_errors(x, env):
    for attempt in (
        lambda: itertools.islice([], -1),
        lambda: itertools.islice([], 0, 1, 0),
        lambda: itertools.islice([], "a"),
        lambda: itertools.islice(5, 1),
        lambda: itertools.islice([]),
    ):
        try:
            attempt()
        except (ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_accumulate(x, env):
    return (
        list(itertools.accumulate(env.items)),
        list(itertools.accumulate(env.items, lambda a, b: a * b, initial=10)),
        list(itertools.accumulate([x, x])),
        list(itertools.accumulate([])),
    )


def case_groupby(x, env):
    words = ["apple", "ant", "bee", "bat", "axe"]
    return [(k, list(g)) for k, g in itertools.groupby(words, key=lambda w: w[0])], [
        k for k, g in itertools.groupby("aab")
    ]


def case_groupby_groups_share_the_iterator(x, env):
    groups = itertools.groupby([1, 1, 2, 2])
    _, first = next(groups)
    _, second = next(groups)
    return list(first), list(second), x / 2


def case_product_permutations_combinations(x, env):
    return (
        list(itertools.product("ab", [1, 2])),
        list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.combinations("abc", 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.product([1, 2], repeat=2)),
        list(itertools.product()),
    )


def case_takewhile_dropwhile_filterfalse(x, env):
    it = iter([1, 2, 5, 1])
    return (
        list(itertools.takewhile(lambda n: n < 3, it)),
        list(it),
        list(itertools.dropwhile(lambda n: n < 3, [1, 5, 1])),
        list(itertools.filterfalse(None, [0, 1, ""])),
        list(itertools.compress("abc", [1, 0, 1])),
    ), x > 2


def case_takewhile_predicate_raises(x, env):
    list(itertools.takewhile(lambda n: 1 // n, [1, 0]))


def case_zip_longest_and_pairwise(x, env):
    return (
        list(itertools.zip_longest("ab", [1], fillvalue="-")),
        list(itertools.pairwise("abc")),
        list(itertools.zip_longest()),
        list(itertools.pairwise([1])),
    )


def case_starmap(x, env):
    return (
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.starmap(lambda *a: a, [(), (1,), "ab"])),
        list(itertools.starmap(lambda a, b: a * b, [(x, 2)])),
    )


def case_starmap_of_numbers(x, env):
    env.y = x * x
    list(itertools.starmap(pow, [5]))


def case_tee(x, env):
    def g():
        for i in range(3):
            env.log.append(i)
            yield i

    a, b = itertools.tee(g())
    return next(a), next(b), list(a), list(b), env.log


def case_callback_order_in_itertools(x, env):
    def note(n):
        env.log.append(n)
        return n

    pairs = itertools.takewhile(lambda p: p[0] < 2, zip(map(note, range(5)), map(note, "abc")))
    return list(pairs), env.log, x.relu() + 1


def case_math_functions(x, env):
    return (
        math.floor(-1.5),
        math.ceil(1.2),
        math.sqrt(16),
        math.gcd(12, 18),
        math.factorial(5),
        math.isclose(0.1 + 0.2, 0.3),
        math.prod([1, 2, 3]),
        math.hypot(3, 4),
        math.comb(5, 2),
        math.isnan(math.nan),
        math.log2(8),
        math.fsum([0.1] * 10),
        math.copysign(1, -0.0),
        math.trunc(-1.7),
        math.lcm(4, 6),
    )


def case_math_domain_errors(x, env):
    for attempt in (
        lambda: math.sqrt(-1),
        lambda: math.log(0),
        lambda: math.factorial(-1),
        lambda: math.exp(1000),
        lambda: math.floor(math.inf),
        lambda: math.sqrt("a"),
        lambda: math.gcd(1.5),
        lambda: math.acos(2),
        lambda: math.fmod(1, 0),
        lambda: math.ceil(math.nan),
    ):
        try:
            attempt()
        except (ValueError, OverflowError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_math_scales_tensors(x, env):
    scale = 1 / math.sqrt(len(x))
    return x * scale, (x * math.pi).sum()


def case_math_of_user_objects(x, env):
    class A:
        def __float__(self):
            return 4.0

        def __ceil__(self):
            return "ceil"

        def __index__(self):
            return 6

    return math.sqrt(A()), math.ceil(A()), math.gcd(A(), 4), math.floor(A()), x.exp()


def case_copy_is_shallow(x, env):
    other = copy.copy(env.nested)
    other["b"] = 1
    other["a"].append(3)
    items = copy.copy(env.items)
    return other, env.nested, items == env.items, items is env.items, copy.copy((1, 2)), copy.copy(x) is x


def case_deepcopy_keeps_sharing(x, env):
    shared = [1]
    value = {"a": shared, "b": shared, "t": (shared, 2)}
    value["self"] = value
    other = copy.deepcopy(value)
    return other, other["a"] is other["b"], other["self"] is other, other["a"] is shared


def case_deepcopy_of_instances(x, env):
    class Node:
        def __init__(self, value, following=None):
            self.value, self.following = value, following

    a = Node(1)
    b = Node(2, a)
    a.following = b
    c = copy.deepcopy(a)
    return c.following.following is c, c.following is b, c, 1 - x


def case_copy_hooks(x, env):
    class A:
        def __init__(self, n):
            self.n = n

        def __copy__(self):
            env.log.append("copy")
            return A(self.n + 1)

        def __deepcopy__(self, memo):
            env.log.append(type(memo).__name__)
            return A(self.n + 2)

    return copy.copy(A(1)).n, copy.deepcopy([A(1)])[0].n, env.log


def case_copy_by_reduce_and_state(x, env):
    class A:
        def __init__(self):
            self.a, self.b = 1, [2]

        def __getstate__(self):
            env.log.append("get")
            return {"a": self.a}

        def __setstate__(self, state):
            env.log.append("set")
            self.__dict__.update(state, restored=True)

    return copy.copy(A()), env.log


def case_copy_of_tensor_is_a_tensor(x, env):
    y = copy.deepcopy(x)
    y += 1
    return y, x, y is x


def case_statistics_and_bisect(x, env):
    import bisect
    import statistics

    rows = [1, 3, 5]
    bisect.insort(rows, 4)
    return (
        rows,
        bisect.bisect_left(rows, 3),
        bisect.bisect(rows, 3),
        statistics.mean([1, 2, 3]),
        statistics.median([3, 1, 2]),
        bisect.bisect_left([{"k": 1}, {"k": 3}], 2, key=lambda r: r["k"]),
    ), x.sum() * 3


def case_heap(x, env):
    import heapq

    heap = [5, 3, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 1)
    return (
        heapq.heappop(heap),
        heapq.nsmallest(2, heap),
        heapq.nlargest(1, "abc"),
        list(heapq.merge([1, 4], [2, 3])),
        heapq.heappushpop(heap, 0),
    )


def case_heap_of_user_objects(x, env):
    import heapq

    class T:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            env.log.append((self.n, other.n))
            return self.n < other.n

    heap = []
    for n in (3, 1, 2):
        heapq.heappush(heap, T(n))
    return [heapq.heappop(heap).n for _ in range(3)], env.log, x + x


def case_regular_expressions(x, env):
    import re

    return (
        re.findall(r"\d+", "a1b22"),
        re.sub(r"(\w)", lambda m: m[1].upper(), "ab"),
        re.match(r"(?P<k>a)(b)?", "ac").groupdict(),
        re.split(",", "a,b"),
        re.fullmatch("a", "b"),
    )


def case_json(x, env):
    import json

    text = json.dumps({"a": [1, 2.5, None, True], "b": {"c": "é"}}, sort_keys=True)
    return text, json.loads(text), json.dumps(env.nested, indent=1)


def case_json_errors(x, env):
    import json

    for attempt in (lambda: json.loads("{"), lambda: json.dumps({1, 2}), lambda: json.dumps({(1,): 2})):
        try:
            attempt()
        except (ValueError, TypeError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x * 2


def case_json_default_hook(x, env):
    import json

    def default(value):
        env.log.append(type(value).__name__)
        return sorted(value)

    return json.dumps([{2, 1}], default=default), json.loads('{"a": 1}', object_hook=lambda d: {**d, "hook": True})


def case_fractions_and_decimals(x, env):
    from decimal import Decimal
    from fractions import Fraction

    return (
        Fraction(1, 3) + 1,
        Fraction("0.5") == 0.5,
        Decimal("1.10") + 1,
        Decimal(1) / 3 > 0,
        Fraction(6, 4),
        sum([Fraction(1, 2)] * 2),
        Decimal("0.1") == 0.1,
    ), (x + 1).sum()


def case_text_tools(x, env):
    import string
    import textwrap

    return (
        string.Template("$a ${b}").substitute(a=1, b="c"),
        textwrap.dedent("  a\n  b"),
        textwrap.shorten("hello wide world", 12),
        string.ascii_lowercase[:3],
        string.capwords("a bc"),
    )


def case_weak_references(x, env):
    import weakref

    class A:
        pass

    a = A()
    ref = weakref.ref(a, lambda r: env.log.append("gone"))
    alive = ref() is a
    del a
    return alive, ref(), env.log


def case_weak_dictionary(x, env):
    import weakref

    class A:
        pass

    a, table = A(), weakref.WeakKeyDictionary()
    table[a] = 1
    before = len(table)
    del a
    return before, len(table), x - 0.5


def case_inspect(x, env):
    import inspect

    def f(a, /, b=2, *c, d, e=5, **g):
        pass

    return (
        str(inspect.signature(f)),
        inspect.signature(f).bind(1, d=4).arguments,
        inspect.isfunction(f),
        inspect.ismethod(env.log.append),
    )


def case_inspect_bind_error(x, env):
    env.y = x * 2
    import inspect

    inspect.signature(lambda a: a).bind()


def case_typing_at_run_time(x, env):
    from typing import Optional, Protocol, Union, cast, get_args, runtime_checkable

    @runtime_checkable
    class Closes(Protocol):
        def close(self): ...

    class A:
        def close(self):
            pass

    return (
        isinstance(A(), Closes),
        isinstance(5, Closes),
        get_args(Optional[int]),
        Union[int, str] == Union[str, int],
        cast(int, "a"),
    )


def case_context_variables(x, env):
    import contextvars

    var = contextvars.ContextVar("var", default=0)
    token = var.set(x)
    inside = var.get() is x
    copied = contextvars.copy_context()
    var.reset(token)
    return inside, var.get(), copied.run(var.get) is x


def case_warnings_are_recorded(x, env):
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning, stacklevel=1)
    return [(str(w.message), w.category.__name__) for w in caught], x + 1


def case_warnings_as_errors(x, env):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("careful", DeprecationWarning, stacklevel=1)


def case_traceback_of_calls(x, env):
    import traceback

    def inner():
        raise ValueError("deep")

    def outer():
        inner()

    try:
        outer()
    except ValueError as error:
        return [(entry.name, entry.line) for entry in traceback.extract_tb(error.__traceback__)][-2:]


def case_frames(x, env):
    import sys

    def callee():
        frame = sys._getframe()
        return frame.f_code.co_name, frame.f_back.f_code.co_name, "callee" in frame.f_back.f_locals

    return callee()


def case_string_io(x, env):
    import io

    out = io.StringIO()
    print("a", "b", file=out)
    out.write("c")
    return out.getvalue(), io.StringIO("l1\nl2").readlines(), io.BytesIO(b"ab").read(1), x * x


def case_array_and_struct(x, env):
    import array
    import struct

    a = array.array("i", [1, 2])
    a.append(3)
    return a.tolist(), struct.unpack("<hb", struct.pack("<hb", 258, -1)), a[1:] == array.array("i", [2, 3])


def case_random_with_a_seed(x, env):
    import random

    r = random.Random(5)
    first = [r.randint(0, 99) for _ in range(3)]
    r.seed(5)
    items = [1, 2, 3, 4]
    r.shuffle(items)
    return first, sorted(items), r.choice([7]), first == [random.Random(5).randint(0, 99) for _ in range(1)] + first[1:]


def case_traceback_text(x, env):
    import traceback

    try:
        env.table["missing"]
    except KeyError as error:
        lines = traceback.format_exception(error)
    return [line.strip().split("\n")[-1] for line in lines], -x
