"""Generators: send, throw, close, returned values, delegation, and what happens in `finally`."""


def case_next_send_return(x, env):
    def g():
        got = yield x * 2
        env.log.append(got)
        got = yield "second"
        return got

    it = g()
    env.log.append(next(it))
    env.log.append(it.send("a"))
    try:
        it.send("b")
    except StopIteration as stop:
        return stop.value


def case_body_starts_with_the_first_next(x, env):
    def g():
        env.log.append("started")
        yield 1

    it = g()
    env.log.append("made")
    next(it)
    return env.log, (x + 1).sum()


def case_arguments_are_bound_at_the_call(x, env):
    def g(a):
        yield a

    g()


def case_send_to_unstarted(x, env):
    env.y = x * x

    def g():
        yield 1

    it = g()
    it.send(None)
    g().send(1)


def case_send_to_finished(x, env):
    def g():
        yield 1

    it = g()
    list(it)
    env.log.append(next(it, "default"))
    it.send(5)


def case_throw_at_yield(x, env):
    def g():
        try:
            yield 1
        except KeyError as error:
            yield "caught", error.args

    it = g()
    next(it)
    return it.throw(KeyError("k"))


def case_throw_not_caught(x, env):
    env.y = x * 2

    def g():
        yield 1
        env.log.append("never")

    it = g()
    next(it)
    try:
        it.throw(ValueError("v"))
    except ValueError:
        return list(it)


def case_throw_escapes_with_traceback(x, env):
    def g():
        yield x + 1
        yield 2

    it = g()
    next(it)
    it.throw(ValueError("v"))


def case_throw_into_unstarted(x, env):
    def g():
        try:
            yield 1
        except ValueError:
            env.log.append("never")

    g().throw(ValueError("v"))


def case_throw_into_finished(x, env):
    env.total = (x + 1).sum()

    def g():
        yield 1

    it = g()
    list(it)
    it.throw(KeyError("after"))


def case_throw_a_class(x, env):
    def g():
        try:
            yield
        except ValueError as error:
            yield error.args

    it = g()
    next(it)
    return it.throw(ValueError)


def case_throw_no_exception(x, env):
    def g():
        yield

    it = g()
    next(it)
    it.throw(5)


def case_close_runs_finally(x, env):
    def g():
        try:
            yield 1
        finally:
            env.log.append("finally")

    it = g()
    next(it)
    return it.close(), env.log, list(it), x - 0.5


def case_close_of_unstarted_runs_nothing(x, env):
    def g():
        try:
            yield 1
        finally:
            env.log.append("never")

    it = g()
    it.close()
    return list(it), env.log


def case_close_ignored_by_the_generator(x, env):
    env.x = x - 1

    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    it.close()


def case_close_with_other_exception(x, env):
    def g():
        try:
            yield 1
        finally:
            raise KeyError("in finally")

    it = g()
    next(it)
    it.close()


def case_generator_exit_seen_inside(x, env):
    def g():
        try:
            yield 1
        except BaseException as error:
            env.log.append(type(error).__name__)
            raise

    it = g()
    next(it)
    it.close()
    it.close()
    return env.log


def case_stop_iteration_inside_becomes_runtime_error(x, env):
    y = env.y = x + 0.5

    def g():
        yield next(iter([]))

    list(g())


def case_raised_stop_iteration_has_a_cause(x, env):
    def g():
        yield 1
        raise StopIteration("value")

    it = g()
    next(it)
    try:
        next(it)
    except RuntimeError as error:
        return str(error), type(error.__cause__).__name__, error.__cause__ is error.__context__, error.__cause__.value


def case_stop_iteration_thrown_in(x, env):
    env.y = x * x

    def g():
        yield 1

    it = g()
    next(it)
    it.throw(StopIteration("thrown"))


def case_return_in_try_finally(x, env):
    def g():
        try:
            yield 1
            return "value"
        finally:
            env.log.append("finally")

    def outer():
        env.log.append((yield from g()))

    return list(outer()), env.log


def case_yield_in_finally(x, env):
    def g():
        try:
            raise KeyError("k")
        finally:
            yield "in finally"

    it = g()
    env.log.append(next(it))
    next(it)


def case_yield_in_except_keeps_the_exception(x, env):
    import sys

    def g():
        try:
            raise KeyError("k")
        except KeyError:
            yield sys.exc_info()[0]
            yield sys.exc_info()[0]

    it = g()
    env.log.append(next(it))
    try:
        raise ValueError
    except ValueError:
        env.log.append(next(it))
        env.log.append(sys.exc_info()[0])
    return env.log, -x


def case_bare_raise_after_yield_in_except(x, env):
    def g():
        try:
            raise KeyError("k")
        except KeyError:
            yield 1
            raise

    it = g()
    next(it)
    next(it)


def case_generator_sees_the_callers_exception(x, env):
    env.y = x * 2
    import sys

    def g():
        yield sys.exc_info()[0]

    it = g()
    try:
        raise ValueError("outer")
    except ValueError:
        return next(it)


