"""`iter`, `next` and the iterators of builtins: both forms, exhaustion, laziness, errors, mutation underneath."""


def case_iter_of_builtins(x, env):
    values = (
        [1],
        (1,),
        "a",
        b"a",
        {1: 2},
        {1},
        range(1),
        {1: 2}.items(),
        enumerate("a"),
        zip("a"),
        map(len, []),
        iter([]),
    )
    return [type(iter(value)).__name__ for value in values], x / 2


def case_iter_of_iterator_is_itself(x, env):
    it = iter(env.items)
    g = (i for i in env.items)
    return iter(it) is it, iter(g) is g, iter(env.items) is it


def case_iter_without_arguments(x, env):
    env.y = x * 2
    return iter()


def case_iter_of_too_many_arguments(x, env):
    return iter(1, 2, 3)


def case_iter_of_no_iterable(x, env):
    return iter(x.shape[0])


def case_iter_of_function(x, env):
    return iter(lambda: 1)


def case_iter_two_arguments_not_callable(x, env):
    env.total = (x + 1).sum()
    return iter(5, 0)


def case_iter_with_sentinel(x, env):
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    return list(iter(count, 4)), n


def case_iter_with_sentinel_stays_exhausted(x, env):
    values = [1, 0, 2]
    it = iter(lambda: values.pop(0), 0)
    return list(it), list(it), values, next(it, "end"), x > 2


def case_iter_with_sentinel_compares_by_equality(x, env):
    class Sentinel:
        def __eq__(self, other):
            env.log.append(other)
            return other == 3

    values = iter([1, 2, 3, 4])
    return list(iter(values.__next__, Sentinel())), env.log


def case_iter_with_sentinel_that_raises(x, env):
    def fails():
        raise KeyError("call")

    it = iter(fails, None)
    try:
        next(it)
    except KeyError:
        env.log.append("first")
    next(it)


def case_iter_with_sentinel_and_stop_iteration(x, env):
    def stops():
        raise StopIteration("value")

    return list(iter(stops, None)), x.relu() + 1


def case_iter_calls_the_class_method(x, env):
    class A:
        def __iter__(self):
            env.log.append("iter")
            return iter([1, 2])

    a = A()
    a.__iter__ = lambda: iter("no")
    return list(a), [*a], max(a), env.log


def case_iter_set_to_none(x, env):
    env.x = x - 1

    class A:
        __iter__ = None

        def __getitem__(self, index):
            return index

    iter(A())


def case_iter_that_returns_no_iterator(x, env):
    class A:
        def __iter__(self):
            return [1]

    for i in A():
        pass


def case_iter_by_getitem(x, env):
    class A:
        def __getitem__(self, index):
            if index == 3:
                raise IndexError
            return index * 2

    a = A()
    return list(a), 4 in a, [*zip(a, "abc")], type(iter(a)).__name__


def case_iter_by_getitem_ends_with_stop_iteration_too(x, env):
    class A:
        def __getitem__(self, index):
            if index == 2:
                raise StopIteration
            return index

    return list(A()), x.exp()


def case_iter_by_getitem_other_error(x, env):
    class A:
        def __getitem__(self, index):
            return {}[index]

    return list(A())


def case_next_default(x, env):
    it = iter([1])
    return next(it), next(it, "default"), next(it, None), next(iter([]), x) is x


def case_next_of_exhausted(x, env):
    y = env.y = x + 0.5
    next(iter([]))


def case_next_of_no_iterator(x, env):
    next([1])


def case_next_default_is_evaluated_first(x, env):
    return next(iter([1]), env.log.append("evaluated")), env.log


def case_next_of_other_exception(x, env):
    env.y = x * x

    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise KeyError("next")

    return next(It(), "default")


def case_user_iterator_class(x, env):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration
            self.n -= 1
            return x * self.n

    it = Countdown(3)
    return [*it], list(it), it.n


def case_user_iterator_without_iter(x, env):
    class It:
        def __next__(self):
            return 1

    env.log.append(next(It()))
    for i in It():
        pass


def case_user_iterator_that_revives(x, env):
    class It:
        turns = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.turns += 1
            if self.turns % 3 == 0:
                raise StopIteration
            return self.turns

    it = It()
    return list(it), list(it), 1 - x


def case_stop_iteration_in_loop_body_is_not_the_end(x, env):
    for i in env.items:
        env.log.append(i)
        raise StopIteration("body")


def case_stop_iteration_in_next_of_subclass(x, env):
    class Stop(StopIteration):
        pass

    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise Stop("mine")

    for i in It():
        env.log.append(i)
    else:
        env.log.append("else")
    return list(It()), env.log


