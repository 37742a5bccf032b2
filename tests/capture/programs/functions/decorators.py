"""Decorators, with and without arguments, of functions, methods and classes; wrappers that count, cache and convert."""

import functools


def case_plain_decorator(x, env):
    def twice(function):
        def wrapper(*args, **kwargs):
            return function(function(*args, **kwargs))

        return wrapper

    @twice
    def add(value):
        return value + 1

    return add(x), add(0), add.__name__


def case_decorator_with_arguments(x, env):
    def repeat(n):
        env.log.append(("factory", n))

        def decorate(function):
            env.log.append(("decorate", function.__name__))

            def wrapper(value):
                for _ in range(n):
                    value = function(value)
                return value

            return wrapper

        return decorate

    @repeat(3)
    def double(value):
        return value * 2

    return double(x), double(1), env.log


def case_decorator_with_optional_arguments(x, env):
    def tag(function=None, *, name="default"):
        if function is None:
            return functools.partial(tag, name=name)
        function.tag = name
        return function

    @tag
    def f():
        pass

    @tag(name="given")
    def g():
        pass

    return f.tag, g.tag, x.exp()


def case_decorators_apply_inside_out(x, env):
    def mark(name):
        def decorate(function):
            env.log.append(name)
            return lambda v: (name, function(v))

        return decorate

    @mark("outer")
    @mark("inner")
    def f(v):
        return v

    return f(1), env.log


def case_decorator_expressions(x, env):
    table = {"a": lambda f: f() + 1}

    @table["a"]
    def first():
        return x

    @(lambda f: [f])
    def second():
        return 2

    return first, second[0]()


def case_decorator_that_raises(x, env):
    env.y = x * 2

    def refuse(function):
        raise TypeError(f"refused {function.__name__}")

    @refuse
    def f():
        pass


def case_name_is_not_bound_while_decorating(x, env):
    def look(function):
        try:
            f
        except NameError as error:
            env.log.append(str(error))
        return function

    @look
    def f():
        pass

    return f.__name__, env.log


def case_wraps(x, env):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        wrapper.extra = 1
        return wrapper

    @decorate
    def f(a: int = 1):
        """The doc."""
        return a

    f.own = 2
    return (
        f.__name__,
        f.__doc__,
        f.__wrapped__.__qualname__,
        f(x) is x,
        vars(f).keys() >= {"extra", "own"},
        f.__annotations__,
    )


def case_update_wrapper_of_partial(x, env):
    def f(a, b):
        """Doc of f."""
        return a - b

    p = functools.update_wrapper(functools.partial(f, b=1), f)
    return p(x), p.__doc__, p.__name__, p.__wrapped__ is f


def case_class_as_a_decorator(x, env):
    class Count:
        def __init__(self, function):
            self.function, self.calls = function, 0
            functools.update_wrapper(self, function)

        def __call__(self, *args):
            self.calls += 1
            return self.function(*args)

    @Count
    def f(v):
        return v * 3

    return f(x), f(1), f.calls, f.__name__


def case_class_decorator_on_a_method_is_not_bound(x, env):
    class Plain:
        def __init__(self, function):
            self.function = function

        def __call__(self, *args):
            return len(args)

    class Bound(Plain):
        def __get__(self, instance, owner):
            return functools.partial(self, instance)

    class A:
        @Plain
        def f(self):
            pass

        @Bound
        def g(self):
            pass

    return A().f(), A().g(), A.g(1)


def case_decorated_method(x, env):
    def logged(method):
        @functools.wraps(method)
        def wrapper(self, *args, **kwargs):
            env.log.append((method.__name__, args, sorted(kwargs)))
            return method(self, *args, **kwargs)

        return wrapper

    class A:
        @logged
        def add(self, a, *, b=0):
            return a + b

        @classmethod
        @logged
        def make(cls, n):
            return cls.__name__ * n

        @property
        @logged
        def p(self):
            return "property"

    return A().add(x, b=1), A.make(2), A().p, env.log


def case_memo_in_closure(x, env):
    def memo(function):
        known = {}

        def wrapper(n):
            if n not in known:
                known[n] = function(n)
            return known[n]

        wrapper.known = known
        return wrapper

    @memo
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(20), len(fib.known), x * fib.known[5]


def case_registry_decorator(x, env):
    registry = {}

    def register(name):
        return lambda f: registry.setdefault(name, f)

    @register("double")
    def a(v):
        return v * 2

    @register("double")
    def b(v):
        return v * 3

    return registry["double"](x), b is a, list(registry)


def case_decorator_that_replaces_by_value(x, env):
    @lambda f: f(5)
    def five(n):
        return n * 2

    return five, 1 - x


def case_contract_decorator_that_checks(x, env):
    def positive(function):
        def wrapper(n):
            if n < 0:
                raise ValueError(f"{function.__name__}: {n} is negative")
            return function(n)

        return wrapper

    @positive
    def root(n):
        return n**0.5

    env.log.append(root(4))
    root(-1)


def case_retry_decorator(x, env):
    def retry(times):
        def decorate(function):
            def wrapper(*args):
                for turn in range(times):
                    try:
                        return function(*args)
                    except KeyError as error:
                        env.log.append((turn, error.args))
                        last = error
                raise last

            return wrapper

        return decorate

    @retry(3)
    def flaky(v):
        env.count += 1
        if env.count < 3:
            raise KeyError(env.count)
        return v * env.count

    return flaky(x), env.log


def case_retry_that_gives_up_finds_its_name_deleted(x, env):
    env.total = (x + 1).sum()

    def again(function):
        try:
            return function()
        except KeyError as last:
            pass
        raise last

    again(lambda: env.table["missing"])


def case_decorator_with_state_shared_by_functions(x, env):
    calls = []

    def track(function):
        def wrapper(*args):
            calls.append(function.__name__)
            return function(*args)

        return wrapper

    @track
    def f(v):
        return g(v) + 1

    @track
    def g(v):
        return v * 2

    return f(x), calls


def case_stacked_static_and_class(x, env):
    def double(function):
        return lambda *args: function(*args) * 2

    class A:
        @staticmethod
        @double
        def f(v):
            return v

        @double
        def g(self, v):
            return v

    return A.f(x), A().g(3), A().f("a")
