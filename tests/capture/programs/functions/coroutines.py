"""Coroutines, asynchronous generators, `async for` and `async with`, driven by hand."""

import contextlib
import types
import warnings


def finish(coroutine, log=None, answers=()):
    """Drive a coroutine to its end with answers to what it yields, and return its result."""
    answers = iter(answers)
    value = None
    try:
        while True:
            yielded = coroutine.send(value)
            if log is not None:
                log.append(("yielded", yielded))
            value = next(answers, None)
    except StopIteration as stop:
        return stop.value


@types.coroutine
def suspend(value):
    """Yield to whoever drives, and return the answer."""
    return (yield value)


class Manager:
    """An asynchronous manager that suspends on both sides."""

    def __init__(self, log, suppress=False):
        self.log, self.suppress = log, suppress

    async def __aenter__(self):
        self.log.append("enter")
        return await suspend("entering")

    async def __aexit__(self, kind, error, traceback):
        self.log.append(("exit", kind and kind.__name__))
        await suspend("leaving")
        return self.suppress


class Countdown:
    """An asynchronous iterator."""

    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return await suspend(self.n)


def case_return_value(x, env):
    async def f(v):
        return v * 2

    return finish(f(x))


def case_body_starts_when_driven(x, env):
    async def f():
        env.log.append("body")

    c = f()
    env.log.append("made")
    return finish(c), env.log, x * 2


def case_await_passes_values(x, env):
    async def f():
        got = await suspend("first")
        env.log.append(got)
        return await suspend(got * 2)

    return finish(f(), env.log, [x, "end"]), env.log


def case_await_nested(x, env):
    async def inner(n):
        return (await suspend(n)) or n

    async def outer():
        return [await inner(i) for i in range(3)]

    return finish(outer(), env.log, [None, "answer"]), env.log


def case_await_object_with_await(x, env):
    class A:
        def __await__(self):
            got = yield "from A"
            return got, 5

    async def f():
        return await A()

    return finish(f(), env.log, ["sent"]), env.log, (x + 1).sum()


def case_await_of_no_awaitable(x, env):
    async def f():
        return await 5

    finish(f())


def case_await_returns_no_iterator(x, env):
    class A:
        def __await__(self):
            return [1]

    async def f():
        return await A()

    finish(f())


def case_await_returns_a_coroutine(x, env):
    env.y = x * 2

    async def g():
        return 1

    class A:
        def __await__(self):
            self.c = g()
            return self.c

    a = A()

    async def f():
        return await a

    try:
        finish(f())
    finally:
        a.c.close()


def case_coroutine_awaited_twice(x, env):
    async def g():
        return 1

    async def f():
        c = g()
        env.log.append(await c)
        return await c

    finish(f())


def case_coroutine_is_no_iterator(x, env):
    env.total = (x + 1).sum()

    async def f():
        pass

    c = f()
    try:
        iter(c)
    finally:
        c.close()


def case_exception_passes_through_await(x, env):
    async def inner():
        await suspend(1)
        raise KeyError("inner")

    async def outer():
        try:
            await inner()
        except KeyError as error:
            raise ValueError("outer") from error

    finish(outer())


def case_throw_into_await(x, env):
    async def f():
        try:
            await suspend(1)
        except KeyError as error:
            return "caught", error.args

    c = f()
    c.send(None)
    try:
        c.throw(KeyError("thrown"))
    except StopIteration as stop:
        return stop.value


def case_close_runs_finally(x, env):
    async def f():
        try:
            await suspend(1)
        finally:
            env.log.append("finally")

    c = f()
    c.send(None)
    return c.close(), env.log, x - 0.5


def case_send_to_unstarted(x, env):
    async def f():
        pass

    c = f()
    try:
        c.send(1)
    finally:
        c.close()


def case_send_to_finished(x, env):
    env.x = x - 1

    async def f():
        return 1

    c = f()
    finish(c)
    c.send(None)


def case_stop_iteration_inside(x, env):
    async def f():
        raise StopIteration("inside")

    finish(f())


def case_async_with(x, env):
    async def f():
        async with Manager(env.log) as value:
            env.log.append(value)
            return x * 2

    return finish(f(), env.log, ["entered"]), env.log


def case_async_with_exception(x, env):
    async def f():
        async with Manager(env.log):
            raise KeyError("body")

    finish(f(), env.log)


def case_async_with_suppresses(x, env):
    async def f():
        async with Manager(env.log, suppress=True):
            raise KeyError("body")
        return "after"

    return finish(f(), env.log), env.log, -x


def case_async_with_two(x, env):
    async def f():
        async with Manager(env.log) as a, Manager(env.log) as b:
            return a, b

    return finish(f(), env.log, ["one", "two"]), env.log


def case_async_with_plain_manager(x, env):
    y = env.y = x + 0.5

    async def f():
        async with contextlib.closing(env):
            pass

    finish(f())


def case_async_with_exit_that_is_not_awaitable(x, env):
    class M:
        async def __aenter__(self):
            pass

        def __aexit__(self, *exc):
            return 5

    async def f():
        async with M():
            pass

    finish(f())


def case_async_for(x, env):
    async def f():
        total = x
        async for i in Countdown(3):
            total = total + i
        else:
            env.log.append("else")
        return total

    return finish(f(), env.log, [10, 20, 30]), env.log


