"""Dataclasses, enumerations, named tuples and typed dicts."""

import collections
import dataclasses
import enum
import typing


def case_dataclass_basic(x, env):
    @dataclasses.dataclass
    class P:
        a: int
        b: list = dataclasses.field(default_factory=list)
        c: object = None

    p = P(1, c=x)
    p.b.append(2)
    return p, P(1).b is P(1).b, p.c is x


def case_dataclass_repr_and_eq(x, env):
    @dataclasses.dataclass
    class P:
        a: int
        b: str = "text"
        hidden: int = dataclasses.field(default=0, repr=False, compare=False)

    return repr(P(1)).split(".")[-1], P(1) == P(1, hidden=5), P(1) == P(2), P(1) != (1, "text"), P.__hash__, x > 2


def case_dataclass_order(x, env):
    @dataclasses.dataclass(order=True)
    class P:
        a: int
        b: int = 0

    env.log.append(sorted([P(2), P(1, 5), P(1, 2)]) == [P(1, 2), P(1, 5), P(2)])
    return P(1) < 5


def case_dataclass_frozen(x, env):
    env.y = x * 2

    @dataclasses.dataclass(frozen=True)
    class P:
        a: int

    p = P(1)
    env.log.append((hash(p) == hash(P(1)), {p: 1}[P(1)]))
    p.a = 2


def case_dataclass_frozen_delete(x, env):
    @dataclasses.dataclass(frozen=True)
    class P:
        a: int

    del P(1).a


def case_dataclass_post_init(x, env):
    @dataclasses.dataclass
    class P:
        a: int
        scale: dataclasses.InitVar[int] = 2
        total: int = dataclasses.field(init=False)

        def __post_init__(self, scale):
            env.log.append(scale)
            self.total = self.a * scale

    return P(3), P(x, 4).total


def case_dataclass_inheritance(x, env):
    @dataclasses.dataclass
    class A:
        a: int = 1
        b: int = 2

    @dataclasses.dataclass
    class B(A):
        c: int = 3
        a: int = 10

    return [f.name for f in dataclasses.fields(B)], B(), B(5, 6, 7)


def case_dataclass_keyword_only(x, env):
    env.total = (x + 1).sum()

    @dataclasses.dataclass(kw_only=True)
    class P:
        a: int
        b: int = 2

    env.log.append(P(a=1).b)
    P(1)


def case_dataclass_missing_argument(x, env):
    @dataclasses.dataclass
    class P:
        a: int
        b: int

    P(1)


def case_dataclass_mutable_default(x, env):
    env.x = x - 1

    @dataclasses.dataclass
    class P:
        a: list = []


def case_dataclass_default_order(x, env):
    @dataclasses.dataclass
    class P:
        a: int = 1
        b: int


def case_dataclass_slots(x, env):
    @dataclasses.dataclass(slots=True)
    class P:
        a: int = 1

    p = P(x)
    env.log.append((p.a is x, hasattr(p, "__dict__")))
    p.b = 1


def case_dataclass_replace_asdict_astuple(x, env):
    @dataclasses.dataclass
    class P:
        a: object
        b: list

    p = P(P(1, []), [1, 2])
    q = dataclasses.replace(p, b=[3])
    return q.a is p.a, q.b, dataclasses.asdict(p), dataclasses.astuple(p), dataclasses.is_dataclass(P)


def case_dataclass_replace_unknown(x, env):
    y = env.y = x + 0.5

    @dataclasses.dataclass
    class P:
        a: int

    dataclasses.replace(P(1), z=1)


def case_make_dataclass(x, env):
    P = dataclasses.make_dataclass("P", ["a", ("b", int, 2)], namespace={"total": lambda self: self.a + self.b})
    return P(x).total(), P.__name__, P.__match_args__


def case_dataclass_of_class_var(x, env):
    @dataclasses.dataclass
    class P:
        shared: typing.ClassVar[list] = []
        a: int = 1

    P.shared.append(1)
    return P().shared, [f.name for f in dataclasses.fields(P)]


def case_enum_members(x, env):
    class Color(enum.Enum):
        RED = 1
        GREEN = 2
        CRIMSON = 1

    return (
        list(Color),
        Color.CRIMSON is Color.RED,
        Color(2).name,
        Color["RED"].value,
        len(Color),
        list(Color.__members__),
        str(Color.RED),
    ), x.relu() + 1


def case_enum_value_missing(x, env):
    class Color(enum.Enum):
        RED = 1

    Color(7)


def case_enum_name_missing(x, env):
    class Color(enum.Enum):
        RED = 1

    Color["BLUE"]


def case_enum_attribute_missing(x, env):
    env.y = x * x

    class Color(enum.Enum):
        RED = 1

    Color.BLUE


def case_enum_cannot_be_changed(x, env):
    class Color(enum.Enum):
        RED = 1

    Color.RED = 2


def case_enum_cannot_be_extended(x, env):
    env.y = x * 2

    class Color(enum.Enum):
        RED = 1

    class More(Color):
        BLUE = 2


