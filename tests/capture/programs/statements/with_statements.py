"""`with`: entering, leaving, suppressing, raising while leaving, and what contextlib makes of generators."""

import contextlib


class Manager:
    """Logs, and suppresses where asked to."""

    def __init__(self, log, name="m", suppress=False):
        self.log, self.name, self.suppress = log, name, suppress

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind, error, traceback):
        self.log.append(("exit", self.name, kind and kind.__name__, error and error.args, traceback is None))
        return self.suppress


def case_plain(x, env):
    with Manager(env.log) as name:
        y = x + 1
    return name, y, env.log


def case_exception_passes(x, env):
    y = env.y = x + 0.5
    with Manager(env.log):
        raise KeyError("body")


def case_exception_suppressed(x, env):
    with Manager(env.log, suppress=True):
        y = x * 2
        raise KeyError("body")
    return y, env.log


def case_suppressed_leaves_names_unbound(x, env):
    with Manager(env.log, suppress=True):
        raise KeyError("body")
        y = 1
    return y


def case_suppress_by_any_true_value(x, env):
    class Truth:
        def __bool__(self):
            env.log.append("asked")
            return True

    with Manager(env.log, suppress=Truth()):
        raise KeyError
    with Manager(env.log, suppress=Truth()):
        pass
    return env.log


def case_truth_of_suppression_raises(x, env):
    env.y = x * x

    class Truth:
        def __bool__(self):
            raise ValueError("truth")

    with Manager(env.log, suppress=Truth()):
        raise KeyError("body")


def case_two_managers_in_order(x, env):
    with Manager(env.log, "a") as a, Manager(env.log, "b") as b:
        env.log.append((a, b))
    return env.log


def case_inner_suppresses_before_outer(x, env):
    with Manager(env.log, "outer"), Manager(env.log, "inner", suppress=True):
        raise KeyError
    return env.log


def case_second_enter_fails(x, env):
    env.y = x * 2

    class Fails:
        def __enter__(self):
            raise ValueError("enter")

        def __exit__(self, *exc):
            env.log.append("never")

    with Manager(env.log, "first"), Fails():
        pass


def case_second_expression_fails(x, env):
    with Manager(env.log, "first", suppress=True), env.missing:
        pass
    return env.log


def case_target_assignment_fails(x, env):
    env.total = (x + 1).sum()
    with Manager(env.log) as (a, b):
        pass


def case_target_is_a_subscript(x, env):
    with Manager(env.log) as env.table["name"], contextlib.nullcontext(x) as env.y:
        pass
    return env.table, env.y is x


def case_exit_raises(x, env):
    class Fails:
        def __enter__(self):
            pass

        def __exit__(self, *exc):
            raise ValueError("exit")

    with Fails():
        raise KeyError("body")


def case_exit_raises_without_exception(x, env):
    class Fails:
        def __enter__(self):
            pass

        def __exit__(self, *exc):
            raise ValueError("exit")

    with Fails():
        env.log.append("body")


def case_exit_reraises_the_same(x, env):
    env.x = x - 1

    class Again:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, traceback):
            raise error

    with Again():
        raise KeyError("body")


def case_return_in_with(x, env):
    with Manager(env.log):
        return x + len(env.log)


def case_break_and_continue_in_with(x, env):
    for i in range(3):
        with Manager(env.log, i):
            if i == 0:
                continue
            if i == 1:
                break
    return env.log


def case_return_in_with_suppressing_does_not_matter(x, env):
    def f():
        with Manager(env.log, suppress=True):
            return "returned"

    return f(), env.log, (x * 2).mean()


def case_return_in_exit_is_a_result(x, env):
    def f():
        for turn in range(2):
            with Manager(env.log, suppress=True):
                raise KeyError(turn)
        return "end"

    return f(), len(env.log)


def case_no_manager(x, env):
    with env.items:
        pass


def case_no_exit(x, env):
    y = env.y = x + 0.5

    class A:
        def __enter__(self):
            env.log.append("never")

    with A():
        pass


def case_no_enter(x, env):
    class A:
        def __exit__(self, *exc):
            pass

    with A():
        pass


def case_methods_are_looked_up_on_the_class(x, env):
    env.y = x * x

    class A:
        def __enter__(self):
            return "class"

        def __exit__(self, *exc):
            return None

    a = A()
    a.__enter__ = lambda: "instance"
    with a as name:
        return name


def case_exit_is_looked_up_before_enter(x, env):
    class A:
        def __enter__(self):
            A.__exit__ = lambda self, *exc: env.log.append("new exit")
            return self

        def __exit__(self, *exc):
            env.log.append("old exit")

    with A():
        pass
    return env.log


def case_manager_may_be_rebound_inside(x, env):
    m = Manager(env.log)
    with m:
        m = None
    return env.log


def case_nested_with_and_try(x, env):
    env.y = x * 2
    try:
        with Manager(env.log, "a"):
            try:
                with Manager(env.log, "b"):
                    raise KeyError("k")
            finally:
                env.log.append("finally")
    except KeyError as error:
        return error.args, env.log


