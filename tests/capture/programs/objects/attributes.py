"""Attribute lookup: descriptors, instance dicts, hooks, slots, properties, and the texts of errors."""


class Data:
    """A data descriptor that logs."""

    def __init__(self, log):
        self.log = log

    def __set_name__(self, owner, name):
        self.name = name
        self.log.append(("set_name", owner.__name__, name))

    def __get__(self, instance, owner=None):
        self.log.append(("get", instance is None, owner.__name__))
        return self if instance is None else ("data", self.name)

    def __set__(self, instance, value):
        self.log.append(("set", self.name, value))

    def __delete__(self, instance):
        self.log.append(("delete", self.name))


class NonData:
    """A descriptor that the instance's own attribute hides."""

    def __get__(self, instance, owner=None):
        return "non-data"


def case_data_descriptor_wins_over_the_instance(x, env):
    class A:
        d = Data(env.log)

    a = A()
    a.__dict__["d"] = "instance"
    return a.d, a.__dict__, env.log, (x * 2).mean()


def case_non_data_descriptor_loses_to_the_instance(x, env):
    class A:
        d = NonData()

    a = A()
    first = a.d
    a.__dict__["d"] = x * 2
    return first, a.d, A.d


def case_data_descriptor_set_and_delete(x, env):
    class A:
        d = Data(env.log)

    a = A()
    a.d = 1
    a.d += (2,)
    del a.d
    return vars(a), env.log


def case_descriptor_on_the_class(x, env):
    class A:
        d = Data(env.log)

    A.d
    A.d = "replaced"
    return A().d, env.log, x / 2


def case_descriptor_with_get_and_delete_only_is_data(x, env):
    class D:
        def __get__(self, instance, owner):
            return "got"

        def __delete__(self, instance):
            env.log.append("deleted")

    class A:
        d = D()

    a = A()
    a.__dict__["d"] = 1
    del a.d
    env.log.append(a.d)
    a.d = 5


def case_descriptor_with_set_only(x, env):
    class D:
        def __set__(self, instance, value):
            instance.__dict__["d"] = value * 2

    class A:
        d = D()

    a = A()
    before = type(a.d).__name__
    a.d = x
    return before, a.d


def case_descriptor_on_the_instance_does_not_count(x, env):
    class A:
        pass

    a = A()
    a.d = NonData()
    return type(a.d).__name__


def case_descriptor_in_a_base(x, env):
    class Base:
        d = Data(env.log)

    class A(Base):
        def __init__(self):
            self.d = 1

    return A().d, env.log, x > 2


def case_set_name_errors(x, env):
    class D:
        def __set_name__(self, owner, name):
            raise KeyError(name)

    class A:
        field = D()


def case_set_name_is_looked_up_on_the_class(x, env):
    class A:
        first = Data(env.log)
        second = Data(env.log)

    A.third = Data(env.log)
    return env.log, x.relu() + 1


def case_getattr_only_when_missing(x, env):
    class A:
        here = 1

        def __getattr__(self, name):
            env.log.append(name)
            return name * 2

    a = A()
    a.own = 2
    return a.here, a.own, a.missing, hasattr(a, "any"), getattr(a, "x", None), env.log


def case_getattr_that_raises(x, env):
    class A:
        def __getattr__(self, name):
            raise AttributeError(f"no {name} here")

    a = A()
    env.log.append((hasattr(a, "b"), getattr(a, "b", "default")))
    a.b


def case_getattr_that_raises_something_else(x, env):
    env.total = (x + 1).sum()

    class A:
        def __getattr__(self, name):
            raise KeyError(name)

    hasattr(A(), "b")


def case_getattr_after_a_property_that_raises(x, env):
    class A:
        @property
        def p(self):
            raise AttributeError("inside")

        def __getattr__(self, name):
            return "fallback", name

    return A().p


def case_getattribute_sees_everything(x, env):
    class A:
        def method(self):
            return 1

        def __getattribute__(self, name):
            env.log.append(name)
            return object.__getattribute__(self, name)

    a = A()
    a.b = 2
    return a.b, a.method(), env.log, len(a.__dict__), x.exp()


def case_getattribute_then_getattr(x, env):
    class A:
        def __getattribute__(self, name):
            if name == "secret":
                raise AttributeError("hidden")
            return super().__getattribute__(name)

        def __getattr__(self, name):
            return "from getattr", name

    a = A()
    a.secret, a.open = 1, 2
    return a.secret, a.open, a.other


