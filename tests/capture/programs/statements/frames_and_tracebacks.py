"""What programs see of themselves: frames, lines, tracebacks, the exception that is being handled, callers."""

# Statements over several lines are meant.
# fmt: off

import inspect
import sys
import traceback
import warnings


def case_exception_in_traceback_frames(x, env):
    def inner(a):
        b = a + 1
        raise KeyError(b)

    try:
        inner(1)
    except KeyError as error:
        frames = [(tb[0].f_code.co_name, tb[1]) for tb in traceback.walk_tb(error.__traceback__)]
    return [name for name, _ in frames], frames[-1][1] - frames[0][1], x * 2


def case_traceback_is_linked(x, env):
    try:
        env.table["k"]
    except KeyError as error:
        first = error.__traceback__
    try:
        raise ValueError("other").with_traceback(first)
    except ValueError as error:
        second = error.__traceback__
    return second.tb_next is first, first.tb_next, second.tb_lineno - first.tb_lineno


def case_traceback_is_cleared(x, env):
    try:
        env.table["k"]
    except KeyError as error:
        error.__traceback__ = None
        kept = error
    raise kept


def case_format_exc(x, env):
    try:
        env.items[9]
    except IndexError:
        text = traceback.format_exc()
    return text.splitlines()[0], text.splitlines()[-1], x + 1


def case_format_exc_of_nested(x, env):
    try:
        try:
            env.items[9]
        except IndexError:
            raise ValueError("second")
    except ValueError:
        lines = traceback.format_exc().splitlines()
    return [line for line in lines if not line.startswith(" ")]


def case_format_exc_without_exception(x, env):
    return traceback.format_exc()


def case_exception_function(x, env):
    try:
        raise KeyError("k")
    except KeyError as error:
        first = sys.exception() is error, sys.exc_info()[1] is error, sys.exc_info()[2] is error.__traceback__
    return first, sys.exception()


def case_exception_seen_in_native_callback(x, env):
    def look(_): return type(sys.exception()).__name__

    try:
        raise KeyError("k")
    except KeyError:
        return list(map(look, [1, 2])), sorted([2, 1], key=lambda n: (look(n), n)), look(0)


def case_context_of_error_in_native_callback(x, env):
    def key(n): raise ValueError(n)

    try:
        raise KeyError("k")
    except KeyError:
        sorted([1, 2], key=key)


def case_bare_raise_in_native_callback(x, env):
    def again(n): raise

    try:
        raise KeyError("k")
    except KeyError:
        max([1, 2], key=again)


def case_context_of_error_of_builtin(x, env):
    try:
        raise KeyError("k")
    except KeyError:
        int("no number")


def case_context_of_error_in_user_slot(x, env):
    class A:
        def __hash__(self): raise ValueError("hash")

    try:
        raise KeyError("k")
    except KeyError:
        {A(): 1}


def case_context_of_error_in_library(x, env):
    import json

    try:
        raise KeyError("k")
    except KeyError:
        json.loads("{")


