"""Caches of results, locks, and getters of attributes and items, as C has them."""

import dataclasses
import functools
import itertools
import operator
import threading


def case_cache_that_is_kept(x, env):
    @functools.lru_cache
    def f(n):
        return n * 2

    env.f = f.cache_parameters()
    return x + 1, f.__wrapped__(2), f


def case_cache_that_lives_across_a_break(x, env):
    @functools.lru_cache
    def f(n):
        return x * n

    first = f(2)
    if first.sum() > 0:
        return f(2) is first, first
    return first


def case_cache_of_a_function_that_breaks(x, env):
    @functools.lru_cache
    def f(n):
        return x * n if x.sum() > 0 else x

    return f(2), f(3), f(2) is f(2), f.cache_info().misses


def case_cache_of_a_method(x, env):
    class A:
        @functools.lru_cache(maxsize=2, typed=True)
        def scaled(self, n):
            env.log.append(n)
            return x * n

    a = A()
    return a.scaled(2), a.scaled(2) is a.scaled(2), a.scaled(2.0) is a.scaled(2), env.log


def case_cache_that_is_cleared(x, env):
    @functools.cache
    def f(n):
        return x * n

    first = f(1)
    f.cache_clear()
    return first is f(1), f.cache_info()[:2]


def case_cache_refuses_what_has_no_hash(x, env):
    @functools.cache
    def f(n):
        return n

    try:
        f([])
    except TypeError as error:
        return str(error), x + 1


def case_lock_within(x, env):
    lock, again = threading.Lock(), threading.RLock()
    with lock, again, again:
        y, inside = x + 1, lock.locked()
    return y, inside, lock.locked(), lock.acquire(), lock.acquire(False)


def case_lock_that_is_held_across_a_break(x, env):
    lock = threading.Lock()
    lock.acquire()
    return x + 1 if x.sum() > 0 else x, lock.locked()


def case_attrgetter_asks_interpreted_methods(x, env):
    class A:
        def __getattr__(self, name):
            env.log.append(name)
            return x * 2

    first, second = operator.attrgetter("a", "b")(A())
    return first, second is first, env.log, operator.attrgetter("log.append")(env)(3)


def case_attrgetter_of_what_is_missing(x, env):
    try:
        return operator.attrgetter("nested.nothing")(env)
    except AttributeError as error:
        return str(error), x + 1


def case_itemgetter_asks_interpreted_methods(x, env):
    class A:
        def __getitem__(self, key):
            env.log.append(key)
            return x + key

    return operator.itemgetter(1, 2)(A()), operator.itemgetter(0)(env.items), env.log


def case_methodcaller_with_keywords(x, env):
    total = operator.methodcaller("sum", dim=0)
    return total(x), operator.methodcaller("append", 4)(env.items), env.items


def case_object_in_place_of_a_call(x, env):
    class B:
        def __call__(self, *args):
            return args

    class C:
        __call__ = B()

    class D:
        @staticmethod
        def __call__(v):
            return v * 2

    class E:
        @classmethod
        def __call__(cls, v):
            return v * 3, cls.__name__

    return C()(x)[0] + 1, D()(x), E()(x)


def case_groups_are_taken_one_by_one(x, env):
    groups = itertools.groupby([1, 1, 2, 3, 3])
    (one, first), (two, second) = next(groups), next(groups)
    return one, list(first), two, list(second), [(key, list(group)) for key, group in groups], x + 1


def case_chain_of_lists_of_iterators(x, env):
    return [*itertools.chain.from_iterable([iter([1, 2]), [3]])], x + 1


def case_data_classes_that_are_compared(x, env):
    @dataclasses.dataclass(frozen=True, order=True, slots=True)
    class P:
        a: int
        b: int = 1

    try:
        P(1).a = 3
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return text, P(1) < P(2), hash(P(1)) == hash(P(1)), dataclasses.astuple(P(1)), x + 1


def case_values_of_a_dict_are_not_asked(x, env):
    class V:
        def __eq__(self, other):
            env.log.append("eq")
            return True

        def __hash__(self):
            env.log.append("hash")
            return 1

    table = {1: V()}
    return 1 in table, 2 in table, V() in [V()], env.log, x + 1


def case_attribute_that_is_set_and_deleted(x, env):
    env.extra = x
    del env.extra
    return x + 1, hasattr(env, "extra")


def case_results_are_other_objects(x, env):
    y, same = x + 1, x.contiguous()
    return y is x, x.view(-1) is x, same is x, x.T is x.T, y.detach() is y, x.to(x.dtype) is x, y in [y], [y].index(y)


def case_iterators_that_come_in_a_tuple(x, env):
    one, two = itertools.tee([1, 2, 3])
    env.log.append(next(one))
    return x + next(two), list(one), list(two), [list(three) for three in itertools.tee(iter([1, 2]), 3)]


def case_iterators_in_a_tuple_of_the_programs(x, env):
    both = iter([1, 2]), iter([3])
    return next(both[0]), list(both[1]), list(both[0]), x + 1


def case_lock_that_is_kept(x, env):
    env.lock = threading.Lock()
    y = x + 1
    with env.lock:
        y = y * 2
    env.lock = env.lock.locked()
    return y
