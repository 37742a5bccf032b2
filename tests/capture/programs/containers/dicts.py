"""`dict`: constructors, methods, views, order, mutation during iteration, subclasses, and the texts of errors."""

import collections
import types


def case_construct_empty(x, env):
    return dict(), {}, dict({}), dict([]), dict(**{}), x - 0.5


def case_construct_from_mapping(x, env):
    copy = dict(env.nested)
    copy["b"] = x * 2
    return copy, env.nested, copy["a"] is env.nested["a"]


def case_construct_from_pairs(x, env):
    return dict([("a", 1), ["b", 2], "cd", (x.shape[0], x)])


def case_construct_from_keywords(x, env):
    return dict(a=1, b=x + 1), dict({"a": 0, "c": 1}, a=2), dict([("a", 1)], b=2, a=3)


def case_construct_from_generator(x, env):
    return dict((i, x * i) for i in range(3)), dict(zip("ab", env.items)), dict(enumerate("ab"))


def case_construct_from_object_with_keys(x, env):
    class M:
        def keys(self):
            env.log.append("keys")
            return iter(["p", "q"])

        def __getitem__(self, key):
            env.log.append(key)
            return key.upper()

    return dict(M()), env.log


def case_construct_keys_is_looked_up_on_the_object(x, env):
    class M:
        def __iter__(self):
            return iter([(1, 2)])

        def __getattr__(self, name):
            env.log.append(name)
            raise AttributeError(name)

    return dict(M()), env.log, -x


def case_construct_from_number(x, env):
    return dict(5)


def case_construct_from_two_arguments(x, env):
    return dict({}, {})


