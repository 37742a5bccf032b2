"""Scopes: closures, cells, `nonlocal`, `global`, names that are not bound, and class bodies."""

COUNTER = 0
SHADOWED = "global"


def case_nonlocal_counts(x, env):
    count = 0

    def up():
        nonlocal count
        count += 1
        return count

    return up(), up(), count, x * x


def case_two_closures_share_a_cell(x, env):
    value = 1

    def read():
        return value

    def write(new):
        nonlocal value
        value = new

    write(x + 1)
    return read() is value


def case_each_call_has_its_own_cell(x, env):
    def make():
        n = 0

        def up():
            nonlocal n
            n += 1
            return n

        return up

    a, b = make(), make()
    return a(), a(), b()


def case_returned_closures_share_cells(x, env):
    def make():
        n = [x]

        def get():
            return n

        def put(value):
            nonlocal n
            n = value

        return get, put

    return make()


def case_closure_sees_later_assignment(x, env):
    def read():
        return later

    later = x * 2
    return read()


def case_closure_before_assignment(x, env):
    y = env.y = x + 0.5

    def read():
        return later

    read()
    later = 1


def case_closure_after_deletion(x, env):
    value = 1

    def read():
        return value

    del value
    read()


def case_nonlocal_may_delete(x, env):
    value = 1

    def drop():
        nonlocal value
        del value

    drop()
    return value


def case_nonlocal_through_two_functions(x, env):
    a = 1

    def outer():
        def inner():
            nonlocal a
            a *= 10

        inner()
        return a

    return outer(), a, (x * 2).mean()


def case_local_before_assignment(x, env):
    if env.count:
        value = 1
    return value


def case_local_shadows_global_even_before_assignment(x, env):
    env.y = x * x

    def f():
        env.log.append("before")
        text = SHADOWED
        return text, len2

    return f()


def case_global_name_made_local(x, env):
    def f():
        value = SHADOWED
        SHADOWED = "local"
        return value

    return f()


def case_missing_global(x, env):
    return never_defined_anywhere


def case_missing_global_in_call(x, env):
    env.y = x * 2
    return never_defined_function(env.log.append("not evaluated"))


def case_builtin_shadowed_by_local(x, env):
    len = lambda value: "mine"
    return len([]), [].__len__()


def case_global_statement(x, env):
    global COUNTER
    before = COUNTER
    COUNTER = before + 5
    during = COUNTER
    COUNTER = before
    return during - before, x / 2


def case_global_written_in_a_called_function(x, env):
    def up():
        global COUNTER
        COUNTER += 1

    def back(value):
        global COUNTER
        COUNTER = value

    before = COUNTER
    up()
    up()
    after = COUNTER
    back(before)
    return after - before


def case_global_deleted(x, env):
    global FLEETING
    FLEETING = x * 2
    kept = FLEETING
    del FLEETING
    try:
        FLEETING
    except NameError as error:
        return str(error), kept


def case_globals_is_a_dict(x, env):
    names = globals()
    return names["SHADOWED"], "SHADOWED" in names, "x" in names, names is globals()


def case_locals_shows_names(x, env):
    a = 1

    def inner(p, *, q=2):
        b = 3
        return sorted(locals().items())

    return inner(x.shape[0]), sorted(name for name in locals() if name != "env")


def case_locals_in_comprehension_of_class(x, env):
    class A:
        first = 1
        names = sorted(name for name in locals() if not name.startswith("_"))

    return "first" in vars(A), A.names == sorted(A.names)


def case_class_body_reads_local_then_global(x, env):
    SHADOWED = "enclosing"

    class A:
        before = SHADOWED
        SHADOWED = "class"
        after = SHADOWED

    return A.before, A.after, x > 2


def case_class_scope_is_not_seen_by_methods(x, env):
    class A:
        SHADOWED = "class"

        def read(self):
            return SHADOWED

    return A().read()


def case_class_scope_is_seen_by_first_iterable_only(x, env):
    class A:
        items = [1, 2]
        doubled = [i * 2 for i in items]
        try:
            crossed = [i * j for i in items for j in items]
        except NameError as error:
            crossed = str(error)

    return A.doubled, A.crossed, x.relu() + 1


def case_class_body_nonlocal(x, env):
    n = 1

    class A:
        nonlocal n
        n = 2
        m = n

    return n, A.m, hasattr(A, "n")


