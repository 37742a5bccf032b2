"""`match`: every form of pattern, what it binds, which methods it calls, and its errors."""

import collections
import dataclasses
import enum
import types


class Point:
    __match_args__ = ("p", "q")

    def __init__(self, p, q):
        self.p, self.q = p, q


def describe(value):
    match value:
        case None | True | False:
            return "singleton", value
        case 0 | 1:
            return "small"
        case -1.5:
            return "negative float"
        case 2 + 3j:
            return "complex"
        case "text" | b"bytes":
            return "literal"
        case int(n) if n > 100:
            return "large", n
        case int() | float():
            return "number"
        case []:
            return "empty sequence"
        case [only]:
            return "one", only
        case [1, 2, *rest]:
            return "from one and two", rest
        case [first, *_, last]:
            return "ends", first, last
        case {"kind": "circle", "r": r, **rest}:
            return "circle", r, rest
        case {"kind": kind}:
            return "kind", kind
        case {}:
            return "mapping"
        case Point(p=0, q=0):
            return "origin"
        case Point(0, q):
            return "on an axis", q
        case Point():
            return "point"
        case str() as text:
            return "other text", text
        case _:
            return "anything"


def case_literals(x, env):
    return [describe(v) for v in (None, True, 0, 1, 1.0, -1.5, 2 + 3j, "text", b"bytes", 500, 7, "other", b"x")], (
        x * 2
    ).mean()


def case_sequences(x, env):
    return [
        describe(v)
        for v in (
            [],
            (),
            [5],
            (1, 2),
            [1, 2, 3, 4],
            [7, 8, 9],
            range(3),
            collections.deque([1]),
            iter([]),
            {1},
            "ab",
            bytearray(b"ab"),
        )
    ]


def case_mappings(x, env):
    ordered = collections.OrderedDict(kind="circle", r=x, z=1)
    return (
        describe({"kind": "circle", "r": 2}),
        describe(ordered),
        describe({"kind": 1}),
        describe({}),
        describe({1: 2}),
        describe(types.MappingProxyType({"kind": 3})),
    )


def case_classes(x, env):
    return describe(Point(0, 0)), describe(Point(0, "q")), describe(Point(1, 2)), describe(object), x / 2


def case_singletons_by_identity(x, env):
    class Equal:
        def __eq__(self, other):
            return True

    match Equal():
        case None:
            return "none"
        case True:
            return "true"
        case 5:
            return "five", x + 1


def case_true_is_not_one_but_one_matches_true_by_value(x, env):
    def kind(v):
        match v:
            case True:
                return "True"
            case 1:
                return "1"
        return "none"

    return kind(True), kind(1), kind(1.0), kind(False)


def case_value_patterns_compare_by_equality(x, env):
    class Names:
        first = "a"
        second = [1, 2]

    class V:
        def __eq__(self, other):
            env.log.append(other)
            return other == [1, 2]

    match V():
        case Names.first:
            return "first"
        case Names.second:
            return "second", env.log


def case_value_pattern_missing_attribute(x, env):
    y = env.y = x + 0.5
    match 5:
        case env.missing:
            return 1


def case_value_pattern_that_raises(x, env):
    class V:
        def __eq__(self, other):
            raise ZeroDivisionError("eq")

    match V():
        case 5:
            return 1


def case_enum_values(x, env):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    match Color(2):
        case Color.RED:
            return "red"
        case Color.BLUE:
            return "blue", x * 2


def case_capture_binds_even_when_the_guard_fails(x, env):
    match 5:
        case n if n > 10:
            return "large"
        case m:
            pass
    return n, m, x > 2


def case_capture_of_failed_sequence(x, env):
    match [1, 2]:
        case [a, 3]:
            return "three"
        case [a, b]:
            return a, b


def case_no_match_binds_nothing(x, env):
    match 5:
        case [a]:
            pass
    return a


def case_no_match_falls_through(x, env):
    match x.shape[0]:
        case 3:
            env.log.append(3)
        case 5:
            env.log.append(5)
    return env.log


def case_guard_effects(x, env):
    env.y = x * x

    def guard(name, answer):
        env.log.append(name)
        return answer

    match 1:
        case 1 if guard("a", 0):
            return "a"
        case 2 if guard("never", 1):
            return "never"
        case _ if guard("b", [1]):
            return "b", env.log


def case_guard_that_raises(x, env):
    match 1:
        case n if n.missing:
            return 1


def case_subject_is_evaluated_once(x, env):
    env.y = x * 2

    def subject():
        env.log.append("once")
        return 3

    match subject():
        case 1 | 2:
            pass
        case 3:
            return env.log


def case_subject_is_a_tuple(x, env):
    match env.count, env.items, x:
        case 0, [first, *_], t:
            return first, t is x


def case_alternatives_bind_the_same_names(x, env):
    def f(v):
        match v:
            case [a, 1] | [1, a] | {"a": a}:
                return a
            case _:
                return None

    return f([5, 1]), f([1, 6]), f({"a": x}) is x, f([2, 2])


def case_as_patterns(x, env):
    match {"pair": (1, [2, 3])}:
        case {"pair": (int() as a, [_, (2 | 3) as b] as whole) as pair} as everything:
            return a, b, whole, pair, everything


def case_starred_forms(x, env):
    def f(v):
        match v:
            case [*everything] if len(everything) < 2:
                return "few", everything
            case [*start, "end"]:
                return "end", start
            case ["start", *_]:
                return "start"
            case [a, [b, *c], *d]:
                return a, b, c, d

    return f([1]), f(["x", "end"]), f(["start", 2]), f([1, (2, 3, 4), 5]), f([1, 2])


def case_starred_is_always_a_list(x, env):
    env.total = (x + 1).sum()
    match (1, 2, 3):
        case (a, *rest):
            return type(rest).__name__, rest