def case_getattribute_is_not_used_for_operators(x, env):
    class A:
        def __len__(self):
            return 3

        def __getattribute__(self, name):
            raise AssertionError(name)

    return len(A())


def case_setattr_hook(x, env):
    class A:
        def __setattr__(self, name, value):
            env.log.append((name, value))
            super().__setattr__(name, value * 2)

    a = A()
    a.v = x
    a.n = 1
    a.n += 1
    return a.v, a.n, env.log


def case_delattr_hook(x, env):
    class A:
        def __delattr__(self, name):
            env.log.append(name)

    a = A()
    a.b = 1
    del a.b
    return a.b, env.log, 1 - x


def case_setattr_on_builtin(x, env):
    env.items.attribute = 1


def case_setattr_on_number(x, env):
    env.x = x - 1
    (5).attribute = 1


def case_setattr_on_builtin_class(x, env):
    int.attribute = 1


def case_setattr_on_object(x, env):
    object().attribute = 1


def case_missing_attribute_texts(x, env):
    class A:
        __slots__ = ("s",)

    class B:
        def method(self):
            pass

    for attempt in (
        lambda: A().s,
        lambda: A().other,
        lambda: B().b,
        lambda: B.b,
        lambda: B().method.other,
        lambda: len.other,
        lambda: None.other,
        lambda: (1).real.other,
        lambda: "a".other,
        lambda: [].other,
        lambda: type.other,
        lambda: env.other,
    ):
        try:
            attempt()
        except AttributeError as error:
            env.log.append((str(error), error.name))
    return env.log, x.sum() * 3


def case_class_attribute_and_instance_attribute(x, env):
    class A:
        shared = []
        count = 0

    a, b = A(), A()
    a.shared.append(1)
    a.count += 1
    return b.shared, b.count, a.count, A.count, vars(a)


def case_class_attribute_changed_later(x, env):
    class A:
        n = 1

    a = A()
    before = a.n
    A.n = x + 1
    after = a.n
    a.n = 3
    del A.n
    return before, after, a.n, hasattr(A, "n")


def case_dict_of_instance_is_live(x, env):
    class A:
        pass

    a = A()
    a.__dict__["b"] = x
    vars(a).update(c=1)
    a.__dict__ = {"d": 2}
    return a.d, hasattr(a, "b")


def case_dict_of_instance_must_be_a_dict(x, env):
    y = env.y = x + 0.5

    class A:
        pass

    A().__dict__ = []


def case_class_of_instance_may_change(x, env):
    class A:
        def f(self):
            return "A"

    class B:
        def f(self):
            return "B", self.v

    a = A()
    a.v = x
    a.__class__ = B
    return a.f(), isinstance(a, B), type(a) is B


def case_class_of_instance_cannot_change_layout(x, env):
    class A:
        pass

    A().__class__ = int


def case_getattr_forms(x, env):
    class A:
        v = 1

    name = "v"
    return getattr(A, name), getattr(A(), "w", []), hasattr(A, "w"), getattr(env, "items") is env.items


def case_getattr_of_no_text(x, env):
    env.y = x * x
    return getattr(env, 1)


def case_setattr_and_delattr_functions(x, env):
    setattr(env, "new name", x)
    found = getattr(env, "new name")
    delattr(env, "count")
    return found is x, "count" in vars(env)


def case_dir_calls_its_hook(x, env):
    class A:
        def __dir__(self):
            return ["b", "a"]

    class B:
        own = 1

    b = B()
    b.mine = 2
    return dir(A()), [name for name in dir(b) if not name.startswith("_")]


def case_dir_without_arguments(x, env):
    a = 1
    return dir()


def case_dir_of_number(x, env):
    return "real" in dir(1), dir(1) == dir(int), "append" in dir([])


def case_vars_of_no_dict(x, env):
    return vars(5)


def case_operator_attrgetter(x, env):
    import operator

    return (
        operator.attrgetter("items")(env),
        operator.attrgetter("nested.keys", "count")(env)[1],
        operator.methodcaller("copy")(env.items),
    ), x + x


def case_module_attributes(x, env):
    import types

    module = types.ModuleType("made", "Its doc.")
    module.value = x
    module.__getattr__ = lambda name: name.upper()
    return module.value is x, module.other, module.__name__, module.__doc__
