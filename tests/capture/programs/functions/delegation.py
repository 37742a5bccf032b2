"""`yield from`: what is passed on to generators and to other iterators, and what comes back."""


def case_yield_from_iterators(x, env):
    def g():
        yield from env.items
        yield from "ab"
        yield from (x * i for i in range(2))
        yield from {}

    return list(g())


def case_yield_from_returns_a_value(x, env):
    def inner():
        yield 1
        return "returned"

    def outer():
        got = yield from inner()
        yield got
        got = yield from []
        yield got

    return list(outer()), x.sum() * 3


def case_yield_from_passes_send(x, env):
    def inner():
        while True:
            got = yield
            if got is None:
                return "done"
            env.log.append(got)

    def outer():
        env.log.append((yield from inner()))
        yield "end"

    it = outer()
    next(it)
    it.send(1)
    it.send(2)
    return it.send(None), env.log


def case_yield_from_send_to_plain_iterator(x, env):
    env.x = x - 1

    def outer():
        yield from [1, 2]

    it = outer()
    next(it)
    it.send("value")


def case_yield_from_user_iterator_with_send(x, env):
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            return "next"

        def send(self, value):
            return "sent", value

        def throw(self, *args):
            return "thrown", args[0]

        def close(self):
            env.log.append("closed")

    def outer():
        yield from It()

    it = outer()
    found = next(it), it.send(1), it.send(None), it.throw(KeyError)
    it.close()
    return found, env.log


def case_yield_from_passes_throw(x, env):
    def inner():
        try:
            yield 1
        except KeyError:
            yield "inner caught"

    def outer():
        yield from inner()
        yield "after"

    it = outer()
    next(it)
    return it.throw(KeyError("k")), list(it)


def case_yield_from_throw_caught_by_outer(x, env):
    def inner():
        yield 1

    def outer():
        try:
            yield from inner()
        except KeyError:
            yield "outer caught"

    it = outer()
    next(it)
    return it.throw(KeyError("k")), x + x


def case_yield_from_close(x, env):
    def inner():
        try:
            yield 1
        finally:
            env.log.append("inner")

    def outer():
        try:
            yield from inner()
        finally:
            env.log.append("outer")

    it = outer()
    next(it)
    it.close()
    return env.log


def case_yield_from_throw_into_list(x, env):
    def outer():
        try:
            yield from [1, 2]
        except KeyError:
            yield "caught"

    it = outer()
    next(it)
    return it.throw(KeyError), x * 2


def case_yield_from_no_iterable(x, env):
    def outer():
        yield from 5

    next(outer())


def case_yield_from_stop_iteration_with_value(x, env):
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration("value")

    def outer():
        env.log.append((yield from It()))

    return list(outer()), env.log


def case_traceback_through_delegation(x, env):
    y = env.y = x + 0.5

    def inner():
        yield 1
        raise ValueError("deep")

    def middle():
        yield from inner()

    def outer():
        yield from middle()

    return list(outer())


def case_delegating_generators_that_are_left_run_their_finally(x, env):
    def inner():
        yield x
        yield x + 1

    def outer():
        try:
            yield from inner()
        finally:
            env.log.append("outer")

    def quiet():
        try:
            yield from inner()
        except ValueError:
            env.log.append("never")

    first = next(outer())
    env.log.append("behind")
    return first, next(quiet()), env.log
