"""Tensors in the flow of Python: loops, conditions, exceptions, generators, managers and recursion around them."""

import contextlib
import functools
import itertools


def case_loop_accumulates(x, env):
    total = x * 0
    for i in range(5):
        total = total + x * i
    return total


def case_loop_with_continue_and_break(x, env):
    y = x
    for i in range(10):
        if i % 2:
            continue
        if i > 5:
            break
        y = y + i
        env.log.append(i)
    return y, env.log


def case_while_on_a_counter(x, env):
    n = 0
    while n < 3:
        x = x * 2
        n += 1
    else:
        x = x + n
    return x


def case_nested_loops(x, env):
    total = x
    for i, j in itertools.product(range(2), range(3)):
        total = total + i * j if i != j else total - x
    return total


def case_loop_over_tensors(x, env):
    total = 0
    for i, t in enumerate([x, x + 1, x * 2]):
        total = total + t * i
    return total


def case_loop_over_items_of_a_dict(x, env):
    weights = {"a": 1, "b": 2.5}
    return sum(x * w for w in weights.values()), {k: x + w for k, w in weights.items()}


def case_loop_with_zip_and_enumerate(x, env):
    layers = [(1, 2), (3, 4)]
    for depth, (a, b) in enumerate(layers):
        x = x * a + b - depth
    return x


def case_branch_on_a_number(x, env):
    for mode in ("relu", "exp", "other"):
        if mode == "relu":
            y = x.relu()
        elif mode == "exp":
            y = (x * 0.1).exp()
        else:
            y = -x
        env.log.append(y)
    return len(env.log)


def case_branch_on_a_value(x, env):
    if x.sum() > 5:
        return x + 1
    return x - 1


def case_branch_on_a_value_with_effects(x, env):
    y = x * 2
    if (y > 100).any():
        env.log.append("large")
    else:
        env.log.append("small")
    return y + len(env.log)


def case_while_on_a_value(x, env):
    turns = 0
    while x.sum() < 100:
        x = x * 2
        turns += 1
    return x, turns


def case_assert_on_a_value(x, env):
    assert (x > 0).all(), "positive"
    env.log.append("checked")
    assert x.sum() < 5, f"sum is {x.sum().item()}"


def case_conditional_expression_on_a_value(x, env):
    y = x if x[0] > x[1] else x * 10
    return y, "and" if x.sum() and x[0] else "or"


def case_comparison_chain_of_values(x, env):
    return 0 < x[0] < 2 < x[3], x.max() if x.min() > 5 else x.min()


def case_number_of_a_tensor(x, env):
    n = int(x.sum())
    f = float(x[1])
    return n, f, x * n, [x[i].item() for i in range(2)], list(range(int(x[2])))


def case_index_from_a_tensor(x, env):
    i = int(x.argmax())
    return env.items[i - 1], x[i], x.tolist()


def case_printing_a_tensor(x, env):
    print(x)
    y = x * 2
    print(f"{y.sum().item():.1f}", "then", end="\n")
    return y


def case_exception_between_computations(x, env):
    y = x + 1
    try:
        env.items[10]
    except IndexError:
        y = y * 2
    else:
        y = y * 3
    finally:
        y = y - 1
    return y


def case_exception_raised_after_effects(x, env):
    env.y = x * 2
    env.log.append(env.y)
    raise ValueError("after", len(env.log))


def case_exception_carries_a_tensor(x, env):
    class Stop(Exception):
        pass

    try:
        raise Stop(x * 2, "found")
    except Stop as stop:
        value, text = stop.args
    return value + 1, text


def case_exception_of_an_operator(x, env):
    try:
        x + x[:3]
    except RuntimeError as error:
        env.log.append(type(error).__mro__[1].__name__)
        y = x * 2
    except Exception as error:
        env.log.append("other")
        y = x * 3
    return y


def case_early_return_in_a_loop(x, env):
    def search(t):
        for i in range(5):
            t = t + i
            if i == 3:
                return t, i
        return None

    return search(x)


def case_early_return_through_finally(x, env):
    try:
        y = x * 2
        return y
    finally:
        env.y = x + 1


def case_generator_of_tensors(x, env):
    def layers():
        y = x
        while True:
            y = y * 2
            yield y

    return [t for t, _ in zip(layers(), range(3))], next(layers())


def case_generator_that_is_sent_tensors(x, env):
    def accumulate():
        total = 0
        while True:
            total = total + (yield total)

    running = accumulate()
    next(running)
    running.send(x)
    return running.send(x * 2)


def case_generator_delegates_and_returns(x, env):
    def inner(t):
        yield t + 1
        return t * 10

    def outer():
        last = yield from inner(x)
        yield last

    return list(outer())


def case_generator_expression_into_functions(x, env):
    return sum(x * i for i in range(3)), max((x * i).sum().item() for i in range(3)), tuple(x + i for i in (1, 2))


def case_comprehension_with_conditions(x, env):
    return [x * i for i in range(4) if i % 2], {i: x + i for i in range(2)}, [a + b for a in (x, x * 2) for b in (1, 2)]


