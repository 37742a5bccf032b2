"""Classes: creation, inheritance, `super()`, metaclasses, hooks of class creation, instance checks, construction."""

import collections.abc


def case_class_statement_order(x, env):
    def v(n, value):
        env.log.append(n)
        return value

    class Base:
        def __init_subclass__(cls, **kwargs):
            env.log.append(("init_subclass", cls.__name__, kwargs))

    @v("decorator", lambda cls: cls)
    class A(v("base", Base), key=v("keyword", 1)):
        env.log.append("body")

    return env.log, x * 2


def case_bases_by_star(x, env):
    class A:
        a = 1

    class B:
        b = 2

    bases = [A, B]

    class C(*bases, **{}):
        pass

    return C.a, C.b, [base.__name__ for base in C.__mro__]


def case_mro_of_a_diamond(x, env):
    class A:
        def f(self):
            return ["A"]

    class B(A):
        def f(self):
            return ["B", *super().f()]

    class C(A):
        def f(self):
            return ["C", *super().f()]

    class D(B, C):
        def f(self):
            return ["D", *super().f()]

    return D().f(), B().f(), [c.__name__ for c in D.mro()], (x + 1).sum()


def case_inconsistent_mro(x, env):
    class A:
        pass

    class B(A):
        pass

    class C(A, B):
        pass


def case_duplicate_base(x, env):
    class A:
        pass

    class B(A, A):
        pass


def case_base_that_is_no_class(x, env):
    env.y = x * 2

    class A(5):
        pass


def case_base_that_cannot_be_subclassed(x, env):
    class A(bool):
        pass


def case_layout_conflict(x, env):
    env.total = (x + 1).sum()

    class A(int, str):
        pass


def case_super_with_arguments(x, env):
    class A:
        def f(self):
            return "A"

    class B(A):
        def f(self):
            return "B"

    b = B()
    return super(B, b).f(), super(A, b).__thisclass__.__name__, super(B, B).f(b)


def case_super_of_wrong_type(x, env):
    class A:
        pass

    class B(A):
        pass

    super(B, A())


def case_super_without_class_cell(x, env):
    env.x = x - 1

    def f(self):
        return super().f()

    class A:
        pass

    A.f = f
    A().f()


def case_super_without_arguments_in_function(x, env):
    def f():
        return super()

    f()


def case_super_after_self_is_deleted(x, env):
    y = env.y = x + 0.5

    class A:
        def f(self):
            del self
            return super()

    A().f()


def case_super_in_nested_function(x, env):
    class A:
        def f(self):
            return "A"

    class B(A):
        def f(self):
            def inner(me):
                return super().f()

            return inner(self), [super(B, self).f() for _ in range(2)]

    return B().f()


def case_super_with_self_rebound(x, env):
    class A:
        def f(self):
            return type(self).__name__

    class B(A):
        def f(self):
            other = super().f()
            self = B()
            return other, super().f()

    class C(B):
        pass

    return C().f()


def case_super_attributes_and_properties(x, env):
    class A:
        value = 1

        @property
        def p(self):
            return "A.p", type(self).__name__

    class B(A):
        value = 2

        @property
        def p(self):
            return "B.p", super().p, super().value

    return B().p, x - 0.5


def case_super_missing_attribute(x, env):
    class A:
        def f(self):
            return super().nothing

    A().f()


def case_super_setattr_goes_to_the_instance(x, env):
    class A:
        def f(self, value):
            super().__setattr__("v", value)
            return self.v

    return A().f(x * 2)


def case_super_in_class_method_and_new(x, env):
    class A:
        def __new__(cls, *args):
            env.log.append(("A.new", cls.__name__))
            return super().__new__(cls)

        @classmethod
        def make(cls):
            return cls()

    class B(A):
        def __new__(cls, *args):
            env.log.append("B.new")
            return super().__new__(cls, *args)

        @classmethod
        def make(cls):
            return super().make()

    return type(B.make()).__name__, env.log, -x


def case_super_repr_and_kinds(x, env):
    class A:
        def f(self):
            return super()

    s = A().f()
    return type(s).__name__, s.__self__.__class__.__name__, s.__thisclass__ is A


def case_new_returns_something_else(x, env):
    class A:
        def __new__(cls, value):
            return value

        def __init__(self, value):
            env.log.append("never")

    return A(x) is x, A(5), env.log


def case_new_returns_an_instance_of_subclass(x, env):
    class A:
        def __new__(cls):
            return object.__new__(B)

        def __init__(self):
            env.log.append("A.init")

    class B(A):
        def __init__(self):
            env.log.append("B.init")

    return type(A()).__name__, env.log


def case_new_with_arguments_for_init_only(x, env):
    class A:
        def __init__(self, a, *, b):
            self.a, self.b = a, b

    a = A(x, b=2)
    return a.a is x, a.b


def case_object_new_refuses_arguments(x, env):
    env.y = x * x

    class A:
        def __new__(cls, value):
            return super().__new__(cls, value)

    A(1)


def case_init_is_looked_up_on_the_class(x, env):
    class A:
        def __init__(self):
            env.log.append("class")

    class Meta(type):
        def __call__(cls, *args):
            env.log.append(("meta call", args))
            return super().__call__()

    class B(A, metaclass=Meta):
        pass

    return type(B(1, 2)).__name__, env.log


