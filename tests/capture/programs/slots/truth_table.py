"""Truth of two hundred objects, asked by `bool`, `not`, `if`, `while`, `and`, `or` and conditional expressions."""

import collections
import fractions
import types

BOOLS = {
    "absent": {},
    "none": {"__bool__": None},
    "true": {"__bool__": lambda self: True},
    "false": {"__bool__": lambda self: False},
    "one": {"__bool__": lambda self: 1},
    "text": {"__bool__": lambda self: "text"},
    "raising": {"__bool__": lambda self: 1 // 0},
    "static": {"__bool__": staticmethod(lambda: False)},
}
LENGTHS = {
    "absent": {},
    "none": {"__len__": None},
    "zero": {"__len__": lambda self: 0},
    "three": {"__len__": lambda self: 3},
    "negative": {"__len__": lambda self: -1},
    "huge": {"__len__": lambda self: 2**70},
    "float": {"__len__": lambda self: 1.5},
    "index": {"__len__": lambda self: type("Index", (), {"__index__": lambda self: 0})()},
    "raising": {"__len__": lambda self: [][0]},
}


def user(**attributes):
    """Objects of a new class."""
    return lambda x: type("Made", (), dict(attributes))()


def derived(*bases, **attributes):
    """Objects of a new class with bases."""
    return lambda x: type("Derived", bases, dict(attributes))()


def inherited(base, own):
    """Objects whose class overrides what a base has."""
    return lambda x: type("Child", (type("Parent", (), dict(base)),), dict(own))()


def set_on_instance(**attributes):
    """Objects whose own attributes do not matter."""

    def make(x):
        value = type("Made", (), {})()
        value.__dict__.update(attributes)
        return value

    return make


def of_metaclass(**attributes):
    """Classes, whose truth their metaclass says."""
    return lambda x: type("Meta", (type,), dict(attributes))("Made", (), {})


def descriptor(kind, get):
    """Objects whose method comes from a descriptor."""
    return user(**{kind: type("Descriptor", (), {"__get__": get})()})


TABLE = {
    **{
        f"user bool {b} length {n}": user(**bools, **lengths)
        for b, bools in BOOLS.items()
        for n, lengths in LENGTHS.items()
    },
    **{f"inherited {a} then {b}": inherited(BOOLS[a], BOOLS[b]) for a in BOOLS for b in ("absent", "none", "false")},
    **{f"length inherited {a}, bool {b}": inherited(LENGTHS[a], BOOLS[b]) for a in ("zero", "three") for b in BOOLS},
    **{f"length {n} of a list": derived(list, **lengths) for n, lengths in LENGTHS.items()},
    **{f"bool {b} of an int": derived(int, **bools) for b, bools in BOOLS.items()},
    **{f"bool {b} of a dict": derived(dict, **bools) for b, bools in BOOLS.items()},
    **{f"bool {b} of a text": derived(str, **bools) for b, bools in BOOLS.items()},
    **{f"metaclass bool {b}": of_metaclass(**bools) for b, bools in BOOLS.items()},
    "metaclass length": of_metaclass(__len__=lambda cls: 0),
    "class with bool of its instances": lambda x: type("Made", (), {"__bool__": lambda self: False}),
    "bool set on the instance": set_on_instance(__bool__=lambda: False),
    "length set on the instance": set_on_instance(__len__=lambda: 0),
    "bool by getattr": user(__getattr__=lambda self, name: lambda: False),
    "bool from a descriptor": descriptor("__bool__", lambda self, instance, owner: lambda: False),
    "length from a descriptor": descriptor("__len__", lambda self, instance, owner: lambda: 0),
    "bool from a descriptor that raises": descriptor("__bool__", lambda self, instance, owner: {}["k"]),
    "bool from a property": user(__bool__=property(lambda self: lambda: True)),
    "bool from a class method": user(__bool__=classmethod(lambda cls: False)),
    "true and false": lambda x: True,
    "false": lambda x: False,
    "none": lambda x: None,
    "ellipsis": lambda x: ...,
    "zero": lambda x: 0,
    "minus one": lambda x: -1,
    "large": lambda x: 2**100,
    "float zero": lambda x: 0.0,
    "float minus zero": lambda x: -0.0,
    "nan": lambda x: float("nan"),
    "infinity": lambda x: float("inf"),
    "complex zero": lambda x: 0j,
    "complex": lambda x: -0.0 + 1j,
    "empty text": lambda x: "",
    "space": lambda x: " ",
    "text of zero": lambda x: "0",
    "empty bytes": lambda x: b"",
    "zero byte": lambda x: b"\0",
    "bytearray": lambda x: bytearray(2),
    "empty bytearray": lambda x: bytearray(),
    "memory": lambda x: memoryview(b"a"),
    "empty memory": lambda x: memoryview(b""),
    "empty list": lambda x: [],
    "list of an empty list": lambda x: [[]],
    "empty tuple": lambda x: (),
    "tuple of none": lambda x: (None,),
    "empty dict": lambda x: {},
    "dict": lambda x: {0: 0},
    "empty set": lambda x: set(),
    "set": lambda x: {0},
    "frozenset": lambda x: frozenset(),
    "empty range": lambda x: range(3, 3),
    "range": lambda x: range(0, 10, 3),
    "range backwards": lambda x: range(0, 1, -1),
    "keys": lambda x: {}.keys(),
    "values": lambda x: {1: 0}.values(),
    "items": lambda x: {}.items(),
    "iterator of nothing": lambda x: iter([]),
    "generator of nothing": lambda x: (i for i in ()),
    "function": lambda x: lambda: False,
    "builtin": lambda x: len,
    "class": lambda x: int,
    "module": lambda x: types,
    "slice": lambda x: slice(0),
    "object": lambda x: object(),
    "namespace": lambda x: types.SimpleNamespace(),
    "proxy of nothing": lambda x: types.MappingProxyType({}),
    "proxy": lambda x: types.MappingProxyType({1: 1}),
    "empty counter": lambda x: collections.Counter(),
    "counter of zeros": lambda x: collections.Counter(a=0),
    "empty defaultdict": lambda x: collections.defaultdict(list),
    "defaultdict": lambda x: collections.defaultdict(list, a=[]),
    "empty ordered": lambda x: collections.OrderedDict(),
    "ordered": lambda x: collections.OrderedDict(a=0),
    "empty deque": lambda x: collections.deque(),
    "deque": lambda x: collections.deque([0]),
    "deque of no room": lambda x: collections.deque([1], 0),
    "empty chain map": lambda x: collections.ChainMap({}, {}),
    "chain map": lambda x: collections.ChainMap({}, {1: 1}),
    "user dict": lambda x: collections.UserDict(),
    "user list": lambda x: collections.UserList([0]),
    "user text": lambda x: collections.UserString(""),
    "named tuple": lambda x: collections.namedtuple("Pair", "a b")(0, 0),
    "named tuple of nothing": lambda x: collections.namedtuple("Empty", "")(),
    "fraction": lambda x: fractions.Fraction(0),
    "exception": lambda x: ValueError(),
    "not implemented type": lambda x: type(NotImplemented),
    "tensor": lambda x: x,
    "tensor of no dims": lambda x: x.sum(),
    "tensor of no dims that is zero": lambda x: x.sum() * 0,
    "tensor of one element": lambda x: x[:1] - 1,
    "tensor of no elements": lambda x: x[:0],
    "length of a tensor": lambda x: len(x) - 4,
    "size of a tensor": lambda x: x.shape[0],
}


def truth(make):
    """Return the program that asks for the truth of one object in all ways."""

    def case_truth(x, env):
        def while_loop(v):
            while v:
                return True
            return False

        questions = {
            "bool": lambda v: bool(v),
            "not": lambda v: not v,
            "if": lambda v: "yes" if v else "no",
            "while": while_loop,
            "and": lambda v: (v and 1) is v,
            "or": lambda v: (v or 1) is v,
            "if not": lambda v: 1 if not v else 2,
            "chain": lambda v: bool(0 or v and 1),
        }
        value = make(x)
        for name, ask in questions.items():
            try:
                env.log.append((name, ask(value)))
            except Exception as error:
                env.log.append((name, type(error).__name__, str(error)))
        return x + 1

    return case_truth


def cases():
    """Yield name and program of each object."""
    return ((name, truth(make)) for name, make in TABLE.items())
