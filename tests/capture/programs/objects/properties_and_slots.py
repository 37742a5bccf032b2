"""Properties, slots, and methods bound to classes."""


def case_property_that_raises_without_getattr(x, env):
    env.y = x * 2

    class A:
        @property
        def p(self):
            return self.missing

    A().p


def case_slots(x, env):
    class A:
        __slots__ = ("a", "b")

    a = A()
    a.a = x * 2
    env.log.append((hasattr(a, "b"), hasattr(a, "__dict__")))
    a.c = 1


def case_slots_deleted(x, env):
    class A:
        __slots__ = ["a"]

    a = A()
    a.a = 1
    del a.a
    del a.a


def case_slots_and_inheritance(x, env):
    class A:
        __slots__ = ("a",)

    class B(A):
        __slots__ = ("b",)

    class C(B):
        pass

    c = C()
    c.a, c.b, c.c = 1, 2, 3
    return c, vars(c), A.a.__get__(c), B.__slots__, x * x


def case_slots_conflict(x, env):
    class A:
        __slots__ = ("a",)
        a = 1


def case_slots_with_dict(x, env):
    class A:
        __slots__ = ("a", "__dict__")

    a = A()
    a.a, a.b = 1, 2
    return a, a.__dict__


def case_slots_of_private_names(x, env):
    class A:
        __slots__ = ("__private",)

        def put(self, value):
            self.__private = value

    a = A()
    a.put(x)
    return a._A__private is x


def case_property_forms(x, env):
    class A:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            """The doc."""
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 2

        @v.deleter
        def v(self):
            env.log.append("deleted")

    a = A()
    a.v = x
    del a.v
    return a.v, A.v.__doc__, a.__dict__


def case_property_without_setter(x, env):
    env.total = (x + 1).sum()

    class A:
        @property
        def v(self):
            return 1

    A().v = 2


def case_property_without_deleter_and_getter(x, env):
    class A:
        w = property(None, lambda self, value: env.log.append(value))

        @property
        def v(self):
            return 1

    a = A()
    a.w = 5
    for attempt in (lambda: a.w, lambda: delattr(a, "v"), lambda: delattr(a, "w")):
        try:
            attempt()
        except AttributeError as error:
            env.log.append(str(error))
    return env.log


def case_property_in_a_subclass(x, env):
    class A:
        @property
        def v(self):
            return "A"

        w = property(lambda self: self.v)

    class B(A):
        @A.v.getter
        def v(self):
            return "B" + super().v

    return B().v, B().w, A().v, (x * 2).mean()


def case_private_names_are_mangled(x, env):
    class A:
        __secret = 1

        def read(self):
            return self.__secret

        def __hidden(self):
            return "hidden"

    class B(A):
        __secret = 2

    return B().read(), A()._A__hidden(), sorted(name for name in vars(B) if "secret" in name)


def case_method_replaced_on_class_and_instance(x, env):
    class A:
        def f(self):
            return "first"

    a = A()
    old = a.f
    A.f = lambda self: "second"
    found = a.f(), old()
    a.f = lambda: "third"
    return found, a.f(), A().f()


def case_equality_of_descriptor_results(x, env):
    class A:
        def f(self):
            pass

        @classmethod
        def c(cls):
            return cls

        @staticmethod
        def s():
            return "static"

    a = A()
    return (
        A.f is A.__dict__["f"],
        a.c() is A,
        A.c() is A,
        a.s is A.s,
        a.c.__self__ is A,
        type(A.__dict__["c"]).__name__,
        x / 2,
    )


def case_class_method_through_subclass(x, env):
    class A:
        @classmethod
        def make(cls, *args):
            return cls.__name__, args

    class B(A):
        @classmethod
        def make(cls, *args):
            return super().make("B", *args)

    return B.make(1), B().make(x)


def case_static_method_is_callable_in_the_body(x, env):
    class A:
        @staticmethod
        def f(value):
            return value + 1

        made = f(1)

    return A.made, A.f(x), A().f(2)