def case_context_of_exception_in_generator(x, env):
    def g():
        yield 1
        raise KeyError("inside")

    it = g()
    next(it)
    try:
        raise ValueError("outer")
    except ValueError:
        next(it)


def case_generator_already_executing(x, env):
    def g():
        yield next(it)

    it = g()
    next(it)


def case_yield_is_an_expression(x, env):
    def g():
        env.log.append([(yield 1), (yield 2)])
        f = lambda: (yield 3)
        yield from f()

    it = g()
    return [next(it), it.send("a"), it.send("b")], env.log, x * x


def case_yield_in_condition_and_arguments(x, env):
    def g():
        if (yield "if"):
            print((yield "argument"), end="")

    it = g()
    next(it)
    it.send(True)
    return list(it)


def case_generator_attributes(x, env):
    def g():
        yield 1

    it = g()
    before = it.gi_frame is None, it.gi_running, it.gi_yieldfrom, it.__name__, it.__qualname__
    list(it)
    return before, it.gi_frame is None, (x * 2).mean()


def case_generator_is_called_as_its_function_at_the_call(x, env):
    def values():
        yield x + 1

    made = [values()]
    values.__name__, values.__qualname__ = "other", "another.other"
    made.append(values())
    print("between")
    values.__name__ = "third"
    made.append(values())
    return [(it.__name__, it.__qualname__) for it in made], values.__name__


def case_state_while_running(x, env):
    import inspect

    def g():
        env.log.append(inspect.getgeneratorstate(it))
        yield 1

    it = g()
    env.log.append(inspect.getgeneratorstate(it))
    next(it)
    env.log.append(inspect.getgeneratorstate(it))
    it.close()
    env.log.append(inspect.getgeneratorstate(it))
    return env.log


def case_two_generators_interleave(x, env):
    def g(name):
        for i in range(2):
            env.log.append((name, i))
            yield

    for _ in zip(g("a"), g("b")):
        env.log.append("turn")
    return env.log


def case_zip_stops_after_advancing_the_first(x, env):
    it = iter([1, 2, 3])
    pairs = list(zip(it, [10]))
    return pairs, list(it), x / 2


def case_generator_returned_unfinished(x, env):
    def g(n):
        while True:
            n += yield n

    it = g(x)
    next(it)
    it.send(1)
    return it


def case_generator_returned_unstarted(x, env):
    def g():
        yield env.items

    return g()


def case_generator_kept_in_the_environment(x, env):
    def g():
        for i in env.items:
            yield i * 2

    env.it = g()
    return next(env.it), x + next(env.it)


def case_infinite_generator_with_islice(x, env):
    import itertools

    def naturals():
        n = 0
        while True:
            env.log.append(n)
            yield n
            n += 1

    return list(itertools.islice(naturals(), 2, 5)), env.log, x > 2


def case_recursive_generator(x, env):
    def walk(tree):
        for part in tree:
            if isinstance(part, list):
                yield from walk(part)
            else:
                yield part

    return list(walk([1, [2, [3]], [[]], x]))


def case_generator_as_a_coroutine_averages(x, env):
    def average():
        total, count, value = 0.0, 0, None
        while True:
            value = yield value and total / count
            total += value
            count += 1

    it = average()
    next(it)
    return [it.send(v) for v in (10, 20, 60)]


def case_generator_method_and_static(x, env):
    class A:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            while self.n:
                yield self.n
                self.n -= 1

        @staticmethod
        def numbers():
            yield from (1, 2)

    a = A(3)
    return list(a), list(a), list(A.numbers()), [i for i in A(2)]


def case_generator_with_context_manager(x, env):
    class Manager:
        def __enter__(self):
            env.log.append("enter")

        def __exit__(self, kind, *rest):
            env.log.append(kind and kind.__name__)

    def g():
        with Manager():
            yield 1
            yield 2

    it = g()
    next(it)
    it.close()
    return list(g()), env.log, x.relu() + 1


def case_deleted_generator_runs_finally(x, env):
    def g():
        try:
            yield 1
        finally:
            env.log.append("finally")

    it = g()
    next(it)
    del it
    return env.log


def case_break_out_of_loop_over_generator(x, env):
    def g():
        try:
            yield from range(10)
        finally:
            env.log.append("finally")

    for i in g():
        if i == 2:
            break
    return i, env.log, x.exp()


def case_exception_in_loop_body_does_not_enter_generator(x, env):
    def g():
        try:
            yield 1
        except KeyError:
            env.log.append("never")

    it = g()
    try:
        for _ in it:
            raise KeyError("body")
    except KeyError:
        env.log.append("outside")
    it.close()
    return env.log


def case_sum_of_tensors_from_generator(x, env):
    def parts():
        for i in range(3):
            yield x * i

    total = 0
    for part in parts():
        total = total + part
    return total.sum()


def case_iter_with_sentinel(x, env):
    values = iter([1, 2, 0, 3])
    return list(iter(lambda: next(values), 0)), list(values)
