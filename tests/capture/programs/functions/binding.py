"""Binding of arguments to parameters: every kind, the order of evaluation, and the texts of errors."""


def case_defaults_are_evaluated_once(x, env):
    def f(a, into=[]):
        into.append(a)
        return into

    return f(1), f(2), f(3, []), f.__defaults__, 1 - x


def case_defaults_are_evaluated_at_definition(x, env):
    n = 1

    def f(a=n, *, b=x * 2):
        return a, b

    n = 2
    return f()


def case_order_of_defaults_and_decorators(x, env):
    def v(n):
        env.log.append(n)
        return n

    def decorate(function):
        env.log.append("decorate")
        return function

    @(v(0), decorate)[1]
    def f(a=v(1), *, k=v(2), b: v("annotation") = v(3)):
        pass

    return env.log


def case_keyword_only(x, env):
    def f(a, *, b, c=3):
        return a, b, c

    return f(1, b=2), f(c=1, b=2, a=0), x.sum() * 3


def case_keyword_only_missing(x, env):
    def f(*, a, b, c=1):
        pass

    f(c=2)


def case_positional_only(x, env):
    def f(a, b=2, /, c=3, **rest):
        return a, b, c, rest

    return f(1), f(1, c=4, a=5, b=6)


def case_positional_only_as_keyword(x, env):
    y = env.y = x + 0.5

    def f(a, b, /):
        pass

    f(1, b=2)


def case_positional_only_as_keyword_of_two(x, env):
    def f(a, b, /, *, c):
        pass

    f(a=1, b=2, c=3)


def case_missing_one(x, env):
    env.y = x * x

    def f(a, b):
        pass

    f(1)


def case_missing_three(x, env):
    def f(a, b, c, d=1):
        pass

    f()


def case_too_many(x, env):
    def f(a, b=1):
        pass

    f(1, 2, 3)


def case_too_many_without_parameters(x, env):
    env.y = x * 2

    def f():
        pass

    f(1)


def case_too_many_with_keyword_only(x, env):
    def f(a, *, b):
        pass

    f(1, 2, b=3)


def case_unexpected_keyword(x, env):
    env.total = (x + 1).sum()

    def f(a):
        pass

    f(1, wrong=2)


def case_multiple_values(x, env):
    def f(a, b):
        pass

    f(1, a=2)


def case_star_args_and_kwargs(x, env):
    def f(a, *args, b=0, **kwargs):
        return a, args, b, kwargs

    return f(1, 2, 3, b=4, c=5), f(*env.items, **{"b": 1, "z": x * 2})


def case_star_args_are_a_new_tuple(x, env):
    def f(*args):
        return args

    t = (1, 2)
    return f(*t) == t, f(*env.items), f(*()), f(*iter("ab"))


def case_kwargs_are_a_new_dict(x, env):
    def f(**kwargs):
        kwargs["new"] = 1
        return kwargs

    return f(**env.nested), env.nested, x + x


def case_several_stars(x, env):
    def f(*args, **kwargs):
        return args, kwargs

    return f(0, *env.items, 4, *"ab", p=1, **{"q": 2}, r=3, **{"s": 4})


def case_order_of_evaluation_in_calls(x, env):
    def v(n):
        env.log.append(n)
        return n

    def f(*args, **kwargs):
        return args, kwargs

    return f(v(1), *[v(2)], k=v(3), *(v(4),), **{v("a"): v(5)}, z=v(6)), env.log, x * 2


def case_callee_is_evaluated_before_arguments(x, env):
    def v(n):
        env.log.append(n)
        return n

    env.missing(v(1))


def case_no_callable_after_arguments(x, env):
    env.count(env.log.append("argument"))


def case_same_keyword_twice_by_stars(x, env):
    env.x = x - 1

    def f(**kwargs):
        return kwargs

    f(a=1, **{"a": 2})


def case_same_keyword_in_two_mappings(x, env):
    def f(**kwargs):
        return kwargs

    f(**{"b": 1}, **{"b": 2})


def case_double_star_of_other_keys(x, env):
    y = env.y = x + 0.5

    def f(**kwargs):
        return kwargs

    f(**{1: 2})


def case_double_star_of_no_mapping(x, env):
    def f(**kwargs):
        return kwargs

    f(**env.items)


def case_star_of_no_iterable(x, env):
    def f(*args):
        return args

    f(*5)


def case_star_of_raising_generator(x, env):
    env.y = x * x

    def generate():
        yield 1
        raise TypeError("inside")

    def f(*args):
        return args

    f(*generate())


def case_method_errors_count_self(x, env):
    class A:
        def f(self, a):
            pass

    try:
        A().f()
    except TypeError as error:
        env.log.append(str(error))
    A().f(1, 2)


def case_method_without_parameters(x, env):
    env.y = x * 2

    class A:
        def f():
            pass

    A().f()


def case_function_of_class_without_instance(x, env):
    class A:
        def f(self):
            return self

    return A.f(5), A.f(x) is x


