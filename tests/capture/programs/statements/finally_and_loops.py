"""`finally` with return, break and continue; loops with `else`; what loops leave behind."""


def case_return_in_finally_wins(x, env):
    try:
        return x + 1
    finally:
        return "finally"


def case_return_in_finally_swallows(x, env):
    y = env.y = x + 0.5
    try:
        raise KeyError("lost")
    finally:
        return env.items


def case_return_value_is_evaluated_before_finally(x, env):
    def value():
        env.log.append("value")
        return env.count

    try:
        return value()
    finally:
        env.count = 7
        env.log.append("finally")


def case_returned_object_may_change_in_finally(x, env):
    env.y = x * x
    try:
        return env.items
    finally:
        env.items.append(4)


def case_break_in_finally_swallows(x, env):
    for i in range(3):
        try:
            raise KeyError(i)
        finally:
            env.log.append(i)
            break
    return x * i


def case_continue_in_finally_swallows(x, env):
    for i in range(3):
        try:
            if i == 1:
                raise KeyError(i)
            env.log.append(i)
        finally:
            env.log.append("f")
            continue
    return env.log


def case_continue_in_finally_drops_return(x, env):
    for i in range(3):
        try:
            return i
        finally:
            env.log.append(i)
            continue
    return "end"


def case_break_through_two_finallies(x, env):
    for i in range(3):
        try:
            try:
                if i:
                    break
            finally:
                env.log.append(("inner", i))
        finally:
            env.log.append(("outer", i))
    else:
        env.log.append("else")
    return env.log, x - 0.5


def case_return_through_with_and_finally(x, env):
    class Manager:
        def __enter__(self):
            env.log.append("enter")

        def __exit__(self, *exc):
            env.log.append(exc)

    try:
        with Manager():
            for i in env.items:
                try:
                    return x * i
                finally:
                    env.log.append("inner")
    finally:
        env.log.append("outer")


def case_finally_runs_after_handler_raises(x, env):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            env.log.append("handler")
            raise ValueError(2)
        finally:
            env.log.append("finally")
    except ValueError as error:
        return type(error.__context__).__name__


def case_finally_sees_the_exception_of_its_try(x, env):
    import sys

    try:
        try:
            raise KeyError(1)
        finally:
            env.log.append(sys.exc_info()[0])
    except KeyError:
        env.log.append(sys.exc_info()[0])
    env.log.append(sys.exc_info()[0])
    return env.log, -x


def case_exc_info_in_a_called_function(x, env):
    import sys

    def look():
        return sys.exc_info()[0]

    try:
        env.items[9]
    except IndexError:
        return look(), x + 1


def case_exc_info_is_restored_after_nested_handler(x, env):
    import sys

    try:
        raise KeyError
    except KeyError:
        try:
            raise ValueError
        except ValueError:
            env.log.append(sys.exc_info()[0])
        env.log.append(sys.exc_info()[0])
    return env.log


def case_for_else_after_exhaustion(x, env):
    for i in env.items:
        x = x + i
    else:
        env.log.append(i)
    return x


def case_for_else_not_after_break(x, env):
    for i in env.items:
        if i == 2:
            break
    else:
        env.log.append("else")
    return x * i


def case_for_over_nothing_leaves_the_name_unbound(x, env):
    for i in []:
        pass
    return i


def case_for_name_is_kept(x, env):
    i = "before"
    for i in range(2):
        pass
    return i, x * x


def case_for_rebinding_the_name_does_not_matter(x, env):
    for i in range(3):
        env.log.append(i)
        i = 10
    return i


def case_for_evaluates_its_iterable_once(x, env):
    def items():
        env.log.append("made")
        return env.items

    for i in items():
        env.log.append(i)
        env.items = []
    return env.log, (x * 2).mean()


def case_while_else(x, env):
    n = 3
    while n:
        n -= 1
    else:
        env.log.append("else")
    return x + n


def case_while_with_break_in_else_of_inner_loop(x, env):
    while True:
        for i in range(2):
            env.log.append(i)
        else:
            break
    return env.log


def case_while_on_none(x, env):
    found, turns = None, 0
    while found is None:
        turns += 1
        found = x * turns if turns == 3 else None
    while found is not None and turns:
        turns -= 1
    return found, turns


def case_while_condition_with_effect(x, env):
    while env.items.pop():
        env.log.append(len(env.items))
        if not env.items:
            break
    return env.log


def case_appending_while_iterating(x, env):
    for i in env.items:
        if len(env.items) < 6:
            env.items.append(i * 10)
    return env.items, x / 2


def case_removing_while_iterating(x, env):
    for i in env.items:
        env.items.remove(i)
    return env.items


def case_clearing_while_iterating(x, env):
    for i in env.items:
        env.log.append(i)
        env.items.clear()
    return env.log, x > 2


def case_inserting_before_the_cursor(x, env):
    for i in env.items:
        env.log.append(i)
        if len(env.items) < 5:
            env.items.insert(0, 0)
    return env.log


def case_dict_grows_while_iterating(x, env):
    env.table["a"] = 1
    for key in env.table:
        env.table[key + "b"] = 2


def case_dict_value_replaced_while_iterating(x, env):
    env.table.update(a=1, b=2)
    for key in env.table:
        env.table[key] = x * env.table[key]
    return env.table


def case_dict_same_size_but_other_keys_while_iterating(x, env):
    env.y = x * 2
    env.table.update(a=1, b=2)
    for turn, key in enumerate(env.table):
        env.log.append(key)
        if turn < 1:
            del env.table[key]
            env.table["c"] = 3
    return env.log


def case_set_grows_while_iterating(x, env):
    numbers = {1, 2}
    for n in numbers:
        numbers.add(n + 10)


def case_iterator_is_shared_by_two_loops(x, env):
    iterator = iter(range(6))
    for a in iterator:
        for b in iterator:
            env.log.append((a, b))
            break
    return env.log, x.relu() + 1


def case_exhausted_iterator_stays_exhausted(x, env):
    iterator = iter(env.items)
    list(iterator)
    env.items.append(4)
    return list(iterator), x + 1


def case_list_iterator_sees_what_is_appended(x, env):
    iterator = iter(env.items)
    next(iterator)
    env.items.append(4)
    return list(iterator)


def case_nested_loops_with_labels_by_exception(x, env):
    class Found(Exception):
        pass

    try:
        for i in range(3):
            for j in range(3):
                if i * j == 2:
                    raise Found(i, j)
    except Found as found:
        return found.args


def case_nested_function_in_a_loop_sees_the_last(x, env):
    made = []
    for i in range(3):
        made.append(lambda: i)
    return [f() for f in made], x.exp()


def case_if_chain_with_effects(x, env):
    def check(name, answer):
        env.log.append(name)
        return answer

    if check("a", False) or check("b", 0):
        return "first"
    elif check("c", 1) and not check("d", []):
        return "second", env.log


def case_conditional_expression_evaluates_one_arm(x, env):
    def arm(name):
        env.log.append(name)
        return x + len(name)

    return arm("one") if env.count else arm("other")


def case_and_or_return_operands(x, env):
    return [0 or [], 1 and "text", "" or 0 or None, env.items and env.items, [] and x]


def case_pass_and_ellipsis(x, env):
    pass
    ...
    "text"
    return x + 1
