"""Classes that a compiled function makes: each call makes its own."""

import abc
import functools

import pytest

import rushlight as rl
from rushlight.support import events


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


def codes():
    return {event.code for event in events.events("graph_break")}


def test_a_class_that_stays_inside_is_part_of_one_graph():
    def applies(x):
        class Scale:
            factor = 2

            def __init__(self, bias):
                self.bias = bias

            def __call__(self, y):
                return y * self.factor + self.bias

            def __bool__(self):
                return self.factor > 1

        scale = Scale(x)
        y = scale(x) if scale else x
        Scale.factor = 0
        return y - 1 if scale else y + 100

    compiled = rl.compile(applies, fullgraph=False)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((3,), value)
        assert compiled(x).equal(applies(x))
    assert not codes() and rl.compiler.graph_count() == 1


def test_an_exception_class_of_the_function_is_raised_and_caught():
    def catches(x):
        class Stop(Exception):
            pass

        try:
            raise Stop(3)
        except Stop as stop:
            return x * stop.args[0]

    compiled = rl.compile(catches, fullgraph=False)
    assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]
    assert not codes() and rl.compiler.graph_count() == 1


def as_itself(made):
    return made


def as_instance(made):
    return made()


def as_method(made):
    return made().method


def as_function(made):
    return made.method


def as_builtin(made):
    return made.mro


def in_a_list(made):
    return [made()]


@pytest.mark.parametrize(
    "kept", [as_itself, as_instance, as_method, as_function, as_builtin, in_a_list], ids=lambda kept: kept.__name__
)
def test_a_class_that_is_kept_is_another_one_at_each_call(kept):
    def makes(x):
        class Made:
            def method(self):
                return __class__

        return x + 1, Made, kept(Made)

    def classes_of(value):
        for one in value if type(value) is list else [value]:
            owner = getattr(one, "__self__", one)
            if type(owner) is type(makes):
                yield owner(None)
            else:
                yield owner if isinstance(owner, type) else type(owner)

    compiled = rl.compile(makes, fullgraph=False)
    seen = []
    for _ in range(3):
        y, made, result = compiled(rl.ones(2))
        assert y.tolist() == [2.0, 2.0] and list(classes_of(result)) == [made]
        seen.append(made)
    assert len(set(seen)) == 3
    assert not codes() and rl.compiler.graph_count() == 1