def case_enum_auto(x, env):
    class Kind(enum.Enum):
        @staticmethod
        def _generate_next_value_(name, start, count, last):
            return name.lower(), count

        A = enum.auto()
        B = enum.auto()

    class Plain(enum.Enum):
        A = enum.auto()
        B = enum.auto()

    return [k.value for k in Kind], [p.value for p in Plain]


def case_enum_with_init_and_methods(x, env):
    class Planet(enum.Enum):
        EARTH = (3, 4)
        MARS = (1, 2)

        def __init__(self, mass, radius):
            self.mass, self.radius = mass, radius

        @property
        def density(self):
            return self.mass / self.radius

        def scale(self, t):
            return t * self.mass

    return Planet.MARS.density, Planet.EARTH.scale(x), Planet((3, 4)).name


def case_enum_missing_hook(x, env):
    class Color(enum.Enum):
        RED = 1

        @classmethod
        def _missing_(cls, value):
            return cls.RED if value == "red" else None

    env.log.append(Color("red").name)
    Color("blue")


def case_int_enum_and_flag(x, env):
    class N(enum.IntEnum):
        ONE = 1
        TWO = 2

    class F(enum.Flag):
        A = 1
        B = 2
        AB = 3

    return (
        N.ONE + N.TWO,
        N.ONE == 1,
        x * N.TWO,
        F.A | F.B is F.AB,
        (F.A | F.B) == F.AB,
        F.A in F.AB,
        bool(F.A & F.B),
        ~F.A == F.B,
    )


def case_str_enum(x, env):
    class S(str, enum.Enum):
        A = "a"

    class T(enum.StrEnum):
        B = enum.auto()

    return S.A == "a", S.A + "b", f"{T.B}", T.B.upper(), {S.A: 1}["a"], x.exp()


def case_enum_identity_in_dict_and_match(x, env):
    class Mode(enum.Enum):
        ADD = "add"
        MUL = "mul"

    table = {Mode.ADD: lambda v: v + 2, Mode.MUL: lambda v: v * 2}
    match Mode("mul"):
        case Mode.ADD:
            kind = "a"
        case Mode.MUL:
            kind = "m"
    return table[Mode("add")](x), kind, Mode.ADD is Mode("add")


def case_enum_iteration_and_functional(x, env):
    Animal = enum.Enum("Animal", "CAT DOG")
    return (
        [a.name for a in Animal],
        [a.value for a in reversed(Animal)],
        Animal.CAT in Animal,
        isinstance(Animal.CAT, Animal),
    )


def case_enum_unique(x, env):
    env.total = (x + 1).sum()

    @enum.unique
    class Color(enum.Enum):
        RED = 1
        CRIMSON = 1


def case_named_tuple(x, env):
    P = collections.namedtuple("P", "a b c", defaults=[3])
    p = P(1, b=x)
    return p, p.b is x, p._replace(a=5), p._asdict(), P._fields, P._make("xyz"), p[0] + p.c, P._field_defaults


def case_named_tuple_errors(x, env):
    P = collections.namedtuple("P", "a b")
    for attempt in (
        lambda: P(1),
        lambda: P(1, 2, 3),
        lambda: P(1, c=2),
        lambda: P(1, 2)._replace(z=1),
        lambda: P._make([1]),
    ):
        try:
            attempt()
        except (TypeError, ValueError) as error:
            env.log.append((type(error).__name__, str(error)))
    P(1, 2).a = 3


def case_named_tuple_subclass_keeps_attributes(x, env):
    class P(collections.namedtuple("P", "a b")):
        def total(self):
            return self.a + self.b

    p = P(x, x * 2)
    p.note = ["kept"]
    q = p
    env.log.append(q)
    return p, p.note is q.note, p.total()


def case_named_tuple_subclass_attributes_survive_operations(x, env):
    class P(collections.namedtuple("P", "a b")):
        pass

    p = P(x + 1, 2)
    p.tag = "first"
    a, b = p
    items = [p, p]
    return items[1].tag, p.a * b, {"p": p}["p"].tag, [q.tag for q in items], hasattr(p._replace(b=3), "tag"), p


def case_named_tuple_subclass_with_slots(x, env):
    class P(collections.namedtuple("P", "a b")):
        __slots__ = ()

    P(1, 2).tag = 1


def case_typing_named_tuple(x, env):
    class P(typing.NamedTuple):
        a: int
        b: object = None

        def double(self):
            return self.b * 2

    return P(1), P(1, x).double(), P.__annotations__, P(1) == (1, None)


def case_named_tuple_unpack_compare_hash(x, env):
    P = collections.namedtuple("P", "a b")
    return (
        (*P(1, 2),),
        P(1, 2) < P(1, 3),
        hash(P(1, 2)) == hash((1, 2)),
        P(1, 2) + (3,),
        repr(P(1, "b")),
        P(1, 2) == (1, 2),
    ), 1 - x


def case_typed_dict(x, env):
    class T(typing.TypedDict, total=False):
        a: int
        b: str

    return T(a=1), type(T(b="x")) is dict, T.__annotations__["a"]


def case_simple_namespace(x, env):
    import types

    n = types.SimpleNamespace(a=1, b=x)
    n.c = [n.a]
    del n.a
    return n, repr(types.SimpleNamespace(p=1))
