"""Special methods that are not plain functions, are set later, inherited, or missing on purpose."""

import functools
import operator


def case_special_methods_set_later(x, env):
    class A:
        pass

    A.__len__ = lambda self: 3
    A.__getitem__ = lambda self, key: key
    A.__call__ = lambda self, *args: args
    A.__bool__ = lambda self: False
    a = A()
    return len(a), a["k"], a(1, x), bool(a), list(zip(range(2), a))


def case_special_methods_deleted_later(x, env):
    class A:
        def __len__(self):
            return 0

        def __bool__(self):
            return True

    a = A()
    before = bool(a)
    del A.__bool__
    middle = bool(a)
    del A.__len__
    return before, middle, bool(a)


def case_special_methods_as_partials(x, env):
    class A:
        __len__ = functools.partial(lambda n: n, 4)
        __call__ = functools.partial(lambda *args: args, "bound")
        __getitem__ = functools.partial(operator.mul, 2)

    a = A()
    return len(a), a(1), a[5]


def case_special_methods_as_static_methods(x, env):
    class A:
        @staticmethod
        def __len__():
            return 2

        @staticmethod
        def __call__(*args):
            return args

        @staticmethod
        def __contains__(item):
            return item == 1

        @classmethod
        def __iter__(cls):
            return iter(cls.__name__)

        @classmethod
        def __getitem__(cls, key):
            return cls.__name__, key

    a = A()
    return len(a), a(x), 1 in a, list(a), a[0]


def case_special_methods_as_builtins(x, env):
    class A:
        __len__ = int
        __call__ = print
        __hash__ = id
        __bool__ = dict().get

    a = A()
    a("printed")
    try:
        return len(a)
    except TypeError as error:
        return str(error)


def case_special_methods_from_other_classes(x, env):
    class A(list):
        __add__ = list.__add__
        __radd__ = lambda self, other: ("radd", other)
        __len__ = lambda self: 100
        __contains__ = set.__contains__

    a = A([1])
    try:
        1 in a
    except TypeError as error:
        env.log.append(str(error))
    return a + [2], 5 + a, len(a), list.__len__(a), env.log


def case_special_methods_as_properties(x, env):
    class A:
        @property
        def __call__(self):
            return lambda *args: ("called", args)

        @property
        def __len__(self):
            return lambda: 7

        @property
        def __enter__(self):
            return lambda: "entered"

        @property
        def __exit__(self):
            return lambda *exc: True

    a = A()
    with a as value:
        raise KeyError
    return a(1), len(a), value


def case_special_methods_as_callable_objects(x, env):
    class Method:
        def __init__(self, name):
            self.name = name

        def __call__(self, *args):
            return self.name, len(args)

    class A:
        __getitem__ = Method("getitem")
        __add__ = Method("add")
        __call__ = Method("call")
        __enter__ = Method("enter")
        __exit__ = Method("exit")

    a = A()
    with a as value:
        pass
    return a[1], a + 1, a(1, 2, 3), value


def case_call_of_call(x, env):
    class A:
        def __call__(self, n):
            return n + 1

    class B:
        __call__ = A()

    class C:
        __call__ = B()

    return C()(1), B()(x), callable(C())


def case_call_set_to_none(x, env):
    class A:
        __call__ = None

    a = A()
    env.log.append(callable(a))
    a()


def case_init_as_other_kinds(x, env):
    class A:
        __init__ = functools.partial(env.log.append)

    class B:
        __init__ = lambda self, n=1: setattr(self, "n", n)

    class C:
        @staticmethod
        def __init__(*args):
            env.log.append(args)

    A("a")
    C(1, 2)
    return B().n, B(x).n is x, env.log


def case_new_set_later(x, env):
    class A:
        pass

    A.__new__ = lambda cls, *args: (cls.__name__, args)
    return A(1), A()


def case_new_as_class_method_of_other(x, env):
    class A:
        __new__ = dict

    try:
        return A()
    except TypeError as error:
        return str(error)


def case_getattr_inherited_and_replaced(x, env):
    class A:
        def __getattr__(self, name):
            return "A", name

    class B(A):
        def __getattr__(self, name):
            if name.startswith("b"):
                return "B", name
            return super().__getattr__(name)

    b = B()
    found = b.b1, b.a1
    del B.__getattr__
    return found, b.b1


def case_getattr_set_on_the_class_later(x, env):
    class A:
        pass

    a = A()
    try:
        a.m
    except AttributeError as error:
        env.log.append(str(error))
    A.__getattr__ = lambda self, name: name * 2
    return a.m, env.log


def case_setattr_set_later(x, env):
    class A:
        pass

    a = A()
    a.p = 1
    A.__setattr__ = lambda self, name, value: env.log.append((name, value))
    a.p = 2
    del A.__setattr__
    a.q = x
    return a.p, a.q is x, env.log


def case_iter_of_other_kinds(x, env):
    class A:
        __iter__ = lambda self: iter("ab")

    class B:
        @classmethod
        def __iter__(cls):
            yield cls.__name__

    class C:
        __iter__ = functools.partial(iter, [1, 2])

    return list(A()), list(B()), list(C())


def case_next_on_the_instance_does_not_count(x, env):
    class It:
        def __init__(self):
            self.__next__ = lambda: 1

        def __iter__(self):
            return self

    for i in It():
        break


def case_next_is_none(x, env):
    class It:
        __next__ = None

        def __iter__(self):
            return self

    for i in It():
        break