def case_manager_around_computations(x, env):
    @contextlib.contextmanager
    def scaled(by):
        env.log.append(("enter", by))
        yield x * by
        env.log.append(("exit", by))

    with scaled(2) as a, scaled(3) as b:
        y = a + b
    return y, env.log


def case_manager_suppresses_in_between(x, env):
    y = x
    with contextlib.suppress(ZeroDivisionError):
        y = y + 1
        y = y * (1 // 0)
    return y * 2


def case_manager_with_state(x, env):
    class Scope:
        def __enter__(self):
            self.before, env.x = env.x, env.x * 0
            return self

        def __exit__(self, *exc):
            env.x = self.before
            return False

    with Scope() as scope:
        inside = env.x + 1
    return inside, env.x is x, scope.before is x


def case_recursion_over_depth(x, env):
    def power(t, n):
        return t if n == 1 else t * power(t, n - 1)

    return power(x, 5)


def case_recursion_over_a_tree(x, env):
    def evaluate(tree):
        if isinstance(tree, tuple):
            op, *parts = tree
            values = [evaluate(part) for part in parts]
            return functools.reduce(op, values)
        return tree

    return evaluate((lambda a, b: a + b, x, (lambda a, b: a * b, x, 2), 1))


def case_dispatch_by_table(x, env):
    table = {"double": lambda t: t * 2, "shift": lambda t: t + 1, "neg": lambda t: -t}
    for name in ("double", "shift", "neg", "double"):
        x = table[name](x)
        env.log.append(name)
    return x


def case_dispatch_by_getattr(x, env):
    for name, args in (("add", (1,)), ("mul", (2,)), ("abs", ()), ("sum", ())):
        x = getattr(x, name)(*args)
    return x


def case_match_on_kinds(x, env):
    def apply(t, step):
        match step:
            case ("scale", by):
                return t * by
            case {"shift": by}:
                return t + by
            case [first, *rest]:
                return functools.reduce(apply, rest, apply(t, first))
            case int(n) if n > 1:
                return t**n
            case _:
                return t

    return functools.reduce(apply, [("scale", 2), {"shift": 1}, [2, ("scale", 3)], None], x)


def case_counter_beside_tensors(x, env):
    for _ in range(3):
        env.count += 1
        env.x = env.x + env.count
    return env.x * env.count


def case_map_filter_reduce(x, env):
    parts = map(lambda i: x * i, filter(lambda i: i % 2, range(6)))
    return functools.reduce(lambda a, b: a + b, parts)


def case_accumulate_and_chain(x, env):
    return list(itertools.accumulate([x, x * 2, x])), [t + 1 for t in itertools.chain([x], (x * i for i in range(2)))]


def case_sorted_by_values(x, env):
    parts = [x * -1, x, x * 0]
    return sorted(parts, key=lambda t: t.sum().item()), min(parts, key=lambda t: float(t[0]))


def case_decorated_operator(x, env):
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args):
            env.log.append((function.__name__, len(args)))
            return function(*args)

        return wrapper

    @logged
    def affine(t, a, b):
        return t * a + b

    return affine(affine(x, 2, 1), 0.5, 0), env.log


def case_cache_of_tensors(x, env):
    @functools.cache
    def scale(n):
        env.log.append(n)
        return x * n

    return scale(2) + scale(3) + scale(2), scale(2) is scale(2), env.log


def case_operator_overloads_around_tensors(x, env):
    class Expr:
        def __init__(self, run):
            self.run = run

        def __add__(self, other):
            return Expr(lambda: self.run() + (other.run() if isinstance(other, Expr) else other))

        __radd__ = __add__

        def __mul__(self, other):
            return Expr(lambda: self.run() * other)

    return (1 + Expr(lambda: x) * 2 + Expr(lambda: -x)).run()


def case_callbacks_in_order(x, env):
    hooks = [lambda t: env.log.append("first"), lambda t: t * 2, lambda t: env.log.append(t)]
    for hook in hooks:
        result = hook(x)
        x = x if result is None else result
    return x


def case_string_keys_from_numbers(x, env):
    for i in range(3):
        env.table[f"layer{i}.weight"] = x + i
    return sum(v for k, v in env.table.items() if k.endswith(("0.weight", "2.weight")))


def case_global_work_in_class_body(x, env):
    class Stage:
        parts = [x + i for i in range(2)] if env.count == 0 else []
        total = parts[0]
        for part in parts[1:]:
            total = total * part

    return Stage.total


def case_star_arguments_of_tensors(x, env):
    def mix(*tensors, weights=(), **named):
        return sum(t * w for t, w in zip(tensors, weights)) + named["bias"]

    return mix(x, x + 1, weights=[2, 3], **{"bias": 1, "unused": x})


def case_exit_stack_and_tensors(x, env):
    with contextlib.ExitStack() as stack:
        y = x
        for i in range(3):
            stack.callback(env.log.append, y)
            y = y * 2
    return y, len(env.log)


def case_nested_functions_three_deep(x, env):
    def a(t):
        def b(u):
            def c(v):
                env.log.append("c")
                return v + t

            return c(u) * 2

        return b(t + 1)

    return a(x), env.log
