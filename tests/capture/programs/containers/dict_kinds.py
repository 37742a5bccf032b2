"""`defaultdict`, `OrderedDict`, `Counter`, `ChainMap`, `UserDict`, and dicts with methods of their own."""

import collections
import types


def case_copy_of_subclass_is_a_dict(x, env):
    class D(dict):
        pass

    d = D(a=1)
    d.note = 1
    return type(d.copy()).__name__, type(d | {}).__name__, d, x * 2


def case_iter_of_subclass_override(x, env):
    class D(dict):
        def __iter__(self):
            return iter(["mine"])

        def keys(self):
            return ["a"]

        def items(self):
            return [("item", 1)]

    d = D(a=1)
    return list(d), [*d], list(d.keys()), {**d}, dict(d), len(d), "a" in d, [k for k in d]


def case_len_and_contains_overrides(x, env):
    class D(dict):
        def __len__(self):
            return 0

        def __contains__(self, key):
            return True

    d = D(a=1)
    return bool(d), "z" in d, d.get("z"), d == {"a": 1}, (x + 1).sum()


def case_missing_hook_and_setdefault(x, env):
    class D(dict):
        def __missing__(self, key):
            env.log.append(key)
            self[key] = value = []
            return value

    d = D()
    d["a"].append(1)
    d["a"].append(2)
    return d, d.get("b"), d.pop("c", 0), env.log


def case_missing_hook_on_the_instance(x, env):
    class D(dict):
        pass

    d = D()
    d.__missing__ = lambda key: key
    return d["a"]


def case_proxy(x, env):
    env.y = x * 2
    d = {"a": 1}
    proxy = types.MappingProxyType(d)
    d["b"] = 2
    env.log.append((proxy["b"], len(proxy), proxy | {"c": 3}, proxy == d))
    proxy["c"] = 1


def case_defaultdict(x, env):
    d = collections.defaultdict(list)
    d["a"].append(1)
    d["b"]
    return d, d.get("c"), "c" in d, d.default_factory is list, d.pop("a")


def case_defaultdict_factory_runs_only_for_items(x, env):
    def make():
        env.log.append("made")
        return x * 2

    d = collections.defaultdict(make, {"here": 1})
    return d["here"], d["new"], d["new"] is d["new"], len(env.log)


def case_defaultdict_without_factory(x, env):
    env.total = (x + 1).sum()
    return collections.defaultdict(None, a=1)["b"]


def case_defaultdict_factory_that_raises(x, env):
    def make():
        raise ValueError("factory")

    d = collections.defaultdict(make)
    try:
        d["a"]
    except ValueError:
        env.log.append(len(d))
    d.default_factory = int
    d["n"] += 1
    return d


def case_defaultdict_nested(x, env):
    tree = lambda: collections.defaultdict(tree)
    t = tree()
    t["a"]["b"]["c"] = x
    return list(t), t["a"]["b"]["c"] is x, repr(collections.defaultdict(int, a=1)), type(t | {}).__name__


def case_ordered_dict_moves(x, env):
    d = collections.OrderedDict(a=1, b=2, c=3)
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    return list(d), d.popitem(), d.popitem(last=False), d


def case_ordered_dict_move_missing(x, env):
    env.x = x - 1
    collections.OrderedDict(a=1).move_to_end("z")


def case_ordered_dict_equality_is_ordered(x, env):
    a, b = collections.OrderedDict(p=1, q=2), collections.OrderedDict(q=2, p=1)
    return a == b, a == dict(b), dict(a) == b, list(reversed(a)), a.popitem(last=True)


def case_ordered_dict_changed_while_iterating(x, env):
    y = env.y = x + 0.5
    d = collections.OrderedDict(a=1, b=2)
    for key in d:
        d.move_to_end("a")
        d["c"] = 3


def case_counter(x, env):
    c = collections.Counter("abracadabra")
    c.update(a=1)
    c.subtract("bb")
    return c["a"], c["z"], c.most_common(2), sorted(c.elements())[:3], "z" in c, c.total(), +c == c


def case_counter_arithmetic(x, env):
    a, b = collections.Counter(p=3, q=1), collections.Counter(p=1, r=2)
    return a + b, a - b, a & b, a | b, -collections.Counter(p=-2), a <= a + b, a == collections.Counter(p=3, q=1, z=0)


def case_chain_map(x, env):
    first, second = {"a": 1}, {"a": 2, "b": x}
    chain = collections.ChainMap(first, second)
    chain["c"] = 3
    child = chain.new_child({"a": 0})
    return (
        chain["a"],
        chain["b"] is x,
        first,
        list(chain),
        child["a"],
        child.parents["a"],
        len(chain),
        chain.maps[0] is first,
    )


def case_chain_map_delete_from_second(x, env):
    env.y = x * x
    del collections.ChainMap({}, {"a": 1})["a"]


def case_user_dict_goes_through_its_methods(x, env):
    class D(collections.UserDict):
        def __setitem__(self, key, value):
            env.log.append(key)
            super().__setitem__(key, value)

    d = D(a=1)
    d.update(b=2)
    d.setdefault("c", x)
    return d.data, env.log


def case_view_of_a_dict_that_is_written(x, env):
    shown = types.MappingProxyType(env.table)
    print("between")
    env.table["a"] = x
    return len(shown), shown["a"], dict(shown)


def case_dict_of_before_gets_a_key_with_a_hash(x, env):
    class Key:
        def __hash__(self):
            env.log.append("hash")
            return 42

    held = {}
    print("between")
    key = Key()
    held[key] = x + 1
    print("again")
    return held[key], env.log


def case_frozenset_of_objects_with_a_hash(x, env):
    class Key:
        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return self.number

    held = frozenset([Key(3), Key(4)])
    print("between")
    return sorted(key.number for key in held), x + 1


def case_text_of_a_list_that_holds_itself(x, env):
    held = [1, {"a": 2}]
    held.append(held)
    held[1]["b"] = held
    return repr(held), str(held[1]), f"{held}"