def case_enumerate(x, env):
    it = enumerate(env.items, start=10)
    return next(it), list(it), list(enumerate("ab", -1)), list(enumerate([], 5)), list(enumerate(x))[1]


def case_enumerate_errors(x, env):
    for attempt in (
        lambda: enumerate(5),
        lambda: enumerate(),
        lambda: enumerate([], "a"),
        lambda: enumerate([], start=1.0),
    ):
        try:
            attempt()
        except TypeError as error:
            env.log.append(str(error))
    return env.log, x.sum() * 3


def case_zip(x, env):
    return list(zip()), list(zip("ab", env.items)), list(zip(*[(1, 2), (3, 4)])), list(zip("a", x))


def case_zip_strict_second_shorter(x, env):
    return list(zip("abc", env.items[:2], strict=True))


def case_zip_strict_first_shorter(x, env):
    env.y = x * 2
    return list(zip([1], "ab", "cd", strict=True))


def case_zip_order_of_advancing(x, env):
    def log(name, n):
        for i in range(n):
            env.log.append((name, i))
            yield i

    return list(zip(log("a", 2), log("b", 1), log("c", 3))), env.log


def case_zip_of_no_iterable(x, env):
    return zip([1], 5)


def case_zip_error_in_second(x, env):
    env.total = (x + 1).sum()

    def fails():
        yield 1
        raise KeyError("second")

    it = iter([1, 2, 3])
    try:
        list(zip(it, fails()))
    except KeyError:
        return list(it)


def case_map_is_lazy(x, env):
    it = map(lambda i: env.log.append(i) or i * 2, env.items)
    env.log.append("made")
    return next(it), list(it), env.log


def case_map_of_several(x, env):
    return list(map(lambda a, b: a * b, [1, 2, 3], [x, x])), list(map(max, [1, 5], [3, 2])), list(map(str, []))


def case_map_with_raising_function(x, env):
    it = map(lambda n: 1 // n, [1, 0, 2])
    env.log.append(next(it))
    try:
        next(it)
    except ZeroDivisionError:
        pass
    return list(it), x + x


def case_map_with_stop_iteration_in_function(x, env):
    def f(n):
        if n == 2:
            raise StopIteration
        return n

    return list(map(f, [1, 2, 3]))


def case_map_without_iterable(x, env):
    return map(len)


def case_filter(x, env):
    return (
        list(filter(None, [0, 1, "", "a", [], x.shape])),
        list(filter(lambda n: n > 1, env.items)),
        type(filter(None, [])).__name__,
    )


def case_filter_asks_for_truth(x, env):
    class T:
        def __bool__(self):
            env.log.append("bool")
            return False

    return list(filter(lambda n: T(), [1, 2])), env.log, x * 2


def case_filter_of_no_iterable(x, env):
    return filter(None, 5)


def case_reversed(x, env):
    it = reversed(env.items)
    env.items.append(4)
    return (
        list(it),
        list(reversed("ab")),
        list(reversed(range(3))),
        list(reversed({1: 2, 3: 4})),
        list(reversed((x,)))[0] is x,
    )


def case_reversed_shrinking_list(x, env):
    it = reversed(env.items)
    next(it)
    env.items.clear()
    return list(it), (x + 1).sum()


def case_list_of_raising_iterator(x, env):
    def g():
        yield 1
        raise ValueError("after one")

    return list(g())


def case_extend_keeps_what_came_before_the_error(x, env):
    def g():
        yield 10
        raise ValueError("after one")

    try:
        env.items.extend(g())
    except ValueError:
        pass
    return env.items


def case_extend_with_itself_and_its_iterator(x, env):
    env.items.extend(env.items)
    small = [1]
    small.extend(i for i in small if len(small) < 4)
    return env.items, small, x - 0.5


def case_iterator_position_is_an_effect(x, env):
    env.it = iter(env.items)
    next(env.it)
    return x * 2


def case_iterators_in_result(x, env):
    a, b = iter([1, 2, 3]), iter("abc")
    next(a)
    next(b)
    return a, b, iter(range(4)), iter({1: 2}.items()), enumerate("ab"), reversed([1, 2])


def case_two_iterators_of_one_list(x, env):
    a, b = iter(env.items), iter(env.items)
    return next(a), next(a), next(b), list(zip(a, b)), -x


def case_grouper_of_one_iterator(x, env):
    it = iter(range(7))
    return list(zip(it, it, it)), list(it)


def case_iterator_of_tensor(x, env):
    it = iter(x)
    first = next(it)
    return first * 2, len(list(it))
