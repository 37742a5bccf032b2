"""Exception groups and `except*`: splitting, what is raised again, and the shape that is kept."""


def shape(group):
    """The types of a group, nested as it is."""
    return [shape(e) if isinstance(e, BaseExceptionGroup) else type(e).__name__ for e in group.exceptions]


def case_each_clause_gets_its_part(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as group:
        env.log.append([e.args for e in group.exceptions])
    except* KeyError as group:
        env.log.append(shape(group))
    return x + 1, env.log


def case_rest_is_raised_again(x, env):
    env.y = x * x
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError:
        env.log.append("value")


def case_nothing_matches(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except* KeyError:
        env.log.append("never")


def case_nested_shape_is_kept(x, env):
    env.y = x * 2
    try:
        try:
            raise ExceptionGroup("o", [ValueError(1), ExceptionGroup("i", [KeyError(2), ValueError(3)]), KeyError(4)])
        except* ValueError as group:
            env.log.append((group.message, shape(group)))
    except ExceptionGroup as rest:
        return rest.message, shape(rest), env.log


def case_plain_exception_is_wrapped(x, env):
    try:
        raise ValueError("plain")
    except* ValueError as group:
        env.found = type(group).__name__, group.message, group.exceptions[0].args, x * 2


def case_plain_exception_that_does_not_match(x, env):
    try:
        raise KeyError("plain")
    except* ValueError:
        env.log.append("never")


def case_plain_base_exception_is_wrapped(x, env):
    try:
        raise KeyboardInterrupt
    except* KeyboardInterrupt as group:
        env.found = type(group).__name__


def case_tuple_of_types(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3), OSError(4)])
    except* (ValueError, KeyError) as group:
        env.log.append(shape(group))
    except* Exception as group:
        env.log.append(shape(group))
    return env.log, 1 - x


def case_else_and_finally(x, env):
    try:
        y = x + 1
    except* ValueError:
        env.log.append("never")
    else:
        env.log.append("else")
    finally:
        env.log.append("finally")
    return y, env.log


def case_raise_in_a_clause(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        raise TypeError("new")


def case_raise_in_two_clauses(x, env):
    env.total = (x + 1).sum()
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError:
        raise TypeError("first")
    except* KeyError:
        raise IndexError("second")


def case_bare_raise_in_a_clause(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError:
        raise
    except* KeyError:
        env.log.append("handled")


def case_raise_from_in_a_clause(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError as group:
        raise RuntimeError("new") from group.exceptions[0]


def case_name_is_deleted_after_the_clause(x, env):
    env.x = x - 1
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError as group:
        pass
    return group


def case_clause_of_a_group_type(x, env):
    try:
        raise ValueError
    except* ExceptionGroup:
        pass


def case_clause_of_no_exception(x, env):
    y = env.y = x + 0.5
    try:
        raise ValueError
    except* 5:
        pass


def case_plain_except_catches_the_group(x, env):
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except ValueError:
        return "value"
    except Exception as error:
        return type(error).__name__, str(error), error.exceptions[0].args


def case_split_and_subgroup(x, env):
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2)])])
    match_, rest = group.split(KeyError)
    picked = group.subgroup(lambda e: isinstance(e, ValueError))
    return shape(match_), shape(rest), shape(picked), group.split(OSError)[0], group.subgroup(Exception) is group


def case_derive_keeps_the_class(x, env):
    class Mine(ExceptionGroup):
        def __new__(cls, message, errors, code):
            made = super().__new__(cls, message, errors)
            made.code = code
            return made

        def derive(self, errors):
            return Mine(self.message, errors, self.code)

    try:
        raise Mine("m", [ValueError(1), KeyError(2)], 7)
    except* ValueError as group:
        env.log.append((type(group).__name__, group.code))
    except* KeyError as group:
        env.log.append(shape(group))
    return env.log, x.sum() * 3


def case_construct_errors(x, env):
    for attempt in (
        lambda: ExceptionGroup("g", []),
        lambda: ExceptionGroup("g", [1]),
        lambda: ExceptionGroup(1, [ValueError()]),
        lambda: ExceptionGroup("g", [KeyboardInterrupt()]),
        lambda: ExceptionGroup("g", 5),
        lambda: ExceptionGroup("g"),
    ):
        try:
            attempt()
        except (TypeError, ValueError) as error:
            env.log.append((type(error).__name__, str(error)))
    return env.log


def case_base_group_becomes_exception_group(x, env):
    return (
        type(BaseExceptionGroup("g", [ValueError()])).__name__,
        type(BaseExceptionGroup("g", [SystemExit()])).__name__,
        repr(ExceptionGroup("g", [ValueError(1)])),
    ), x + x


def case_context_of_group_in_handler(x, env):
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError as group:
        env.found = type(group.__context__).__name__


def case_notes_are_copied_to_parts(x, env):
    group = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    group.add_note("noted")
    try:
        raise group
    except* ValueError as part:
        env.log.append(part.__notes__)
    except* KeyError as part:
        env.log.append((part.__notes__, part.__cause__))
    return env.log


def case_loop_with_except_star(x, env):
    for kind in (ValueError, KeyError):
        try:
            raise ExceptionGroup("g", [kind(1)])
        except* ValueError:
            env.log.append("value")
        except* KeyError:
            env.log.append("key")
    return env.log, x * 2


def case_nested_except_star(x, env):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            raise ExceptionGroup("inner", [OSError(3)])
    except* (KeyError, OSError) as group:
        env.found = shape(group)
