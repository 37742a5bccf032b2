"""Sorting, ranges, and the builtins that fold: `sum`, `min`, `max`, `any`, `all`."""


def case_sum_min_max_of_iterators(x, env):
    return (
        sum(i * 2 for i in env.items),
        sum([[1], [2]], []),
        sum([x, x]),
        min(iter([3, 1])),
        max("abc", key=lambda c: -ord(c)),
        max([], default="none"),
    )


def case_sum_of_text(x, env):
    env.y = x * x
    return sum(["a", "b"], "")


def case_sum_start_keyword(x, env):
    return sum([1, 2], start=x), sum([], start=5), sum((0.1,) * 3), sum([True, True])


def case_min_max_ties_and_keys(x, env):
    rows = [("a", 1), ("b", 1), ("c", 0)]
    return (
        max(rows, key=lambda r: r[1]),
        min(rows, key=lambda r: r[1] * 0),
        max(1, 2, 3, key=lambda n: -n),
        min(["x"], default=1),
    )


def case_max_of_default_with_several(x, env):
    env.y = x * 2
    return max(1, 2, default=0)


def case_max_of_incomparable(x, env):
    return max([1, "a"])


def case_any_all_on_user_truth(x, env):
    class T:
        def __init__(self, value):
            self.value = value

        def __bool__(self):
            env.log.append(self.value)
            return self.value

    return all([T(True), T(False), T(True)]), any(map(T, (False, True, True))), env.log


def case_any_of_no_iterable(x, env):
    env.total = (x + 1).sum()
    return any(5)


def case_sorted_forms(x, env):
    words = ["b", "A", "c", "B"]
    return (
        sorted(words),
        sorted(words, key=str.lower),
        sorted(words, key=str.lower, reverse=True),
        sorted({3: 1, 1: 2}),
        sorted("ba", reverse=1),
    )


def case_sorted_is_stable(x, env):
    rows = [(1, "a"), (0, "b"), (1, "c"), (0, "d")]
    return sorted(rows, key=lambda r: r[0]), sorted(rows, key=lambda r: r[0], reverse=True), x > 2


def case_sort_with_raising_key(x, env):
    def key(n):
        env.log.append(n)
        if n == 2:
            raise KeyError(n)
        return n

    try:
        env.items.sort(key=key)
    except KeyError:
        return env.items, env.log


def case_sort_with_raising_comparison(x, env):
    items = [3, 1, "a", 2]
    try:
        items.sort()
    except TypeError as error:
        return str(error), sorted(map(str, items))


def case_sort_sees_an_empty_list_in_its_key(x, env):
    env.items.sort(key=lambda n: env.log.append(len(env.items)) or -n)
    return env.items, env.log, x.relu() + 1


def case_sort_list_modified_in_key(x, env):
    def key(n):
        env.items.append(n)
        return n

    env.items.sort(key=key)


def case_sort_argument_errors(x, env):
    for attempt in (
        lambda: [].sort(lambda a: a),
        lambda: sorted([1], len),
        lambda: sorted(),
        lambda: [2, 1].sort(key=5),
        lambda: sorted([1], reverse="a"),
    ):
        try:
            attempt()
        except TypeError as error:
            env.log.append(str(error))
    return env.log, x.exp()


def case_sort_by_tensor_truth(x, env):
    return sorted(range(4), key=lambda i: float(-x[i]))


def case_range_is_a_sequence(x, env):
    r = range(10, 0, -3)
    return (
        list(r),
        r[1],
        r[-1],
        r[1:],
        len(r),
        4 in r,
        r.index(4),
        r.count(5),
        r == range(10, 1, -3),
        hash(r) == hash(range(10, 1, -3)),
        r.start,
    )


def case_range_errors(x, env):
    for attempt in (
        lambda: range(1, 2, 0),
        lambda: range(1.0),
        lambda: range(3).index(7),
        lambda: range(3)[3],
        lambda: range(1, 2, 3, 4),
    ):
        try:
            attempt()
        except (TypeError, ValueError, IndexError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_range_of_huge_numbers(x, env):
    env.x = x - 1
    r = range(2**70, 2**70 + 3)
    env.log.append((list(r)[0] - 2**70, r[-1] - r[0]))
    return len(range(2**70))
