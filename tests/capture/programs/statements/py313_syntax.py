"""What came with Python 3.13: defaults of type parameters, `locals()` as a snapshot, lines of classes."""


def case_type_parameter_defaults(x, env):
    class Box[T = int, *U = *tuple[str, int]]:
        pass

    return Box.__type_params__[0].__default__, Box.__type_params__[0].has_default(), x + 1


def case_locals_is_a_snapshot(x, env):
    a = 1
    first = locals()
    a = 2
    second = locals()
    return first is second, first["a"], second["a"]


def case_writing_to_locals_does_nothing(x, env):
    a = 1
    locals()["a"] = 5
    return a


def case_frame_locals_write_through(x, env):
    import sys

    a = 1
    sys._getframe().f_locals["a"] = x
    return a is x


def case_copy_replace(x, env):
    import collections
    import copy

    P = collections.namedtuple("P", "a b")
    return copy.replace(P(1, 2), b=x)


def case_dedented_docs(x, env):
    def f():
        """First.

        Second.
        """

    return f.__doc__


def case_first_line_of_class(x, env):
    class A:
        pass

    return A.__firstlineno__ > 1, A.__static_attributes__


def case_warnings_deprecated(x, env):
    import warnings

    @warnings.deprecated("old")
    def f():
        return x * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = f()
    return value, [str(w.message) for w in caught], f.__deprecated__


def case_unbound_free_variable_in_class(x, env):
    def f():
        class A:
            value = later

        later = 1
        return A

    f()
