"""Unpacking: forms, order, what is consumed, and the texts of errors."""


def case_starred_middle(x, env):
    first, *middle, last = [1, 2, 3, 4]
    return first, middle, last, 1 - x


def case_starred_empty(x, env):
    a, *rest = [x]
    return a, rest


def case_starred_alone(x, env):
    (*everything,) = range(3)
    return everything


def case_starred_target_is_attribute(x, env):
    env.a, *env.items, env.table["last"] = "abcde"
    return env.a, env.items, env.table, x.sum() * 3


def case_nested(x, env):
    (a, (b, *c)), [d] = (1, (2, 3, 4)), [x + 1]
    return a, b, c, d


def case_too_few(x, env):
    a, b, c = [1, 2]


def case_too_many(x, env):
    a, b = env.items


def case_too_many_of_an_iterator(x, env):
    iterator = iter([1, 2, 3, 4])
    try:
        a, b = iterator
    except ValueError as error:
        env.log.append(str(error))
    return list(iterator), x + x


def case_too_few_of_starred(x, env):
    a, b, *c, d = env.items[:2]


def case_no_iterable(x, env):
    y = env.y = x + 0.5
    a, b = 5


def case_no_iterable_none(x, env):
    (a,) = None


def case_empty_target(x, env):
    () = []
    [] = ()
    return x + 1


def case_empty_target_of_something(x, env):
    () = [1]


def case_dict_gives_keys(x, env):
    a, b = {"p": 1, "q": 2}
    return a, b, x * 2


def case_generator_runs_as_far_as_needed(x, env):
    def numbers():
        for i in range(5):
            env.log.append(i)
            yield i

    try:
        a, b = numbers()
    except ValueError as error:
        return str(error), env.log


def case_generator_that_raises(x, env):
    env.y = x * x

    def numbers():
        yield 1
        raise KeyError("inside")

    a, b = numbers()


def case_targets_are_assigned_left_to_right(x, env):
    class Target:
        def __setattr__(self, name, value):
            env.log.append((name, value))

    t = Target()
    t.a, (t.b, *t.c), t.d = 1, (2, 3), 4
    return env.log


def case_some_targets_bound_before_error(x, env):
    a = b = None
    try:
        a, (b, c) = 1, (2,)
    except ValueError as error:
        return a, b, str(error)


def case_same_name_twice(x, env):
    a, a = 1, 2
    return a, (x + 1).sum()


def case_iter_protocol_by_getitem(x, env):
    class Sequence:
        def __getitem__(self, index):
            env.log.append(index)
            if index > 1:
                raise IndexError(index)
            return index * 10

    a, b = Sequence()
    return a, b, env.log


def case_iter_gives_no_iterator(x, env):
    env.y = x * 2

    class Bad:
        def __iter__(self):
            return 5

    a, b = Bad()


def case_list_display_with_stars(x, env):
    return [0, *env.items, *(5, 6), x + 1, *{}]


def case_tuple_and_set_displays(x, env):
    return (*env.items, *"ab"), {*env.items, *[3, 4]}


def case_star_of_no_iterable_in_list(x, env):
    return [1, *5]


def case_star_of_no_iterable_in_tuple(x, env):
    env.total = (x + 1).sum()
    return (1, *env.count, 2)


def case_star_of_no_iterable_in_set(x, env):
    return {1, *None}


def case_star_of_unhashable_in_set(x, env):
    env.x = x - 1
    return {1, *[[]]}


def case_dict_display_with_stars(x, env):
    return {"a": 0, **env.nested, "b": 1, **{"a": x * 2}}


def case_double_star_of_no_mapping(x, env):
    return {"a": 1, **env.items}


def case_double_star_of_keys_and_getitem(x, env):
    class Mapping:
        def keys(self):
            env.log.append("keys")
            return ["p", "q"]

        def __getitem__(self, key):
            env.log.append(key)
            return key * 2

    return {**Mapping()}, env.log


def case_display_evaluates_in_order(x, env):
    def note(value):
        env.log.append(value)
        return value

    found = {note("k1"): note("v1"), **{note("k2"): note("v2")}, note("k1"): note("v3")}
    return found, env.log, x - 0.5


def case_dict_display_keeps_first_key_and_last_value(x, env):
    return {1: "one", 1.0: "float", True: "bool"}


def case_dict_display_of_unhashable(x, env):
    return {env.items: x + 1}


def case_for_target_unpacks(x, env):
    total = x * 0
    for i, (a, *b) in enumerate([(1, 2, 3), (4,)]):
        total = total + a * i
        env.log.append(b)
    return total


def case_for_target_is_a_subscript(x, env):
    for env.table["i"] in env.items:
        env.log.append(env.table["i"])
    return env.table, -x


def case_for_unpacking_error_in_second_turn(x, env):
    for a, b in [(1, 2), (3,)]:
        env.log.append((a, b))


def case_with_target_unpacks(x, env):
    class Manager:
        def __enter__(self):
            return 1, [2, 3]

        def __exit__(self, *exc):
            env.log.append(exc)

    with Manager() as (a, [b, *c]):
        return a, b, c


def case_return_with_stars(x, env):
    return 0, *env.items, x


def case_yield_with_stars(x, env):
    def generate():
        yield 0, *env.items

    return list(generate()), x * x


def case_subscript_with_stars(x, env):
    class Key:
        def __getitem__(self, key):
            return key

    return Key()[0, *env.items], Key()[*env.items,]


def case_tensor_unpacks(x, env):
    a, b, c, d = x * 2
    return a + d, b, c


def case_tensor_unpacks_to_too_few(x, env):
    a, b = x
