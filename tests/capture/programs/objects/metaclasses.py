"""Metaclasses, hooks of class creation, abstract classes and checks of instances."""


def case_metaclass_hooks_in_order(x, env):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases, **kwargs):
            env.log.append(("prepare", name, kwargs))
            return {"prepared": 1}

        def __new__(meta, name, bases, namespace, **kwargs):
            env.log.append(("new", [n for n in namespace if not n.startswith("__")]))
            return super().__new__(meta, name, bases, namespace)

        def __init__(cls, name, bases, namespace, **kwargs):
            env.log.append(("init", kwargs))
            super().__init__(name, bases, namespace)

    class A(metaclass=Meta, option=x.shape[0]):
        own = prepared + 1

    return A.own, A.prepared, env.log


def case_prepare_gives_a_mapping_of_its_own(x, env):
    class Recorder(dict):
        def __setitem__(self, key, value):
            if not key.startswith("__"):
                env.log.append(key)
            super().__setitem__(key, value)

        def __missing__(self, key):
            if key.startswith("auto"):
                return key.upper()
            raise KeyError(key)

    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return Recorder()

        def __new__(meta, name, bases, namespace):
            return super().__new__(meta, name, bases, dict(namespace))

    class A(metaclass=Meta):
        a = 1
        b = auto_value
        a = 2

    return A.a, A.b, env.log, x.sum() * 3


def case_prepare_gives_no_mapping(x, env):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return 5

    class A(metaclass=Meta):
        pass


def case_metaclass_conflict(x, env):
    env.x = x - 1

    class M1(type):
        pass

    class M2(type):
        pass

    class A(metaclass=M1):
        pass

    class B(metaclass=M2):
        pass

    class C(A, B):
        pass


def case_metaclass_is_inherited(x, env):
    class Meta(type):
        def __repr__(cls):
            return f"<{cls.__name__}>"

        @property
        def size(cls):
            return len(cls.__name__)

    class A(metaclass=Meta):
        pass

    class Longer(A):
        pass

    return repr(Longer), Longer.size, hasattr(Longer(), "size"), type(Longer) is Meta


def case_metaclass_that_is_a_function(x, env):
    def make(name, bases, namespace, **kwargs):
        return name, bases, sorted(n for n in namespace if not n.startswith("__")), kwargs

    class A(int, metaclass=make, k=1):
        a = 1

    return A


def case_metaclass_attribute_lookup(x, env):
    class Meta(type):
        name = "meta"

        def f(cls):
            return "Meta.f", cls.__name__

        def __getattr__(cls, name):
            return "meta getattr", name

    class A(metaclass=Meta):
        name = "class"

    return A.name, A.f(), A.other, hasattr(A(), "f"), type(A).name, x + x


def case_metaclass_data_descriptor_wins(x, env):
    class Meta(type):
        @property
        def p(cls):
            return "meta"

    class A(metaclass=Meta):
        p = "class"

    return A.p, A().p


def case_metaclass_operators(x, env):
    class Meta(type):
        def __add__(cls, other):
            return cls.__name__, other

        def __len__(cls):
            return 3

        def __iter__(cls):
            return iter("ab")

        def __contains__(cls, item):
            return item == 1

        def __bool__(cls):
            return False

        def __lt__(cls, other):
            return "lt"

    class A(metaclass=Meta):
        pass

    return A + 1, len(A), list(A), 1 in A, bool(A), A < 5, x * 2


def case_metaclass_call_skips_init(x, env):
    class Meta(type):
        instances = {}

        def __call__(cls, key):
            if key not in Meta.instances:
                Meta.instances[key] = super().__call__(key)
            return Meta.instances[key]

    class A(metaclass=Meta):
        def __init__(self, key):
            env.log.append(key)

    return A(1) is A(1), A(2) is A(1), env.log


def case_instance_check_hook(x, env):
    class Meta(type):
        def __instancecheck__(cls, value):
            env.log.append(value)
            return value == 1

        def __subclasscheck__(cls, other):
            return other is int

    class A(metaclass=Meta):
        pass

    return (
        isinstance(1, A),
        isinstance(2, A),
        issubclass(int, A),
        isinstance(3, (str, A)),
        env.log,
    )


def case_instance_check_is_skipped_for_the_exact_type(x, env):
    class Meta(type):
        def __instancecheck__(cls, value):
            env.log.append("asked")
            return False

    class A(metaclass=Meta):
        pass

    class B(A):
        pass

    return isinstance(A(), A), isinstance(B(), A), env.log, (x + 1).sum()


def case_isinstance_by_class_attribute(x, env):
    class Pretender:
        @property
        def __class__(self):
            return int

    p = Pretender()
    return isinstance(p, int), isinstance(p, Pretender), type(p) is Pretender, p.__class__ is int


def case_isinstance_forms(x, env):
    return (
        isinstance(True, int),
        isinstance(1, (str, (float, int))),
        isinstance(1, int | str),
        isinstance(x, type(env.x)),
        issubclass(bool, int),
    )


def case_isinstance_of_no_class(x, env):
    y = env.y = x + 0.5
    return isinstance(1, (str, 5))


def case_issubclass_of_no_class(x, env):
    return issubclass(1, int)


def case_isinstance_stops_at_the_first_match(x, env):
    return isinstance(1, (int, 5)), x + 1


def case_init_subclass(x, env):
    class Base:
        registry = []

        def __init_subclass__(cls, /, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.registry.append((cls.__name__, tag))

    class A(Base, tag="a"):
        pass

    class B(A):
        pass

    return Base.registry


def case_init_subclass_refuses_unknown(x, env):
    env.y = x * x

    class A:
        pass

    class B(A, unknown=1):
        pass


def case_init_subclass_runs_after_set_name(x, env):
    class D:
        def __set_name__(self, owner, name):
            env.log.append(("set_name", name))

    class Base:
        def __init_subclass__(cls):
            env.log.append("init_subclass")

    class A(Base):
        d = D()

    return env.log


def case_type_with_three_arguments(x, env):
    A = type("A", (list,), {"v": x, "f": lambda self: len(self)})
    return A([1, 2]).f(), A.v is x, A.__name__, A.__module__ == __name__


def case_type_of_one_argument(x, env):
    return type(1) is int, type(type) is type, type(x) is type(env.x), type(None)()


def case_type_with_wrong_arguments(x, env):
    for attempt in (
        lambda: type("A", [], {}),
        lambda: type(1, (), {}),
        lambda: type("A", ()),
        lambda: type("A", (), {}, k=1),
    ):
        try:
            attempt()
        except TypeError as error:
            env.log.append(str(error))
    return env.log, x - 0.5


def case_types_new_class_and_mro_entries(x, env):
    import types

    class Entry:
        def __mro_entries__(self, bases):
            env.log.append(len(bases))
            return (list,)

    class A(Entry()):
        pass

    B = types.new_class("B", (list,), {}, lambda namespace: namespace.update(v=1))
    return A([1]) == [1], len(A.__orig_bases__), B.v, env.log


def case_abstract_classes(x, env):
    import abc

    class A(abc.ABC):
        @abc.abstractmethod
        def f(self):
            pass

        @property
        @abc.abstractmethod
        def p(self):
            pass

    class B(A):
        def f(self):
            return "f"

        p = 1

    env.log.append(B().f())
    A()


def case_abstract_registration(x, env):
    import abc

    class A(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return True if hasattr(other, "quack") else NotImplemented

    class Duck:
        quack = 1

    class Other:
        pass

    A.register(int)
    return isinstance(Duck(), A), isinstance(Other(), A), isinstance(1, A), issubclass(bool, A), -x
