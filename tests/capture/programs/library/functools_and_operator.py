"""functools and operator: partial, caches, reduce, dispatch, orderings, and operators as functions."""

import functools
import operator
import types


def case_partial(x, env):
    def f(*args, **kwargs):
        return args, kwargs

    p = functools.partial(f, 1, a=2)
    q = functools.partial(p, 3, a=4, b=x)
    return q(5, c=6), q.func is f, q.args, q.keywords, p(a=0), functools.partial(int, base=2)("101")


def case_partial_errors(x, env):
    for attempt in (
        lambda: functools.partial(),
        lambda: functools.partial(5),
        lambda: functools.partial(len)(),
        lambda: functools.partial(lambda a: a, 1)(2),
    ):
        try:
            attempt()
        except TypeError as error:
            env.log.append(str(error).split(".<locals>")[-1])
    return env.log, 1 - x


def case_partial_attributes_and_repr(x, env):
    p = functools.partial(print, "a", sep="-")
    p.note = 1
    p("b")
    return p, repr(functools.partial(len, []))


def case_partial_in_a_class_is_not_bound(x, env):
    class A:
        f = functools.partial(lambda *args: len(args), 1)

    return A().f(2), A.f(), x.sum() * 3


def case_partial_method(x, env):
    class A:
        def set(self, name, value):
            setattr(self, name, value)

        put = functools.partialmethod(set, "v")

    a = A()
    a.put(x)
    return a.v is x


def case_reduce(x, env):
    return (
        functools.reduce(lambda a, b: a * 10 + b, env.items),
        functools.reduce(operator.add, [x, x, x]),
        functools.reduce(operator.mul, [], 1),
        functools.reduce(max, [3], 5),
    )


def case_reduce_order(x, env):
    def f(a, b):
        env.log.append((a, b))
        return a - b

    return functools.reduce(f, (i for i in env.items), 100), env.log


def case_reduce_of_nothing(x, env):
    functools.reduce(operator.add, [])