def test_a_base_is_told_of_each_class():
    told = []

    class Base:
        def __init_subclass__(cls, **kwargs):
            told.append(cls.__name__)

    def derives(x):
        class Derived(Base):
            pass

        return x + 1

    compiled = rl.compile(derives, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert told == ["Derived"] * 3


def test_a_base_forgets_the_class_of_the_trace():
    class Base:
        pass

    def derives(x):
        class Derived(Base):
            pass

        return x + 1, Derived

    compiled = rl.compile(derives, fullgraph=False)
    kept = [compiled(rl.ones(2))[1] for _ in range(3)]
    assert Base.__subclasses__() == kept
    assert not codes() and rl.compiler.graph_count() == 1


def test_metaclasses_slots_and_names_are_part_of_one_graph():
    def makes(x):
        class Named:
            def __set_name__(self, owner, name):
                self.name = owner.__name__ + "." + name

            def __get__(self, owner, cls):
                return self.name

        class Meta(type):
            def __new__(meta, name, bases, namespace, **kwargs):
                made = super().__new__(meta, name, bases, namespace)
                made.keywords = kwargs
                return made

            def __init__(cls, name, bases, namespace, **kwargs):
                super().__init__(name, bases, namespace)

            def __len__(cls):
                return len(cls.keywords)

        class Slotted(metaclass=Meta):
            __slots__ = ("__hidden", "shown")

            def __init__(self, value):
                self.__hidden = value
                self.shown = value + 1

            @property
            def hidden(self):
                return self.__hidden

        class Derived(Slotted, first=1, second=2):
            attribute = Named()

            def __init_subclass__(cls, **kwargs):
                super().__init_subclass__()
                cls.told = kwargs

            def __eq__(self, other):
                return True

        class Last(Derived, third=x):
            def shows(self):
                return super().hidden, __class__

        return Last, Last(x), Slotted(x * 2)

    compiled = rl.compile(makes, fullgraph=False)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((2,), value)
        last, one, other = compiled(x)
        derived, slotted = last.__mro__[1:3]
        assert type(one) is last and type(other) is slotted and len(derived) == 2 and len(slotted) == 0
        assert one.attribute == "Derived.attribute" and last.told == {} and list(last.keywords) == ["third"]
        assert last.keywords["third"].equal(x)
        assert one.shows()[1] is last and one.shows()[0].equal(x) and other.shown.equal(x * 2 + 1)
        assert not hasattr(other, "__dict__") and one == other and derived.__hash__ is None
        assert list(vars(last)) == list(vars(makes(x)[0])) and list(vars(derived)) == list(vars(makes(x)[0].__mro__[1]))
        with pytest.raises(AttributeError, match="'hidden'"):
            one.hidden = 1
    assert not codes() and rl.compiler.graph_count() == 1


def test_abstract_classes_stay_abstract():
    def makes(x):
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...

        class Square(Shape):
            def area(self):
                return x * x

        return Shape, Square().area(), isinstance(Square(), Shape)

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        shape, area, is_one = compiled(rl.full((2,), 3.0))
        assert is_one and area.tolist() == [9.0, 9.0]
        assert shape.__abstractmethods__ == {"area"}
        with pytest.raises(TypeError, match="abstract"):
            shape()
    assert not codes() and rl.compiler.graph_count() == 1


def test_namespaces_of_class_bodies_are_asked_by_their_own_methods():
    log = []

    class Recorder(dict):
        def __setitem__(self, name, value):
            log.append(name)
            super().__setitem__(name, value)

        def __missing__(self, name):
            log.append("?" + name)
            raise KeyError(name)

    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return Recorder()

    def makes(x):
        class Made(metaclass=Meta):
            size = len("ab")

        return x * Made.size

    compiled = rl.compile(makes, fullgraph=False)
    makes(rl.ones(2))
    once = log[:]
    log.clear()
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [2.0, 2.0]
    assert log == once * 3


def test_the_variables_of_a_new_object_are_the_dict_itself():
    def makes(x):
        class Point:
            pass

        point = Point()
        variables = vars(point)
        variables["x"] = x + 1
        point.y = len(variables)
        return point, variables, Point.__dict__["__module__"]

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        point, variables, module = compiled(rl.ones(2))
        assert vars(point) is variables and list(variables) == ["x", "y"] and point.y == 1
        assert module == __name__
    assert not codes() and rl.compiler.graph_count() == 1


def test_methods_of_c_that_call_methods_of_the_program_happen_at_each_call():
    log = []

    class Plain:
        def __init__(self):
            log.append("made")

        @property
        def size(self):
            log.append("read")
            return 2

        @size.setter
        def size(self, value):
            log.append(value)

    class Meta(type):
        def __call__(cls, *args):
            return super().__call__()

    class Made(Plain, metaclass=Meta):
        def __getattribute__(self, name):
            return super().__getattribute__(name)

        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    def makes(x):
        plain = object.__getattribute__(Plain(), "size")
        made = Made(1)
        made.size = 5
        type.__call__(Plain)
        return x * plain * made.size

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
    assert log == ["made", "read", "made", 5, "made", "read"] * 3


def test_attributes_are_told_their_names_at_each_call():
    told = []

    class Named:
        def __set_name__(self, owner, name):
            told.append(name)

    def makes(x):
        class Made:
            attribute = Named()

        return x + 1

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert told == ["attribute"] * 3


def test_constructors_that_c_calls_happen_at_each_call():
    log = []

    def makes(x):
        class Partial:
            __init__ = functools.partial(log.append)

        class Static:
            @staticmethod
            def __init__(*args):
                log.append(len(args))

        Partial("partial")
        Static(1, 2)
        return x + 1

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert log == ["partial", 2] * 3


def test_classes_and_objects_that_c_calls_back_happen_at_each_call():
    log = []

    class Key:
        def __init__(self, value):
            log.append(value)
            self.value = value

        def __lt__(self, other):
            return self.value < other.value

    class Negated:
        def __call__(self, value):
            log.append(-value)
            return -value

    def sorts(x):
        return x * min([3, 1], key=Key) + sorted([1, 2], key=Negated())[0]

    compiled = rl.compile(sorts, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]
    assert log == [3, 1, -1, -2] * 3


@pytest.mark.parametrize("module", [None, 3, "nowhere"], ids=str)
def test_the_module_of_a_class_may_be_anything(module):
    class Kept:
        __module__ = module

        def __init__(self, value):
            self.value = value

    def makes(x, kept):
        made = type("Made", (), {"__module__": module, "value": x + kept.value})()
        rl.compiler.graph_break()
        return made.value, made, Kept(x * 2)

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        value, made, kept = compiled(rl.ones(2), Kept(2))
        assert value.tolist() == [3.0, 3.0] and type(made).__module__ == module
        assert type(kept) is Kept and kept.value.tolist() == [2.0, 2.0]


def test_a_program_whose_globals_have_no_name_makes_classes():
    space = {}
    exec("def makes(x):\n made = type('Made', (), {'value': x + 1})\n return made.value, made", space)
    value, made = rl.compile(space["makes"], fullgraph=False)(rl.ones(2))
    assert value.tolist() == [2.0, 2.0] and made.value is value


def test_methods_that_c_calls_are_interpreted():
    def looks_up(x, log):
        class Key:
            def __init__(self, value):
                self.value = value

            def __hash__(self):
                log.append("hash")
                return hash(self.value)

            def __eq__(self, other):
                log.append("eq")
                return self.value == other.value

            def __lt__(self, other):
                log.append("lt")
                return self.value < other.value

            def __bool__(self):
                log.append("bool")
                return self.value > 1

        table = {Key(1): x, Key(2): x * 2}
        highest, *rest = sorted(map(Key, (1, 3, 2)), reverse=True)
        found = any(map(Key, (0, 1, 2))), Key(2) in rest, [Key(5)].count(Key(5))
        return table[Key(2)] + highest.value, found, len(list(filter(None, [Key(0), Key(4)])))

    compiled = rl.compile(looks_up, fullgraph=False)
    for value in (1.0, 2.0):
        expected, log = [], []
        x = rl.full((3,), value)
        first, *others = looks_up(x, expected)
        result, *same = compiled(x, log)
        assert result.equal(first) and same == others and log == expected
    assert not codes() and rl.compiler.graph_count() == 1


def test_an_iterator_over_one_of_a_new_class_goes_on_behind_a_break():
    def filters(x):
        class Counted:
            count = 0

            def __iter__(self):
                return self

            def __next__(self):
                self.count += 1
                if self.count > 3:
                    raise StopIteration
                return self.count

        kept = filter(lambda n: n != 2, Counted())
        y = x + next(kept)
        rl.compiler.graph_break()
        return y, list(kept)

    compiled = rl.compile(filters, fullgraph=False)
    for _ in range(3):
        y, rest = compiled(rl.ones(2))
        assert y.tolist() == [2.0, 2.0] and rest == [3]


def test_methods_stay_those_of_the_class_where_c_calls_them():
    def compares(x):
        class Item:
            def __eq__(self, other):
                return vars(Item)["__eq__"] is eq and Item.__eq__ is eq

            __hash__ = None

        eq = Item.__eq__
        return x + 1, [Item()] == [Item()], list(vars(Item))

    compiled = rl.compile(compares, fullgraph=False)
    for _ in range(2):
        result, *others = compiled(rl.ones(2))
        assert others == list(compares(rl.ones(2))[1:])
        assert result.tolist() == [2.0, 2.0] and others[0]
    assert not codes()


def test_what_stands_in_a_class_is_not_given_to_setters_of_its_metaclass():
    def makes(x):
        class Meta(type):
            @property
            def p(cls):
                return "of the metaclass"

        class Pretender(metaclass=Meta):
            p = x * 2

            @property
            def __class__(self):
                return int

        one = Pretender()
        rl.compiler.graph_break()
        return Pretender.p, one.p, isinstance(one, int), isinstance(one, Pretender), list(vars(Pretender))

    compiled = rl.compile(makes, fullgraph=False)
    for value in (1.0, 2.0):
        found, expected = compiled(rl.full((1,), value)), makes(rl.full((1,), value))
        assert found[1].tolist() == expected[1].tolist() == [2 * value]
        assert (found[0], *found[2:]) == (expected[0], *expected[2:])