def case_context_in_generator_expression(x, env):
    try:
        raise KeyError("k")
    except KeyError:
        sum(1 // n for n in (1, 0))


def case_current_frame(x, env):
    def f(a):
        frame = inspect.currentframe()
        return frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_locals["a"]

    return f(5), f(x)


def case_frame_of_the_caller(x, env):
    def callee(): return sys._getframe(1).f_code.co_name, sys._getframe(0).f_code.co_name
    def caller(): return callee()

    return caller(), callee()


def case_frame_globals(x, env):
    frame = sys._getframe()
    return frame.f_globals is globals(), frame.f_code is case_frame_globals.__code__, frame.f_builtins["len"] is len


def case_extract_stack(x, env):
    def inner(): return [entry.name for entry in traceback.extract_stack()][-3:]
    def outer(): return inner()

    return outer()


def case_stack_in_native_callback(x, env):
    def key(n):
        env.log.append(sys._getframe(1).f_code.co_name)
        return n

    return sorted(env.items, key=key), env.log


def case_stack_in_comprehension_and_generator(x, env):
    def generate():
        yield sys._getframe(0).f_code.co_name, sys._getframe(1).f_code.co_name

    def driver(g): return next(g)

    return driver(generate()), [(lambda: sys._getframe(0).f_code.co_name)() for _ in range(1)]


def case_warning_as_error_has_lines(x, env):
    def old(): warnings.warn("old", FutureWarning, stacklevel=2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        old()


def case_line_numbers_of_multi_line_statements(x, env):
    return [
        env.count,
        env.items[
            0
        ],
        env.items[
            7
        ],
    ]


def case_line_of_call_over_lines(x, env):
    def f(*args): raise ValueError(len(args))

    return f(
        1,
        env.count,
    )


def case_line_of_decorator(x, env):
    def bad(function): raise ValueError("bad")

    @bad
    def f():
        pass


def case_line_of_with_exit(x, env):
    class M:
        def __enter__(self): return self
        def __exit__(self, *exc): raise ValueError("exit")

    with M():
        env.log.append(1)
        env.log.append(2)


def case_line_of_loop_iterator(x, env):
    def g():
        yield 1
        raise ValueError("second")

    for i in g():
        env.log.append(i)
        env.log.append("next")


def case_line_of_raise_from(x, env):
    try:
        env.table["k"]
    except KeyError as error:
        cause = error
    raise ValueError(
        "second"
    ) from cause


def case_line_of_finally(x, env):
    try:
        env.log.append(1)
    finally:
        env.log.append(2)
        env.table["k"]


def case_line_of_class_body(x, env):
    class A:
        a = 1
        b = env.missing


def case_line_of_default_argument(x, env):
    def f(
        a=1,
        b=env.missing,
    ):
        pass


def case_line_of_f_string(x, env):
    return (
        f"{env.count}"
        f"{env.missing}"
    )


def case_line_of_unpacking(x, env):
    a, b = (
        env.items
    )


def case_line_of_condition(x, env):
    if (
        env.count == 0
        and env.missing
    ):
        pass


def case_line_of_augmented(x, env):
    env.items[
        9
    ] += 1


def case_line_of_reraise_in_loop(x, env):
    last = None
    for i in (1, 0):
        try:
            1 // i
        except ZeroDivisionError as error:
            last = error
    raise last


def case_line_of_assert(x, env):
    assert env.items, "items"
    assert (
        env.table
    ), (
        "table"
    )


def case_tracebacks_of_group_members(x, env):
    errors = []
    for text in ("a", "1", "b"):
        try:
            int(text)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("some", errors)


def case_recursion_error_of_operators(x, env):
    class A:
        def __add__(self, other): return self + other

    try:
        A() + 1
    except RecursionError:
        return "too deep"


def case_recursion_error_of_attributes(x, env):
    class A:
        def __getattr__(self, name): return getattr(self, name + "_")

    try:
        A().a
    except RecursionError:
        return "too deep"


def case_recursion_of_three_hundred(x, env):
    def depth(n): return 0 if n == 0 else 1 + depth(n - 1)

    return depth(300), x * depth(3)


def case_deep_traceback_is_whole(x, env):
    def fall(n):
        if n == 0: raise ValueError("bottom")
        fall(n - 1)

    fall(30)


def case_code_attributes(x, env):
    def f(a, b=1, *c, d, **e):
        g = 1
        return lambda: (a, g)

    code = f.__code__
    counts = code.co_argcount, code.co_kwonlyargcount, code.co_cellvars, code.co_flags & 12
    return counts, code.co_varnames, code.co_name


def case_stack_names(x, env):
    def inner(): return [entry.function for entry in inspect.stack()[:3]]
    def outer(): return inner()

    return outer()


def case_warning_here(x, env):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno
        warnings.warn("here")
    return [(w.filename == __file__, w.lineno - line, w.category.__name__) for w in caught], x * 2


def case_warning_of_the_caller(x, env):
    def old(): warnings.warn("old", FutureWarning, stacklevel=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno
        old()
    return [(str(w.message), w.filename == __file__, w.lineno - line) for w in caught]


def case_locals_in_traceback_frames(x, env):
    def inner(a):
        b = a + 1
        raise KeyError(b)

    try:
        inner(1)
    except KeyError as error:
        frame = error.__traceback__.tb_next.tb_frame
    return frame.f_locals


def case_recursion_error_is_caught(x, env):
    def forever(n): return forever(n + 1)

    try:
        forever(0)
    except RecursionError as error:
        return type(error).__name__, x + 1


class Leaving:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        raise ValueError


def case_lines_of_frames_that_raise_again(x, env):
    def other_handler():
        try:
            1 / 0
        except TypeError as error:
            print(error)

    def failing_exit():
        with Leaving():
            1 / 0

    def final():
        try:
            1 / 0
        finally:
            env.log.append("final")

    for function in (other_handler, failing_exit, final):
        try:
            function()
        except Exception as error:
            entry = error.__traceback__.tb_next
            while entry is not None:
                start = entry.tb_frame.f_code.co_firstlineno
                env.log.append((entry.tb_lineno - start, entry.tb_frame.f_lineno - start))
                entry = entry.tb_next
    return env.log, x * 2
