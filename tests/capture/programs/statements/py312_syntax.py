"""What came with Python 3.12: type parameters and aliases, nested f-strings, comprehensions without frames."""


def case_generic_function(x, env):
    def first[T](items: list[T]) -> T:
        return items[0]

    return first([x]) is x, first.__type_params__[0].__name__, first.__name__


def case_generic_class(x, env):
    class Box[T]:
        def __init__(self, value: T):
            self.value = value

        def map[U](self, function) -> "Box[U]":
            return Box(function(self.value))

    return (
        Box(x).map(lambda v: v * 2).value,
        Box[int].__args__,
        Box.__type_params__[0].__name__,
        Box.map.__type_params__[0].__name__,
    )


def case_bounds_are_lazy(x, env):
    def note(value):
        env.log.append(value)
        return value

    def f[T: note(int), U: (note(str), note(bytes))]():
        pass

    before = list(env.log)
    return before, f.__type_params__[0].__bound__, f.__type_params__[1].__constraints__, env.log


def case_type_alias(x, env):
    type Pair = tuple[int, Later]
    Later = str
    return Pair.__name__, Pair.__value__, type(Pair).__name__


def case_type_alias_that_fails_when_asked(x, env):
    type Broken = never_defined
    env.log.append(Broken.__name__)
    Broken.__value__


def case_generic_alias_with_parameters(x, env):
    type Table[K, *V] = dict[K, tuple[*V]]
    return Table.__type_params__[0].__name__, len(Table.__type_params__), Table[int].__args__


def case_type_parameters_see_the_class(x, env):
    class A:
        n = 3

        def f[T](self, v: T = n):
            return v

    return A().f()


def case_type_parameter_shadows(x, env):
    T = "outer"

    def f[T]():
        return T

    return f().__name__, T


def case_nested_quotes_in_f_strings(x, env):
    return f"{'nested'}", f"{env.nested['a']}", f"{f'{f"{1 + 1}"}'}", f"{'\n'.join(['a', 'b'])}"


def case_comments_and_lines_in_f_strings(x, env):
    return f"{
        env.count  # the count
        + 1
    }"


def case_comprehension_in_class_sees_outer_names(x, env):
    n = 5

    class A:
        m = 2
        made = [n * i for i in range(m)]

    return A.made


def case_comprehension_leaves_outer_names_alone(x, env):
    i = "outer"
    made = [i for i in range(3)]
    f = [lambda: i for i in range(2)]
    return i, made, [g() for g in f]


def case_comprehension_error_restores_names(x, env):
    i = "outer"
    try:
        [1 // i for i in (1, 0)]
    except ZeroDivisionError:
        return i


def case_comprehension_with_unbound_outer_name(x, env):
    made = [later for later in range(2)]
    env.log.append(made)
    return later
    later = 1


def case_comprehension_in_locals(x, env):
    a = 1
    return [sorted(locals().keys() & {"a", "b", "x"}) for b in range(1)]


def case_comprehension_nested_with_cells(x, env):
    return [[(lambda: (i, j))() for j in range(2)] for i in range(2)], [x * k for k in range(2)]


def case_comprehension_traceback(x, env):
    return [env.nested[key] for key in ("a", "missing")]


def case_loop_over_comprehension_with_break(x, env):
    for value in [y * 2 for y in env.items if y > 1]:
        if value > 4:
            break
        env.log.append(value)
    return value


def case_itertools_batched(x, env):
    import itertools

    return list(itertools.batched("abcde", 2)), list(itertools.batched([], 3))


def case_buffer_protocol(x, env):
    class B:
        def __buffer__(self, flags):
            return memoryview(b"abc")

    return bytes(memoryview(B()))


def case_override_decorator(x, env):
    from typing import override

    class A:
        @override
        def f(self):
            return x + 1

    return A().f(), A.f.__override__


def case_type_parameters_in_class_read_class_names_first(x, env):
    class A:
        int = "of the class"

        def f[T: (int, len)](self):
            pass

        type Alias = int

    return (
        A.f.__type_params__[0].__constraints__[0],
        A.f.__type_params__[0].__constraints__[1] is len,
        A.Alias.__value__,
    )