def case_reduce_that_raises(x, env):
    env.total = (x + 1).sum()
    functools.reduce(lambda a, b: a // b, [4, 2, 0])


def case_reduce_of_no_iterable(x, env):
    functools.reduce(operator.add, 5)


def case_lru_cache(x, env):
    @functools.lru_cache(maxsize=2)
    def f(n):
        env.log.append(n)
        return n * 2

    found = [f(1), f(2), f(1), f(3), f(2)]
    return found, env.log, tuple(f.cache_info()), f.__wrapped__(7), f.cache_parameters(), x + x


def case_lru_cache_kinds_of_arguments(x, env):
    @functools.lru_cache(typed=True)
    def f(*args, **kwargs):
        env.log.append((args, kwargs))
        return len(env.log)

    return f(1), f(1.0), f(True), f(a=1), f(a=1), f(1), f(1, a=1), f.cache_info().hits


def case_lru_cache_of_tensors(x, env):
    @functools.lru_cache
    def f(t):
        env.log.append("run")
        return t * 2

    return f(x), f(env.x) is f(x), env.log


def case_lru_cache_unhashable(x, env):
    @functools.lru_cache
    def f(items):
        return len(items)

    f(env.items)


def case_lru_cache_does_not_keep_exceptions(x, env):
    @functools.cache
    def f(n):
        env.log.append(n)
        if len(env.log) == 1:
            raise KeyError(n)
        return n

    for _ in range(3):
        try:
            f(5)
        except KeyError:
            env.log.append("error")
    f.cache_clear()
    f(5)
    return env.log, x * 2


def case_lru_cache_recursive(x, env):
    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(30), fib.cache_info().misses, x * fib(3)


def case_lru_cache_on_a_method(x, env):
    class A:
        @functools.lru_cache
        def f(self, n):
            env.log.append(n)
            return n

    a, b = A(), A()
    return a.f(1), a.f(1), b.f(1), env.log


def case_cached_property(x, env):
    class A:
        @functools.cached_property
        def value(self):
            """Doc."""
            env.log.append("computed")
            return x * 2

    a = A()
    first = a.value
    same = a.value is first
    del a.value
    return same, a.value is first, env.log, A.value.attrname, list(vars(a))


def case_cached_property_may_be_set(x, env):
    env.x = x - 1

    class A:
        @functools.cached_property
        def value(self):
            raise KeyError("never")

    a = A()
    a.value = 5
    return a.value, A().value


def case_cached_property_with_slots(x, env):
    class A:
        __slots__ = ()

        @functools.cached_property
        def value(self):
            return 1

    A().value


def case_single_dispatch(x, env):
    @functools.singledispatch
    def kind(value):
        return "object"

    @kind.register
    def _(value: int):
        return "int"

    @kind.register(list)
    def _(value):
        return "list", [kind(v) for v in value]

    @kind.register(str)
    @kind.register(bytes)
    def text(value):
        return "text"

    return kind(1), kind(True), kind([1, "a", 2.5]), kind(b""), kind.dispatch(bool)(0), kind(x)


def case_single_dispatch_by_base(x, env):
    class A:
        pass

    class B(A):
        pass

    class C(B):
        pass

    @functools.singledispatch
    def f(value):
        return "other"

    f.register(A, lambda value: "A")
    f.register(B, lambda value: ("B", f.dispatch(A)(value)))

    return f(C()), f(A()), f(5)


def case_single_dispatch_without_arguments(x, env):
    y = env.y = x + 0.5

    @functools.singledispatch
    def f(*args):
        return args

    f()


def case_single_dispatch_method(x, env):
    class A:
        @functools.singledispatchmethod
        def f(self, value):
            return "other", value

        @f.register
        def _(self, value: int):
            return "int", value + 1

        @f.register
        @classmethod
        def _(cls, value: str):
            return cls.__name__, value

    return A().f(1), A().f("a"), A().f(None)


def case_total_ordering(x, env):
    @functools.total_ordering
    class V:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            env.log.append((self.n, other.n))
            return self.n < other.n

    return V(1) <= V(2), V(1) > V(2), V(2) >= V(2), sorted([V(2), V(1)])[0].n, env.log, (x + 1).sum()


def case_total_ordering_not_implemented(x, env):
    @functools.total_ordering
    class V:
        def __eq__(self, other):
            return NotImplemented

        def __lt__(self, other):
            return NotImplemented

    V() >= 5


def case_total_ordering_without_operations(x, env):
    @functools.total_ordering
    class V:
        pass


def case_cmp_to_key(x, env):
    def compare(a, b):
        env.log.append((a, b))
        return (a % 3) - (b % 3)

    return sorted([5, 3, 4], key=functools.cmp_to_key(compare)), env.log, x - 0.5


def case_operator_functions(x, env):
    return (
        operator.add(x, 1),
        operator.mul(2, 3),
        operator.neg(5),
        operator.truth([]),
        operator.is_(x, env.x),
        operator.contains([1], 1),
        operator.concat([1], [2]),
        operator.countOf([1, 1], 1),
        operator.indexOf("abc", "c"),
        operator.pow(2, 3),
        operator.not_(0),
        operator.index(True),
    )


def case_operator_in_place(x, env):
    items = env.items
    return (
        operator.iadd(items, [4]) is items,
        operator.iadd((1,), (2,)),
        operator.imul([0], 3),
        operator.setitem(items, 0, "set"),
        operator.delitem(items, 1),
        items,
    )


def case_operator_getters(x, env):
    class A:
        n = 5

        def f(self, *args, **kwargs):
            return args, kwargs

    a = A()
    a.inner = A()
    return (
        operator.attrgetter("inner.n")(a),
        operator.attrgetter("n", "inner.n")(a),
        operator.itemgetter(1)("abc"),
        operator.itemgetter(2, 0)("abc"),
        operator.methodcaller("f", 1, k=x)(a),
    )


def case_operator_getter_errors(x, env):
    for attempt in (
        lambda: operator.attrgetter("a.b")(env),
        lambda: operator.itemgetter(9)([1]),
        lambda: operator.attrgetter(5),
        lambda: operator.itemgetter(),
        lambda: operator.methodcaller("nope")(1),
        lambda: operator.indexOf([1], 2),
        lambda: operator.concat(1, 2),
        lambda: operator.index(1.5),
    ):
        try:
            attempt()
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, -x


def case_operator_calls_user_slots(x, env):
    class A:
        def __add__(self, other):
            return "add", other

        def __getitem__(self, key):
            return "item", key

        def __contains__(self, key):
            return key == 1

        def __index__(self):
            return 2

        def __call__(self, *args):
            return args

    a = A()
    return operator.add(a, 1), operator.getitem(a, 2), operator.contains(a, 1), operator.index(a), operator.call(a, x)


def case_sorting_with_getters(x, env):
    rows = [{"n": 2, "k": "a"}, {"n": 1, "k": "b"}, {"n": 2, "k": "c"}]
    return (
        sorted(rows, key=operator.itemgetter("n")),
        max(rows, key=operator.itemgetter("n", "k")),
        list(map(operator.itemgetter("k"), rows)),
    )


def case_partial_method_of_the_class(x, env):
    class A:
        def add(self, n, *, m=1):
            return x + n + m

        two = functools.partialmethod(add, 2, m=3)

    a = A()
    print("between")
    return A.two(a), a.two()


def case_keys_that_compare(x, env):
    key = functools.cmp_to_key(lambda a, b: (a > b) - (a < b))
    return key(3) == key(3), key(3) > key(1), sorted([3, 1, 2], key=key), x + 1


def case_new_generic_alias_of_a_new_class(x, env):
    class Pair(tuple):
        __class_getitem__ = classmethod(types.GenericAlias)

    alias, either = Pair[int], Pair | None
    print("between")
    return alias.__origin__ is Pair, type(alias([x, 2])) is Pair, isinstance(Pair(), either)


def case_new_set_keeps_its_order(x, env):
    words = {"alias", "at", "build", "create", "field", "helper", "make", "note", "point", "return", "type", "used"}
    names = list(words)
    print("between")
    return list(words) == names, x + 1


def case_function_with_builtins_of_its_own(x, env):
    space = {"__builtins__": {}}
    made = eval("lambda a: a", space)
    print("between")
    return made.__builtins__, list(space), made(x)