def case_class_body_runs_in_order(x, env):
    class A:
        env.log.append("start")
        for i in range(2):
            env.log.append(i)

        def method(self):
            pass

        del i
        env.log.append("end")

    return hasattr(A, "i"), env.log


def case_class_body_that_raises(x, env):
    env.total = (x + 1).sum()

    class A:
        value = 1
        raise KeyError(value)


def case_class_cell_is_filled(x, env):
    class A:
        def me(self):
            return __class__

    return A().me() is A


def case_class_cell_is_empty_in_the_body(x, env):
    class A:
        def me():
            return __class__

        try:
            me()
        except NameError as error:
            text = str(error)

    return A.text, x.exp()


def case_comprehension_has_its_own_scope(x, env):
    i = "outer"
    made = [i for i in range(3)]
    return i, made, {k: i for k in "ab"}


def case_comprehension_reads_the_enclosing_scope(x, env):
    n = 3
    functions = [lambda: (n, i) for i in range(2)]
    n = 4
    return [f() for f in functions]


def case_comprehension_first_iterable_is_evaluated_outside(x, env):
    def v(n):
        env.log.append(n)
        return range(n)

    g = ((i, j) for i in v(2) for j in v(i))
    env.log.append("made")
    return list(g), env.log, 1 - x


def case_comprehension_with_conditions(x, env):
    return [(a, b) for a in range(4) if a % 2 for b in range(a) if b != 1], {a % 3 for a in range(9) if a}


def case_comprehension_walrus(x, env):
    found = [last := i for i in env.items if (half := i / 2) > 0.5]
    return found, last, half, x.sum() * 3


def case_comprehension_unpacks(x, env):
    return {a: [*b] for a, *b in [(1, 2, 3), (4,)]}, [a + b for (a, b) in {1: 2}.items()]


def case_comprehension_dict_evaluates_key_first(x, env):
    def v(n):
        env.log.append(n)
        return n

    return {v(i): v(-i) for i in range(2)}, env.log


def case_comprehension_that_raises(x, env):
    env.x = x - 1
    return [env.nested[key] for key in ("a", "b")]


def case_comprehension_nested(x, env):
    return [[row * col for col in range(3)] for row in range(3)], [x * i for i in range(2)]


def case_comprehension_name_after_error(x, env):
    try:
        [i // 0 for i in range(3)]
    except ZeroDivisionError:
        pass
    return i


def case_generator_expression_is_lazy(x, env):
    y = env.y = x + 0.5
    g = (1 // n for n in (1, 0))
    env.log.append(next(g))
    return next(g)


def case_generator_expression_of_no_iterable(x, env):
    g = (i for i in 5)
    env.log.append("never")


def case_generator_expression_sees_rebinding(x, env):
    n = 1
    g = (n * i for i in env.items)
    n = 10
    env.items.append(4)
    return list(g)


def case_lambda_in_default_sees_definition(x, env):
    y = x
    f = lambda z=y: z + 1
    y = None
    return f()


def case_cell_contents_may_be_written(x, env):
    n = 1

    def f():
        return n

    f.__closure__[0].cell_contents = x * 3
    return f(), n


def case_empty_cell(x, env):
    def f():
        return later

    try:
        f.__closure__[0].cell_contents
    except ValueError as error:
        env.log.append(str(error))
    later = 1
    return f.__closure__[0].cell_contents, x + x


def case_function_made_by_hand(x, env):
    import types

    def f(a):
        return a, n

    n = 1
    g = types.FunctionType(f.__code__, {"__builtins__": {}}, "g", (x,), (types.CellType(7),))
    return g(), g.__name__, g.__closure__[0].cell_contents


def case_other_globals(x, env):
    import types

    def f():
        return SHADOWED, len("ab")

    return types.FunctionType(f.__code__, {"SHADOWED": "other", "__builtins__": {"len": lambda v: "own"}})()


def case_argument_and_closure_of_same_name(x, env):
    def outer(n):
        def inner(n):
            return n * 2

        return inner(n + 1), n

    return outer(x)


def case_import_in_a_function(x, env):
    import math as m
    import os.path
    from collections import OrderedDict as O

    return m.floor(2.5), O(a=1), os.path.basename("a/b")


def case_import_of_nothing(x, env):
    env.y = x * x
    import no_module_of_this_name


def case_import_of_missing_name(x, env):
    from math import no_such_name


def case_star_import_like_getattr(x, env):
    import math

    return math.missing_name
