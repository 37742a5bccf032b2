"""Functions and generators of the program that C code calls: callbacks, iterators handed to builtins, hooks."""

import collections
import functools
import itertools
import re


def case_generators_in_builtins(x, env):
    def g():
        for i in (3, 1, 2):
            env.log.append(i)
            yield i

    return list(g()), tuple(g()), set(g()), sorted(g()), sum(g()), max(g()), dict.fromkeys(g()), 1 in g(), len(env.log)


def case_generators_in_text_and_bytes(x, env):
    return (
        "-".join(str(i) for i in env.items),
        bytes(i for i in env.items),
        "".join(c for c in "abc" if c != "b"),
        b",".join(b"x" for _ in range(2)),
    )


def case_generators_in_collections(x, env):
    return (
        collections.Counter(c for c in "abca"),
        collections.deque((i for i in range(5)), 2),
        collections.OrderedDict((i, x) for i in range(2)),
        frozenset(i for i in (1, 1)),
    )


def case_generators_in_methods(x, env):
    env.items.extend(i * 10 for i in range(2))
    env.items[1:2] = (i for i in "ab")
    env.table.update((str(i), i) for i in range(2))
    s = {1}
    s.update(i for i in (2, 3))
    return env.items, env.table, s, s.issuperset(i for i in (1, 2)), [0].__iadd__(i for i in (1,))


def case_generators_in_itertools(x, env):
    g = lambda n: (i for i in range(n))
    return (
        list(itertools.chain(g(2), g(1))),
        list(itertools.zip_longest(g(1), g(2))),
        list(itertools.islice(g(9), 2, 8, 3)),
        [list(t) for t in itertools.tee(g(2))],
        list(itertools.product(g(2), g(1))),
    )


def case_generator_error_in_builtin(x, env):
    def g():
        yield 1
        raise KeyError("in generator")

    return set(g())