def case_contains_by_class_getitem_only(x, env):
    class A:
        def __class_getitem__(cls, key):
            return key

    return 1 in A()


def case_eq_and_hash_inherited(x, env):
    class A:
        def __eq__(self, other):
            return isinstance(other, A)

        def __hash__(self):
            return 7

    class B(A):
        pass

    class C(A):
        def __eq__(self, other):
            return False

    table = {A(): "a"}
    env.log.append(table[B()])
    return table[C()]


def case_reflected_by_attribute_of_subclass(x, env):
    class A:
        def __sub__(self, other):
            return "A.sub"

        def __rsub__(self, other):
            return "A.rsub"

    class B(A):
        __rsub__ = A.__rsub__

    class C(A):
        def __rsub__(self, other):
            return "C.rsub"

    class D(C):
        pass

    return A() - B(), A() - C(), A() - D(), D() - C(), C() - A()


def case_subclass_of_int_with_reflected(x, env):
    class I(int):
        def __radd__(self, other):
            return "radd", other

        def __rmul__(self, other):
            return NotImplemented

    return 1 + I(2), I(2) + 1, 3 * I(4), 1.5 + I(2), True + I(1), x + I(1)


def case_subclass_of_text_and_list_with_operators(x, env):
    class S(str):
        def __radd__(self, other):
            return "radd", other

        def __rmod__(self, other):
            return "rmod", other

    class L(list):
        def __radd__(self, other):
            return "radd", other

        def __rmul__(self, other):
            return "rmul", other

    return "a" + S("b"), "a %s" % S("b"), [1] + L([2]), 2 * L([1]), L([1]) * 2, L([1]) + [2]


def case_in_place_returns_not_implemented(x, env):
    class A:
        def __iadd__(self, other):
            return NotImplemented

        def __add__(self, other):
            return "add", other

    a = b = A()
    a += 1
    b.__iadd__(1)
    return a


def case_in_place_on_attribute_with_property(x, env):
    class A:
        def __init__(self):
            self._v = [1]

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            env.log.append((value, value is self._v))

    a = A()
    a.v += [2]
    return a.v, env.log


def case_in_place_on_attribute_without_setter(x, env):
    class A:
        @property
        def v(self):
            return env.items

    A().v += [4]


def case_comparison_only_reflected(x, env):
    class A:
        def __gt__(self, other):
            return "gt", other

        def __ge__(self, other):
            return "ge", other

        def __eq__(self, other):
            return "eq", other

    return 1 < A(), 1 <= A(), 1 == A(), 1 != A(), A() > 2, sorted([2, 1])


def case_len_of_bool_and_subclass(x, env):
    class Three(int):
        def __index__(self):
            return 1

    class A:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

    return len(A(True)), len(A(Three(3))), bool(A(False)), bool(A(Three(3)))


def case_bool_returns_int_subclass(x, env):
    class A:
        def __bool__(self):
            return 1

    not A()


def case_format_and_str_of_class(x, env):
    class Meta(type):
        def __str__(cls):
            return "the class"

        def __format__(cls, spec):
            return f"<{spec}>"

    class A(metaclass=Meta):
        pass

    return f"{A}", f"{A!s}", "%s" % A, str(A), f"{A:x}"


def case_slot_order_of_mixins(x, env):
    class Log:
        def __getitem__(self, key):
            env.log.append(key)
            return super().__getitem__(key)

        def __setitem__(self, key, value):
            env.log.append((key, value))
            super().__setitem__(key, value)

    class D(Log, dict):
        pass

    d = D(a=1)
    d["b"] = x
    d["b"] *= 2
    return d["a"], d, env.log


def case_class_level_operators_by_metaclass_only(x, env):
    class A:
        def __add__(self, other):
            return "instance"

        def __len__(self):
            return 1

    env.log.append(A() + 1)
    return A + 1


def case_descriptor_protocol_by_getattr_does_not_count(x, env):
    class D:
        def __getattr__(self, name):
            env.log.append(name)
            return lambda *args: "got"

    class A:
        d = D()

    return type(A().d).__name__, [name for name in env.log if name != "__set_name__"]


def case_function_as_descriptor(x, env):
    def f(self, n):
        return self, n

    bound = f.__get__(5)
    return bound(1), bound.__self__, f.__get__(None, int) is f, type(bound).__name__, f.__get__(x)(2)[0] is x


def case_method_objects_compare_and_hash(x, env):
    class A:
        def f(self):
            pass

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    a, b = A(), A()
    return a.f == a.f, a.f == b.f, hash(a.f) == hash(a.f), a.f.__func__ is A.f, a.f is a.f


def case_builtin_methods_of_subclass_through_super(x, env):
    class L(list):
        def __getitem__(self, key):
            return "item", super().__getitem__(key)

        def __iter__(self):
            return map(lambda v: ("iter", v), super().__iter__())

        def __len__(self):
            return super().__len__() * 10

        def __contains__(self, v):
            return not super().__contains__(v)

    items = L([1, 2])
    return items[0], list(items), len(items), 1 in items, 5 in items, [*items], items == [1, 2], sorted(items)


def case_getattr_as_static_method(x, env):
    class A:
        __getattr__ = staticmethod(lambda name: name.upper())

    return A().low


def case_tuple_subclass_with_iter(x, env):
    class T(tuple):
        def __iter__(self):
            return iter("xy")

    a, b = T((1, 2))
    first, *rest = T((1, 2, 3))
    return a, b, first, rest, [*T((1, 2))], (lambda *args: args)(*T((1, 2))), T((1, 2)) + (3,)