def case_class_decorators_apply_inside_out(x, env):
    def mark(name):
        env.log.append(("made", name))

        def apply(cls):
            env.log.append(("applied", name))
            cls.marks = [*getattr(cls, "marks", []), name]
            return cls

        return apply

    @mark("outer")
    @mark("inner")
    class A:
        pass

    return A.marks, env.log, x * x


def case_class_decorator_replaces(x, env):
    @lambda cls: cls()
    class single:
        value = x + 1

    return single.value, type(single).__name__


def case_class_names(x, env):
    class A:
        class B:
            def f(self):
                pass

        lambda_ = lambda self: 1

    return (
        A.__qualname__,
        A.B.__qualname__,
        A.B.f.__qualname__,
        A.lambda_.__qualname__,
        A.B.f.__name__,
        A.__module__ == __name__,
    )


def case_class_name_may_be_set(x, env):
    class A:
        pass

    A.__name__ = "Renamed"
    A.__qualname__ = "Outer.Renamed"
    return repr(A).endswith("Outer.Renamed'>"), A.__name__, str(A()).count("Renamed")


def case_class_inside_a_loop_is_new(x, env):
    made = []
    for i in range(2):

        class A:
            n = i

        made.append(A)
    return made[0] is made[1], [cls.n for cls in made], made[0]() == made[1](), (x * 2).mean()


def case_instances_of_local_class(x, env):
    class Point:
        def __init__(self, p, q):
            self.p, self.q = p, q

        def __add__(self, other):
            return Point(self.p + other.p, self.q + other.q)

        def __eq__(self, other):
            return isinstance(other, Point) and self.q == other.q

        def __repr__(self):
            return f"Point({self.q})"

    total = Point(x, 1) + Point(x, 2)
    return total, repr(total), total == Point(None, 3), total != Point(None, 3)


def case_class_getitem_and_generic(x, env):
    import typing

    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value):
            self.value = value

    return Box[int](x).value is x, Box[int].__args__, Box[int] == Box[int], issubclass(Box, typing.Generic)


def case_subclass_of_builtins_keeps_operations(x, env):
    class L(list):
        def append(self, value):
            super().append(value * 2)

    class I(int):
        def __add__(self, other):
            return I(int(self) + int(other))

    class S(str):
        def upper(self):
            return "mine"

    items = L([1])
    items.append(2)
    items.extend([3])
    return (
        items,
        type(items + [4]).__name__,
        type(I(1) + 2).__name__,
        I(3) * 2,
        S("a").upper(),
        S("a") + "b",
        type(S("a")[0]).__name__,
    )


def case_subclass_of_tuple_with_new(x, env):
    class Pair(tuple):
        def __new__(cls, a, b):
            return super().__new__(cls, (a, b))

        @property
        def first(self):
            return self[0]

    p = Pair(1, x)
    p.note = "kept"
    return p, p.first, type(p[:]).__name__


def case_call_of_class_stored_on_instance(x, env):
    class A:
        class Inner:
            def __init__(self, v):
                self.v = v

        def make(self, v):
            return self.Inner(v)

    return A().make(x).v is x


def case_del_method_runs_at_the_end_of_life(x, env):
    class A:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            env.log.append(self.n)

    a = A(1)
    a = A(2)
    env.log.append("between")
    del a
    return env.log, x / 2


def case_annotations_of_class(x, env):
    class A:
        a: int
        b: str = "text"
        (c): list = []

    return A.__annotations__, hasattr(A, "a"), A.b


def case_doc_and_module(x, env):
    class A:
        """The doc."""

    class B(A):
        pass

    A.__doc__ = "changed"
    return A.__doc__, B.__doc__, B.__module__ == __name__


def case_class_method_of_c_makes_an_object(x, env):
    held = {1: x}

    class Shared(dict):
        def __new__(cls):
            return held

    print("between")
    held = {2: x}
    return Shared.fromkeys("a"), held


def case_property_of_the_name(x, env):
    class Named:
        @property
        def __name__(self):
            return "mine"

    print("between")
    return Named().__name__, Named.__name__, x + 1


def case_registered_for_an_abstract_class(x, env):
    class Registered:
        pass

    collections.abc.Sized.register(Registered)
    print("between")
    return isinstance(Registered(), collections.abc.Sized), x + 1


def case_annotations_name_a_new_class(x, env):
    class Kind:
        pass

    def f(a: Kind) -> Kind:
        return x

    print("between")
    return f.__annotations__["a"] is Kind, f.__annotations__


def case_descriptor_asked_of_its_class(x, env):
    class Counting:
        def __get__(self, instance, owner):
            env.log.append((instance is None, owner.__name__))
            return x + len(env.log)

    class Meta(type):
        @property
        def both(cls):
            env.log.append(cls.__name__)
            return x * len(env.log)

    class A(metaclass=Meta):
        value = Counting()

    return A.value, A().value, A.both, A.value


def case_objects_with_an_end_die_with_their_list(x, env):
    class Counted:
        alive = 0

        def __init__(self):
            Counted.alive += 1

        def __del__(self):
            Counted.alive -= 1

    held = [Counted(), Counted()]
    before = Counted.alive
    del held
    return before, Counted.alive, x + 1