def case_bound_method_as_value(x, env):
    class A:
        def __init__(self, n):
            self.n = n

        def f(self, a=1):
            return self.n + a

    f = A(5).f
    return f(), f(2), f.__self__.n, A(1).f == A(1).f, (a := A(1)).f == a.f, a.f is a.f


def case_calling_objects(x, env):
    class A:
        def __call__(self, *args, **kwargs):
            return args, kwargs

    a = A()
    a.__call__ = lambda: "instance"
    return a(1, k=x + 1)


def case_object_that_cannot_be_called(x, env):
    class A:
        pass

    A()()


def case_class_without_init_takes_no_arguments(x, env):
    env.total = (x + 1).sum()

    class A:
        pass

    try:
        A(1)
    except TypeError as error:
        env.log.append(str(error))
    A(k=1)


def case_init_that_returns_something(x, env):
    class A:
        def __init__(self):
            return 5

    A()


def case_builtin_argument_errors(x, env):
    for attempt in (
        lambda: len(),
        lambda: len(1, 2),
        lambda: len(obj=[]),
        lambda: abs("a"),
        lambda: [].append(),
        lambda: "a".join(1),
        lambda: isinstance(1),
        lambda: isinstance(1, 1),
        lambda: range(),
        lambda: range("a"),
        lambda: int("x"),
        lambda: int("1", 99),
        lambda: chr(-1),
        lambda: ord("ab"),
        lambda: iter(5),
        lambda: next(5),
        lambda: sum(["a"]),
        lambda: max(),
        lambda: max([]),
        lambda: min(1),
        lambda: sorted(1),
        lambda: print(wrong=1),
        lambda: getattr(1),
    ):
        try:
            attempt()
        except (TypeError, ValueError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log, (x + 1).sum()


def case_defaults_may_be_replaced(x, env):
    def f(a=1, *, k=2):
        return a, k

    f.__defaults__ = (10,)
    f.__kwdefaults__["k"] = 20
    first = f()
    f.__defaults__ = None
    f.__kwdefaults__ = None
    env.log.append(first)
    f()


def case_code_may_be_replaced(x, env):
    def f(a):
        return a + 1

    def g(a):
        return a * 10

    before = f(x)
    f.__code__ = g.__code__
    return before, f(x)


def case_code_of_other_free_variables_is_refused(x, env):
    n = 1

    def f():
        return n

    def g():
        return 1

    f.__code__ = g.__code__


def case_function_attributes(x, env):
    def f():
        """Its doc."""
        f.calls += 1
        return f.calls

    f.calls = 0
    f()
    f()
    return f.calls, f.__doc__, f.__name__, f.__qualname__, f.__dict__


def case_lambda_defaults_in_a_loop(x, env):
    return [f() for f in [lambda i=i: i * 2 for i in range(3)]], x - 0.5


def case_lambda_with_all_parameters(x, env):
    f = lambda a, /, b=2, *c, d, e=5, **g: (a, b, c, d, e, g)
    return f(1, d=4), f(1, 2, 3, d=4, z=x)


def case_recursion(x, env):
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x * fibonacci(10)


def case_mutual_recursion(x, env):
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    return even(10), odd(7), even(3)


def case_recursion_with_accumulated_list(x, env):
    def flatten(value):
        return [leaf for part in value for leaf in flatten(part)] if isinstance(value, list) else [value]

    return flatten([1, [2, [3, [x, []]]], 4])


def case_exception_in_a_default(x, env):
    env.x = x - 1

    def f(a=1 // 0):
        pass

    return f


def case_arguments_are_evaluated_before_binding_errors(x, env):
    def f(a):
        pass

    f(env.log.append(1), env.log.append(2))


def case_parameter_may_be_deleted(x, env):
    def f(a):
        del a
        return a

    f(1)


def case_parameter_in_a_cell(x, env):
    def f(a, *args, k=1, **rest):
        def g():
            return a, args, k, rest

        a = a + 1
        return g

    return f(x, 2, k=3, z=4)()


def case_keyword_names_may_be_odd(x, env):
    def f(**kwargs):
        return kwargs

    return f(**{"not an identifier": 1, "class": 2, "": x})


def case_starred_call_of_builtins(x, env):
    return max(*env.items), dict(**{"a": 1}), print(*env.items, sep="-"), "{} {k}".format(*"a", **{"k": 1}), -x


def case_print_to_stdout(x, env):
    print("a", 1, [2.5], sep=", ", end="!\n")
    print()
    print(env.items, end="")
    return x * 2


def case_argument_objects_are_the_same(x, env):
    def f(a, *b, c, **d):
        return a is env.items, b[0] is x, c is env.log, d["e"] is env

    return f(env.items, x, c=env.log, e=env)


def case_returned_function_that_never_returns_value(x, env):
    def f():
        env.log.append(1)

    return f(), [f() for _ in range(2)]