def case_async_for_break(x, env):
    async def f():
        async for i in Countdown(5):
            if i == 3:
                break
        else:
            env.log.append("never")
        return i

    return finish(f(), None, [4, 3]), env.log


def case_async_for_over_plain_iterable(x, env):
    env.y = x * x

    async def f():
        async for i in [1, 2]:
            pass

    finish(f())


def case_async_for_exception_in_anext(x, env):
    class A:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise KeyError("anext")

    async def f():
        async for i in A():
            pass

    finish(f())


def case_async_generator(x, env):
    async def g(n):
        for i in range(n):
            await suspend(("inside", i))
            yield x * i

    async def f():
        return [v async for v in g(2)]

    return finish(f(), env.log), env.log


def case_async_generator_asend_and_athrow(x, env):
    async def g():
        try:
            got = yield 1
            env.log.append(got)
            yield 2
        except KeyError:
            yield "caught"

    async def f():
        it = g()
        return await it.asend(None), await it.asend("sent"), await it.athrow(KeyError("k")), await anext(it, "end")

    return finish(f()), env.log, x * x


def case_async_generator_aclose(x, env):
    async def g():
        try:
            yield 1
        finally:
            await suspend("cleaning")
            env.log.append("closed")

    async def f():
        it = g()
        await anext(it)
        await it.aclose()

    return finish(f(), env.log), env.log


def case_async_generator_ends(x, env):
    async def g():
        yield 1

    async def f():
        it = aiter(g())
        env.log.append(await anext(it))
        await anext(it)

    finish(f())


def case_async_comprehensions(x, env):
    async def f():
        squares = {i: i * i async for i in Countdown(3)}
        pairs = [(a, b) async for a in Countdown(2) for b in "xy" if await suspend(a) is None]
        return squares, pairs, {i async for i in Countdown(2)}

    return finish(f(), None, [2, 1, 0]), (x * 2).mean()


def case_async_generator_expression(x, env):
    async def f():
        g = (i * 2 async for i in Countdown(2))
        return type(g).__name__, [v async for v in g]

    return finish(f(), None, [5, 6])


def case_await_in_expressions(x, env):
    async def v(n):
        env.log.append(n)
        return n

    async def f():
        return await v(1) + await v(2) * await v(3), f"{await v(4)}", {await v(5): await v(6)}

    return finish(f()), env.log, x / 2


def case_async_method_and_static(x, env):
    class A:
        async def f(self):
            return await self.g(1)

        @staticmethod
        async def g(n):
            return n + 1

        @classmethod
        async def h(cls):
            return cls.__name__

    async def main():
        return await A().f(), await A.h()

    return finish(main())


def case_contextlib_async(x, env):
    @contextlib.asynccontextmanager
    async def manager():
        env.log.append("in")
        try:
            yield await suspend("m")
        finally:
            env.log.append("out")

    async def f():
        async with manager() as value:
            return value

    return finish(f(), env.log, [x]), env.log


def case_coroutine_attributes(x, env):
    import inspect

    async def f():
        await suspend(1)

    c = f()
    before = (
        inspect.getcoroutinestate(c),
        c.cr_await,
        c.__name__,
        inspect.iscoroutine(c),
        inspect.iscoroutinefunction(f),
    )
    c.send(None)
    during = inspect.getcoroutinestate(c), c.cr_await is None
    c.close()
    return before, during, inspect.getcoroutinestate(c)


def case_scheduler_of_two(x, env):
    async def worker(name, n):
        for i in range(n):
            env.log.append((name, i))
            await suspend(name)
        return name

    ready = [worker("a", 2), worker("b", 1)]
    while ready:
        task = ready.pop(0)
        try:
            task.send(None)
            ready.append(task)
        except StopIteration as stop:
            env.log.append(("done", stop.value))
    return env.log, x > 2


def case_lambda_awaitable_and_recursion(x, env):
    async def depth(n):
        return 0 if n == 0 else 1 + await depth(n - 1)

    return finish(depth(10)), finish((lambda: depth(2))())


def case_coroutine_returned_unstarted(x, env):
    async def f():
        return 1

    c = f()
    c.close()
    return c, x.relu() + 1


def case_what_coroutines_say_of_themselves(x, env):
    async def f():
        await suspend(c.cr_running)
        return x * 2

    c = f()
    states = [c.cr_code.co_name, c.cr_frame.f_code is c.cr_code, c.cr_running, c.cr_suspended]
    running = c.send(None)
    states += [running, c.cr_suspended, c.cr_frame is None]
    return finish(c), states, c.cr_frame is None


def case_what_asynchronous_generators_say_of_themselves(x, env):
    async def g():
        await suspend(it.ag_running)
        yield x + 1

    it = g()
    states = [it.ag_code.co_name, it.ag_frame.f_code is it.ag_code, it.ag_running, it.ag_await]
    step = it.asend(None)
    states += [step.send(None), it.ag_await is None]
    return finish(step), states, repr(it)[:24]


def case_frame_cleared_before_the_begin(x, env):
    async def f():
        return x

    coroutine = f()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        coroutine.cr_frame.clear()
    coroutine.close()
    return [str(each.message) for each in caught]