def case_sequence_protocol(x, env):
    class S(collections.abc.Sequence):
        def __len__(self):
            env.log.append("len")
            return 2

        def __getitem__(self, index):
            env.log.append(index)
            if index > 1:
                raise IndexError(index)
            return index * 10

    match S():
        case [a, b, c]:
            return "three"
        case [a, 20]:
            return "wrong"
        case [a, b]:
            return a, b, env.log


def case_sequence_by_registration(x, env):
    class Plain:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return [index][index]

    class Registered(Plain):
        pass

    collections.abc.Sequence.register(Registered)

    def f(v):
        match v:
            case [a]:
                return a
            case _:
                return "no sequence"

    return f(Plain()), f(Registered()), x.relu() + 1


def case_sequence_length_raises(x, env):
    class S(list):
        def __len__(self):
            raise ValueError("len")

    match S():
        case [a]:
            return 1


def case_tensor_is_no_sequence(x, env):
    match x:
        case [a, *_]:
            return "sequence"
        case _:
            return "no sequence", x + 1


def case_mapping_uses_get(x, env):
    class M(dict):
        def get(self, key, default=None):
            env.log.append(key)
            return super().get(key, default)

        def __missing__(self, key):
            return "missing"

    match M(a=1):
        case {"b": _}:
            return "b"
        case {"a": 1}:
            return "a", env.log


def case_mapping_of_defaultdict_makes_nothing(x, env):
    env.x = x - 1
    d = collections.defaultdict(list)
    match d:
        case {"a": _}:
            return "a"
        case _:
            return len(d)


def case_mapping_rest_is_a_new_dict(x, env):
    match env.nested:
        case {**rest}:
            rest["new"] = 1
            return rest, env.nested


def case_mapping_keys_by_value(x, env):
    y = env.y = x + 0.5

    class K:
        key = "a"

    match {"a": 1, -1: 2, None: 3}:
        case {K.key: a, -1: b, None: c}:
            return a, b, c


def case_mapping_duplicate_keys(x, env):
    class K:
        key = "a"

    match {"a": 1, "b": 2}:
        case {"a": a, K.key: b}:
            return a, b


def case_class_positional_and_keyword(x, env):
    match Point(1, x):
        case Point(0, _):
            return "zero"
        case Point(1, q=tensor):
            return tensor is x


def case_class_without_match_args(x, env):
    class A:
        pass

    match A():
        case A(1):
            return 1


def case_class_with_too_many_positional(x, env):
    env.y = x * x
    match Point(1, 2):
        case Point(1, 2, 3):
            return 1


def case_class_attribute_twice(x, env):
    match Point(1, 2):
        case Point(1, p=1):
            return 1


def case_class_that_is_no_class(x, env):
    env.y = x * 2
    five = 5
    match 5:
        case five():
            return 1


def case_class_match_args_of_wrong_kind(x, env):
    class A:
        __match_args__ = ["a"]
        a = 1

    match A():
        case A(1):
            return 1


def case_class_match_args_of_no_text(x, env):
    class A:
        __match_args__ = (1,)

    match A():
        case A(1):
            return 1


def case_class_missing_attribute_does_not_match(x, env):
    env.total = (x + 1).sum()
    match Point(1, 2):
        case Point(z=_):
            return "z"
        case Point(p=1):
            return "p"


def case_class_attribute_that_raises(x, env):
    class A:
        @property
        def a(self):
            raise ValueError("property")

    match A():
        case A(a=1):
            return 1


def case_class_of_builtins_takes_itself(x, env):
    def f(v):
        match v:
            case bool(b):
                return "bool", b
            case int(i):
                return "int", i
            case str(s):
                return "str", s
            case list([first, *_] as items):
                return "list", first, items
            case dict(d):
                return "dict", d
            case tuple((a, b)):
                return "tuple", a, b

    return f(True), f(3), f("s"), f([1, 2]), f({1: 2}), f((x, 1)), f(2.5)


def case_class_builtin_with_two_positional(x, env):
    env.x = x - 1
    match 5:
        case int(a, b):
            return 1


def case_class_uses_isinstance(x, env):
    class Meta(type):
        def __instancecheck__(cls, value):
            env.log.append(value)
            return True

    class A(metaclass=Meta):
        pass

    match 5:
        case A():
            return env.log


def case_class_of_dataclass(x, env):
    @dataclasses.dataclass
    class P:
        a: int
        b: object = None

    match P(1, P(2, x)):
        case P(a, P(2, t)):
            return a, t is x


def case_class_named_tuple(x, env):
    P = collections.namedtuple("P", "a b")

    def f(v):
        match v:
            case P(1, b):
                return "P", b
            case (a, b):
                return "pair", a, b

    return f(P(1, 2)), f(P(2, x)), f((1, 2))


def case_nested_match(x, env):
    match env.nested:
        case {"a": items}:
            match items:
                case [1, second]:
                    return second, x * second


def case_match_in_a_loop(x, env):
    for command in (["go", "north"], ["stop"], ["go", "home", "now"], 5):
        match command:
            case ["go", place]:
                env.log.append(place)
            case ["go", *places]:
                env.log.append(places)
            case ["stop"]:
                continue
            case _:
                break
    return env.log, command


def case_match_as_a_name(x, env):
    match = {"case": 1}
    case = match["case"]
    return match, case, x.exp()


def case_match_recursive_evaluator(x, env):
    def evaluate(tree):
        match tree:
            case ("add", a, b):
                return evaluate(a) + evaluate(b)
            case ("mul", a, b):
                return evaluate(a) * evaluate(b)
            case ("neg", a):
                return -evaluate(a)
            case leaf:
                return leaf

    return evaluate(("add", ("mul", x, 2), ("neg", 1)))