def case_context_in_exit(x, env):
    import sys

    class Look:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            env.log.append((exc[0] is sys.exc_info()[0], exc[0] and exc[0].__name__))
            return True

    with Look():
        raise KeyError
    with Look():
        pass
    return env.log, sys.exc_info()


def case_contextmanager(x, env):
    @contextlib.contextmanager
    def scaled(value, by):
        env.log.append("enter")
        try:
            yield value * by
        finally:
            env.log.append("exit")

    with scaled(x, 2) as y:
        env.log.append("body")
    return y, env.log


def case_contextmanager_suppresses(x, env):
    @contextlib.contextmanager
    def swallow():
        try:
            yield
        except KeyError as error:
            env.log.append(error.args)

    with swallow():
        raise KeyError("k")
    return x + 1, env.log


def case_contextmanager_passes(x, env):
    env.total = (x + 1).sum()

    @contextlib.contextmanager
    def passes():
        yield
        env.log.append("never")

    with passes():
        raise KeyError("body")


def case_contextmanager_replaces_the_exception(x, env):
    @contextlib.contextmanager
    def replace():
        try:
            yield
        except KeyError as error:
            raise ValueError("replaced") from error

    with replace():
        raise KeyError("body")


def case_contextmanager_without_yield(x, env):
    @contextlib.contextmanager
    def empty():
        return
        yield

    with empty():
        pass


def case_contextmanager_with_two_yields(x, env):
    env.x = x - 1

    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    with twice():
        pass


def case_contextmanager_two_yields_after_exception(x, env):
    @contextlib.contextmanager
    def twice():
        try:
            yield 1
        except KeyError:
            yield 2

    with twice():
        raise KeyError("body")


def case_contextmanager_stop_iteration_in_body(x, env):
    y = env.y = x + 0.5

    @contextlib.contextmanager
    def plain():
        yield

    with plain():
        raise StopIteration("body")


def case_contextmanager_as_decorator(x, env):
    @contextlib.contextmanager
    def logged(name):
        env.log.append(("in", name))
        yield
        env.log.append(("out", name))

    @logged("f")
    def f(value):
        return value * 2

    return f(x), f(3), env.log


def case_contextmanager_is_used_once(x, env):
    @contextlib.contextmanager
    def once():
        yield

    manager = once()
    with manager:
        pass
    with manager:
        pass


def case_suppress(x, env):
    with contextlib.suppress(KeyError, IndexError):
        env.log.append("before")
        env.items[10]
        env.log.append("never")
    return x + len(env.log)


def case_suppress_of_others(x, env):
    with contextlib.suppress(KeyError):
        raise ValueError("passes")


def case_nullcontext(x, env):
    with contextlib.nullcontext() as a, contextlib.nullcontext(x) as b:
        return a, b is x


def case_closing(x, env):
    class Thing:
        def close(self):
            env.log.append("closed")

    with contextlib.closing(Thing()) as thing:
        env.log.append(type(thing).__name__)
    return env.log, x / 2


def case_redirect_stdout(x, env):
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("inside")
    print("outside")
    return text.getvalue()


def case_exit_stack_order(x, env):
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(Manager(env.log, n)) for n in "ab"]
        stack.callback(env.log.append, "callback")
        stack.push(lambda *exc: env.log.append(exc[0]))
    return names, env.log, x > 2


def case_exit_stack_suppresses(x, env):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(env.log, "outer"))
        stack.enter_context(Manager(env.log, "inner", suppress=True))
        raise KeyError("k")
    return env.log


def case_exit_stack_replaces_exceptions(x, env):
    def fails(*exc):
        raise ValueError("callback")

    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(env.log, "outer"))
        stack.push(fails)
        raise KeyError("body")


def case_exit_stack_pop_all(x, env):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(env.log, "a"))
        kept = stack.pop_all()
    env.log.append("still open")
    kept.close()
    return env.log, x.relu() + 1


def case_exit_stack_of_no_manager(x, env):
    with contextlib.ExitStack() as stack:
        stack.enter_context(5)


def case_context_decorator_class(x, env):
    class Tracked(contextlib.ContextDecorator):
        def __enter__(self):
            env.log.append("in")

        def __exit__(self, *exc):
            env.log.append("out")

    @Tracked()
    def f(value):
        return value + 1

    return f(x), env.log


def case_abstract_context_manager(x, env):
    class A(contextlib.AbstractContextManager):
        def __exit__(self, *exc):
            env.log.append(exc[0])

    with A() as a:
        pass
    return isinstance(a, A), isinstance(Manager(env.log), contextlib.AbstractContextManager), x.exp()


def case_recursive_with(x, env):
    def descend(n):
        with Manager(env.log, n):
            return descend(n - 1) if n else x

    return descend(2) is x, env.log


def case_with_in_a_loop_counts(x, env):
    total = x * 0
    for i in env.items:
        with Manager(env.log, i, suppress=True):
            if i == 2:
                raise ValueError(i)
            total = total + i
    return total