def case_generator_error_in_join(x, env):
    return ",".join(str(1 // i) for i in (1, 0))


def case_generator_identity_and_type(x, env):
    import types

    g = (i for i in ())
    return (
        isinstance(g, types.GeneratorType),
        isinstance(g, collections.abc.Generator),
        iter(g) is g,
        g == g,
        g in [g],
        {g: 1}[g],
        bool(g),
        callable(g),
    )


def case_generator_names_may_be_set(x, env):
    def g():
        yield 1

    it = g()
    it.__name__ = "renamed"
    return it.__name__, it.__qualname__, g.__name__


def case_generator_methods_as_values(x, env):
    def g():
        while True:
            env.log.append((yield))

    it = g()
    send, step = it.send, it.__next__
    step()
    list(map(send, "ab"))
    return env.log, send.__self__ is it


def case_generator_cannot_be_made(x, env):
    return type(i for i in ())()


def case_generator_weak_reference(x, env):
    import weakref

    g = (i for i in env.items)
    ref = weakref.ref(g)
    same = ref() is g
    del g
    return same, ref()


def case_generator_locals(x, env):
    import inspect

    def g(a):
        b = a + 1
        yield b

    it = g(1)
    next(it)
    return inspect.getgeneratorlocals(it), it.gi_frame.f_lineno - it.gi_code.co_firstlineno, it.gi_code.co_name


def case_generator_yield_from_attribute(x, env):
    def inner():
        yield 1

    def outer():
        yield from source

    source = inner()
    it = outer()
    next(it)
    during = it.gi_yieldfrom is source
    list(it)
    return during, it.gi_yieldfrom


def case_sort_key_methods(x, env):
    class K:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            return self.n < other.n

        def key(self):
            return -self.n

    items = [K(2), K(3), K(1)]
    return (
        [k.n for k in sorted(items)],
        [k.n for k in sorted(items, key=K.key)],
        [k.n for k in sorted(items, key=lambda k: k.key(), reverse=True)],
    )


def case_callback_raises_inside_try(x, env):
    def check(n):
        if n == 2:
            raise ValueError(n)
        return n

    try:
        env.log.extend(map(check, env.items))
    except ValueError as error:
        return error.args, env.log


def case_callback_that_mutates(x, env):
    def f(n):
        env.items.append(n * 10) if len(env.items) < 6 else None
        return n

    return list(map(f, env.items)), env.items


def case_callback_closes_over_cells(x, env):
    count = 0

    def up(n):
        nonlocal count
        count += n
        return count

    return list(map(up, env.items)), count, list(filter(lambda n: up(n) > 7, env.items)), count


def case_callback_of_reduce_and_accumulate(x, env):
    def add(a, b):
        env.log.append((a, b))
        return a + b

    return functools.reduce(add, "abc"), list(itertools.accumulate([1, 2, 3], add)), env.log


def case_callback_of_regular_expression(x, env):
    def replace(match):
        env.log.append(match.start())
        return match[0] * 2

    return re.sub("[ac]", replace, "abc"), env.log


def case_callback_of_default_factories(x, env):
    d = collections.defaultdict(lambda: env.log.append("made") or x)
    return d["a"] is x, d["b"] is x, env.log


def case_callback_of_property_and_partial(x, env):
    class A:
        value = property(functools.partial(lambda scale, self: self.n * scale, 3))
        n = 2

    return A().value


def case_callback_classes(x, env):
    class P:
        def __init__(self, n):
            self.n = n

        def __repr__(self):
            return f"P{self.n}"

    return (
        list(map(P, env.items)).__repr__(),
        functools.reduce(lambda p, n: P(p.n + n), env.items, P(0)),
        [*map(str, map(P, (1,)))],
    )


def case_callback_bound_methods(x, env):
    class A:
        def __init__(self):
            self.seen = []

        def see(self, n):
            self.seen.append(n)
            return n * 2

    a = A()
    return list(map(a.see, env.items)), a.seen, list(map(A.see, [a], [9])), max(env.items, key=a.see)


def case_callback_wrapped_twice(x, env):
    f = functools.partial(map, lambda n: n + 1)
    return list(f(f([1, 2]))), list(functools.partial(sorted, key=lambda n: -n)([1, 3, 2]))


def case_native_calls_generator_method(x, env):
    class Tree:
        def __init__(self, *children):
            self.children = children

        def __iter__(self):
            yield self
            for child in self.children:
                yield from child

        def __len__(self):
            return sum(1 for _ in self)

    tree = Tree(Tree(), Tree(Tree()))
    return len(tree), len(list(tree)), sum(len(t) for t in tree), bool(Tree())


def case_iterator_class_in_builtins(x, env):
    class Evens:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 2
            if self.n > 6:
                raise StopIteration
            return self.n

    a, b, c = Evens()
    return list(Evens()), sum(Evens()), [*Evens()], (a, b, c), 4 in Evens(), dict(zip("ab", Evens())), max(Evens())


def case_iter_sentinel_with_method(x, env):
    class Reader:
        def __init__(self, text):
            self.text = text

        def read(self):
            head, self.text = self.text[:2], self.text[2:]
            return head

    return list(iter(Reader("abcde").read, "")), [c for c in iter(functools.partial(next, iter("xyz")), "z")]


def case_comparison_in_builtins(x, env):
    class V:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            env.log.append(self.n)
            return self.n == getattr(other, "n", other)

        def __hash__(self):
            return 1

    return (
        [V(1), V(2)].index(2),
        [V(1)].count(1),
        V(3) in (V(1), V(3)),
        len({V(1), V(1), V(2)}),
        [V(1)] == [V(1)],
        env.log,
    )


def case_index_and_length_in_builtins(x, env):
    class N:
        def __index__(self):
            env.log.append("index")
            return 2

        def __len__(self):
            return 5

    return range(N())[1], [0] * N(), "abcd"[N()], list(range(9))[N() : len(N())], bin(N()), "ab".center(N()), env.log


def case_bool_in_builtins(x, env):
    class B:
        def __init__(self, v):
            self.v = v

        def __bool__(self):
            env.log.append(self.v)
            return self.v

    return (
        list(filter(None, [B(True), B(False)]))[0].v,
        any([B(False), B(True), B(True)]),
        all([]),
        list(filter(lambda n: B(n > 1), [1, 2])),
        env.log,
    )


def case_str_and_repr_in_builtins(x, env):
    class S:
        def __str__(self):
            env.log.append("str")
            return "s"

        def __repr__(self):
            env.log.append("repr")
            return "r"

    print(S(), [S()])
    return "%s %r" % (S(), S()), "{} {!r}".format(S(), S()), str([S()]), "".join(map(str, [S()])), env.log


def case_print_to_a_file_of_the_program(x, env):
    class Out:
        def write(self, text):
            env.log.append(text)

        def flush(self):
            env.log.append("flush")

    print("a", 1, sep="+", file=Out(), flush=True)
    return env.log, x + 1


def case_print_to_a_file_that_refuses(x, env):
    class Out:
        def write(self, text):
            env.log.append(text)
            if text == "refused":
                raise ValueError(text)

    for values, how in [((1, 2), {"sep": 3}), ((1,), {"end": b""}), ((1, "refused", 2), {"sep": None}), ((), {})]:
        try:
            print(*values, file=Out(), **how)
        except (TypeError, ValueError) as error:
            env.log.append(str(error))
    return env.log, x + 1


def case_sum_of_objects_that_add(x, env):
    class Money:
        def __init__(self, amount):
            self.amount = amount

        def __add__(self, other):
            env.log.append(other if isinstance(other, (int, float)) else other.amount)
            return Money(self.amount + (other if isinstance(other, (int, float)) else other.amount))

        __radd__ = __add__

    try:
        sum(["a"], "")
    except TypeError as error:
        env.log.append(str(error))
    totals = sum([1, 2.5, Money(3), 4]), sum((Money(n) for n in range(3)), start=Money(5)), sum((Money(1),), 2)
    return [total.amount for total in totals], sum([x, x * 2]), env.log


def case_numbers_of_objects(x, env):
    class Sized:
        def __init__(self, value):
            self.value = value

        def __int__(self):
            env.log.append("int")
            return self.value

        def __float__(self):
            return self.value

    class Indexed:
        def __index__(self):
            env.log.append("index")
            return 3

    for kind, value in [(int, Sized("text")), (float, Sized(2)), (int, Sized(True)), (float, object()), (int, None)]:
        try:
            env.log.append(kind(value))
        except TypeError as error:
            env.log.append(str(error))
    return int(Indexed()), float(Indexed()), float(Sized(1.5)), env.log, x * int(Sized(2))


def case_object_hooks_by_getattr(x, env):
    class A:
        def __getattr__(self, name):
            env.log.append(name)
            raise AttributeError(name)

    return (
        hasattr(A(), "b"),
        getattr(A(), "c", 1),
        callable(A()),
        env.log,
        [name for name in ("x", "y") if hasattr(A(), name)],
    )


def case_lru_cache_key_hooks(x, env):
    class K:
        def __hash__(self):
            env.log.append("hash")
            return 5

        def __eq__(self, other):
            return True

    f = functools.lru_cache(lambda k: len(env.log))
    return f(K()), f(K()), env.log


def case_copy_hooks_called_natively(x, env):
    import copy

    class A:
        def __reduce__(self):
            env.log.append("reduce")
            return A, ()

    return type(copy.copy(A())).__name__, type(copy.deepcopy([A()])[0]).__name__, env.log


def case_heap_and_bisect_callbacks(x, env):
    import bisect
    import heapq

    return (
        heapq.nlargest(2, env.items, key=lambda n: env.log.append(n) or -n),
        bisect.bisect([1, 2, 3], 2, key=lambda n: n * 2),
        env.log,
    )


def case_stop_iteration_through_native_code(x, env):
    def g():
        yield from map(next, [iter([1]), iter([])])

    return list(g())


def case_generator_exit_through_native_code(x, env):
    def g():
        try:
            yield 1
        finally:
            env.log.append("closed")

    it = map(str, g())
    env.log.append(next(it))
    del it
    return env.log


def case_exception_group_callbacks(x, env):
    group = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    found = group.subgroup(lambda e: env.log.append(type(e).__name__) or isinstance(e, KeyError))
    return [type(e).__name__ for e in found.exceptions], env.log


def case_atexit_like_stack_of_callbacks(x, env):
    stack = []
    for i in range(3):
        stack.append(functools.partial(env.log.append, i))
    while stack:
        stack.pop()()
    return env.log


def case_generator_attribute_missing(x, env):
    return (i for i in ()).missing


def case_generator_cannot_be_copied(x, env):
    import copy

    return copy.copy(i for i in ())


def case_classes_among_the_arguments(x, env):
    class Meta(type):
        def __iter__(cls):
            return iter([3, 1, 2])

    class Values(metaclass=Meta):
        pass

    class Default:
        pass

    return sorted(Values), list(map(float, Values)), min([], default=Default) is Default, max(Values), x + 1


def case_interrupt_raised_in_a_method_that_c_calls(x, env):
    class Stops:
        def __iter__(self):
            raise KeyboardInterrupt("mine")

    try:
        list(Stops())
    except KeyboardInterrupt as error:
        return error.args, x + 1


def case_comparisons_are_as_many_as_in_c(x, env):
    class Key:
        def __hash__(self):
            env.log.append("hash")
            return 42

        def __eq__(self, other):
            env.log.append("eq")
            return id(self) == id(other)

    held = {Key(): x}
    held.setdefault(Key(), [])
    return env.log, len(held)


def case_text_with_the_number_of_an_object(x, env):
    made = object()
    text = repr([made])
    print("between")
    return text == repr([made]), text.count("object"), x + 1