def case_construct_from_wrong_pairs(x, env):
    for bad in ([(1,)], [(1, 2, 3)], [5], ["abc"], "ab", [(1, 2), ()]):
        try:
            dict(bad)
        except (TypeError, ValueError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, x * x


def case_construct_from_unhashable_keys(x, env):
    return dict([([], 1)])


def case_construct_self_keyword(x, env):
    return dict(self=1, dict=2, iterable=3), (x * 2).mean()


def case_construct_raising_iterator(x, env):
    def pairs():
        yield 1, 2
        raise KeyError("in the middle")

    return dict(pairs())


def case_construct_subclass(x, env):
    class D(dict):
        def __init__(self, *args, **kwargs):
            env.log.append((len(args), sorted(kwargs)))
            super().__init__(*args, **kwargs)

        def __setitem__(self, key, value):
            env.log.append("never by the constructor")

    return D({"a": 1}, b=2), env.log


def case_fromkeys(x, env):
    shared = []
    made = dict.fromkeys("aba", shared)
    return made, made["a"] is made["b"], dict.fromkeys(env.items), dict.fromkeys([]), {}.fromkeys((1, 2), x)


def case_fromkeys_of_subclass(x, env):
    class D(dict):
        def __setitem__(self, key, value):
            env.log.append(key)
            super().__setitem__(key, value)

    made = D.fromkeys(["p", "q"], 1)
    return type(made).__name__, made, env.log, x / 2


def case_fromkeys_of_no_iterable(x, env):
    return dict.fromkeys(5)


def case_fromkeys_of_unhashable(x, env):
    env.y = x * 2
    return dict.fromkeys([1, []])


def case_fromkeys_of_dict_and_set(x, env):
    return dict.fromkeys({"b": 1, "a": 2}), dict.fromkeys({3}), dict.fromkeys(range(2), 0)


def case_get_and_setdefault(x, env):
    d = env.nested
    return (
        d.get("a"),
        d.get("z"),
        d.get("z", x),
        d.setdefault("a", 1),
        d.setdefault("n", []).append(1),
        d.setdefault("none"),
        d,
    )


def case_get_of_unhashable(x, env):
    return env.table.get([])


def case_setdefault_hashes_once(x, env):
    class K:
        def __hash__(self):
            env.log.append("hash")
            return 1

        def __eq__(self, other):
            env.log.append("eq")
            return True

    d = {K(): 1}
    return d.setdefault(K(), 2), len(d), env.log, x > 2


def case_pop_forms(x, env):
    d = {"a": 1, "b": x}
    return d.pop("a"), d.pop("z", None), d.pop("b") is x, d


def case_pop_missing(x, env):
    return env.table.pop("missing")


def case_pop_of_empty_hashes(x, env):
    return {}.pop([], 1), x.relu() + 1


def case_popitem_takes_the_last(x, env):
    d = {"a": 1, "b": 2, "c": 3}
    d["a"] = 10
    return d.popitem(), d.popitem(), d


def case_popitem_of_empty(x, env):
    env.table.popitem()


def case_update_forms(x, env):
    d = {}
    d.update({"a": 1})
    d.update([("b", 2)], c=3)
    d.update(d)
    d.update()
    d.update(a=x)
    return d, d.update({})


def case_update_keeps_what_came_before_the_error(x, env):
    try:
        env.table.update([("a", 1), ("b",), ("c", 3)])
    except ValueError as error:
        env.log.append(str(error))
    return env.table, x.exp()


def case_update_of_raising_mapping(x, env):
    class M:
        def keys(self):
            return ["a", "b"]

        def __getitem__(self, key):
            if key == "b":
                raise ZeroDivisionError(key)
            return key

    try:
        env.table.update(M())
    except ZeroDivisionError as error:
        env.log.append(error.args)
    return env.table


def case_update_with_none(x, env):
    env.total = (x + 1).sum()
    env.table.update(None)


def case_clear_and_copy(x, env):
    copy = env.nested.copy()
    env.nested.clear()
    return copy, env.nested, type(types.MappingProxyType({1: 2}).copy()).__name__


def case_union_operators(x, env):
    a, b = {"k": 1, "l": 2}, {"l": x, "m": 3}
    c = a | b
    a |= b
    alias = a
    a |= [("n", 4)]
    return c, list(a), alias is a


def case_union_with_pairs(x, env):
    return {} | [("a", 1)]


def case_union_with_subclass_on_the_right(x, env):
    class D(dict):
        def __ror__(self, other):
            return "ror", other

    return {"a": 1} | D(b=2), D(a=1) | {"b": 2}, 1 - x


def case_order_after_deletion_and_reinsertion(x, env):
    d = {"a": 1, "b": 2, "c": 3}
    del d["a"]
    d["a"] = 4
    d["b"] = 5
    return list(d), list(reversed(d)), list(d.items()), list(reversed(d.values()))


def case_views_are_live(x, env):
    keys, values, items = env.table.keys(), env.table.values(), env.table.items()
    env.table["a"] = x
    return len(keys), "a" in keys, len(values), list(items)[0][1] is x, keys


def case_views_set_operations(x, env):
    a, b = {"p": 1, "q": 2}, {"q": 2, "r": 3}
    return (
        sorted(a.keys() | b.keys()),
        a.keys() & b,
        sorted(a.keys() - ["p"]),
        a.items() & b.items(),
        sorted(a.keys() ^ b.keys()),
        a.keys() <= {"p", "q", "z"},
    ), x.sum() * 3


def case_views_compare(x, env):
    return (
        {1: 2}.keys() == {1: 3}.keys(),
        {1: 2}.items() == {1: 2}.items(),
        {1: 2}.values() == {1: 2}.values(),
        {1: 0}.keys() == {1},
        {}.keys().isdisjoint([1]),
    )


def case_views_membership_of_items(x, env):
    d = {"a": 1}
    return ("a", 1.0) in d.items(), ("a",) in d.items(), ["a", 1] in d.items(), 1 in d.values(), "a" in d.keys()


def case_views_cannot_be_indexed(x, env):
    env.x = x - 1
    return env.nested.keys()[0]


def case_view_mapping_attribute(x, env):
    d = {"a": 1}
    mapping = d.keys().mapping
    d["b"] = 2
    return mapping, type(mapping).__name__


def case_iterating_while_growing(x, env):
    y = env.y = x + 0.5
    d = {1: 1}
    for key in d.keys():
        env.log.append(key)
        d[key + 1] = 0


def case_iterating_items_while_shrinking(x, env):
    d = {1: 1, 2: 2}
    for key, value in d.items():
        env.log.append(key)
        del d[key]


def case_iterating_while_changing_values(x, env):
    d = {1: x, 2: x}
    for key in d:
        d[key] = d[key] * key
    return d


def case_iterating_a_copy(x, env):
    d = {1: 1, 2: 2, 3: 3}
    for key in list(d):
        if key % 2:
            del d[key]
    return d


def case_iterator_after_growth_and_back(x, env):
    d = {1: 1, 2: 2}
    it = iter(d)
    next(it)
    d[3] = 3
    del d[3]
    return list(it), x + x


def case_iterator_exhausted_then_grown(x, env):
    d = {1: 1}
    it = iter(d)
    env.log.append(list(it))
    d[2] = 2
    return list(it), next(it, "end")


def case_iterator_error_is_kept(x, env):
    d = {1: 1}
    it = iter(d)
    d[2] = 2
    for _ in range(2):
        try:
            next(it)
        except RuntimeError as error:
            env.log.append(str(error))
    return env.log, x * 2


def case_length_hint_of_iterator(x, env):
    it = iter({1: 1, 2: 2})
    next(it)
    return it.__length_hint__(), list(it)


def case_missing_key_error_of_tuple(x, env):
    return {}[(1, 2)]


def case_keys_of_mixed_kinds(x, env):
    d = {1: "int", "1": "text", (1,): "tuple", None: "none", 1.5: "float", frozenset([1]): "set"}
    return d[True], d[1.0], d[(1,)], d[None], d[frozenset({1})], len(d), (x + 1).sum()


def case_keys_nan(x, env):
    nan = float("nan")
    d = {nan: 1, float("nan"): 2}
    return len(d), d[nan], float("nan") in d


def case_keys_of_tensors(x, env):
    d = {x: "x"}
    return d[env.x], (x * 1) in d, list(d)[0] is x


def case_key_that_changes_its_hash(x, env):
    class K:
        def __init__(self):
            self.h = 1

        def __hash__(self):
            return self.h

    k = K()
    d = {k: "value"}
    k.h = 2
    return k in d, list(d)[0] is k, d.get(k), x - 0.5


def case_equality_calls_in_probing(x, env):
    class K:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 5

        def __eq__(self, other):
            env.log.append((self.name, other.name))
            return self.name == other.name

    d = {K("a"): 1, K("b"): 2}
    return d[K("b")], env.log


def case_equality_that_mutates(x, env):
    class K:
        def __hash__(self):
            return 5

        def __eq__(self, other):
            d.clear()
            return False

    d = {}
    d[K()] = 1
    d[5] = 2
    return len(d)


def case_comparison_of_dicts_compares_values(x, env):
    class V:
        def __eq__(self, other):
            env.log.append("eq")
            return True

    return {"a": V()} == {"a": 1}, {"a": 1} == {"b": 1}, {"a": 1} == [("a", 1)], env.log, -x


def case_repr(x, env):
    d = {"a": [1], 2: None}
    d["self"] = d
    return repr(d), str({}), f"{ {1: 2} }"


def case_repr_of_raising_value(x, env):
    env.y = x * x

    class V:
        def __repr__(self):
            raise KeyError("repr")

    return repr({"a": V()})


def case_del_missing(x, env):
    del env.table["missing"]


def case_nested_updates(x, env):
    env.nested["b"] = env.nested
    env.nested["b"]["c"] = 1
    return env.nested["b"]["b"]["c"], len(env.nested)


def case_dict_method_as_values(x, env):
    get = env.nested.get
    put = env.table.__setitem__
    put("k", x)
    return get("a"), get("z"), env.table["k"] is x, list(map({1: "one"}.get, [1, 2]))


def case_unbound_methods(x, env):
    class D(dict):
        def __getitem__(self, key):
            return "mine"

    d = D(a=1)
    return dict.get(d, "a"), dict.__getitem__(d, "a"), dict.__len__(d), dict.items(d), x * x


def case_unbound_method_of_wrong_object(x, env):
    return dict.get([], "a")


def case_wrong_argument_counts(x, env):
    for attempt in (
        lambda: {}.get(),
        lambda: {}.pop(),
        lambda: {}.setdefault(),
        lambda: {}.update(1, 2),
        lambda: {}.keys(1),
        lambda: {}.copy(1),
        lambda: dict.fromkeys(),
    ):
        try:
            attempt()
        except TypeError as error:
            env.log.append(str(error))
    return env.log, (x * 2).mean()
