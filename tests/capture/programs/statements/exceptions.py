"""`raise` and `try`: which handler, in which order, with which context, cause and traceback."""


def case_handlers_are_tried_in_order(x, env):
    env.y = x * x
    try:
        raise KeyError("k")
    except IndexError:
        return "index"
    except LookupError as error:
        return "lookup", error.args
    except Exception:
        return "any"


def case_handler_of_a_tuple(x, env):
    try:
        env.items[9]
    except (KeyError, IndexError) as error:
        return type(error).__name__, str(error)


def case_handler_of_nested_tuple(x, env):
    env.y = x * 2
    try:
        raise ValueError
    except (KeyError, (IndexError, ValueError)):
        return "nested"


def case_handler_expression_is_evaluated_only_when_raised(x, env):
    def kind(name, cls):
        env.log.append(name)
        return cls

    try:
        y = x + 1
    except kind("never", ValueError):
        pass
    try:
        raise KeyError
    except kind("first", IndexError):
        pass
    except kind("second", KeyError):
        pass
    except kind("third", Exception):
        pass
    return y


def case_handler_that_is_no_exception_class(x, env):
    try:
        raise KeyError("k")
    except 5:
        pass


def case_handler_with_text_in_a_tuple(x, env):
    try:
        raise KeyError("k")
    except (IndexError, "text"):
        pass


def case_handler_expression_raises(x, env):
    env.total = (x + 1).sum()
    try:
        raise KeyError("k")
    except env.missing:
        pass


def case_name_is_deleted_after_the_handler(x, env):
    try:
        raise KeyError("k")
    except KeyError as error:
        kept = error
    try:
        return error
    except UnboundLocalError as unbound:
        return str(unbound), kept.args


def case_name_that_existed_is_deleted_too(x, env):
    env.x = x - 1
    error = 1
    try:
        raise KeyError("k")
    except KeyError as error:
        pass
    return error


def case_name_may_be_deleted_in_the_handler(x, env):
    try:
        raise KeyError("k")
    except KeyError as error:
        del error
    return x + 1


def case_name_in_a_closure_is_emptied(x, env):
    try:
        raise KeyError("k")
    except KeyError as error:

        def read():
            return error

        env.log.append(read().args)
    return read()


def case_else_runs_without_exception(x, env):
    try:
        y = x * 2
    except ValueError:
        env.log.append("handler")
    else:
        env.log.append("else")
    finally:
        env.log.append("finally")
    return y, env.log


def case_exception_in_else_is_not_handled(x, env):
    try:
        pass
    except KeyError:
        env.log.append("handler")
    else:
        raise KeyError("else")
    finally:
        env.log.append("finally")


def case_context_of_an_exception_in_a_handler(x, env):
    y = env.y = x + 0.5
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")


def case_context_of_three(x, env):
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")
    except ValueError:
        raise TypeError("third")


def case_context_of_an_exception_in_finally(x, env):
    env.y = x * x
    try:
        raise KeyError("first")
    finally:
        raise ValueError("second")


def case_no_context_after_the_handler(x, env):
    try:
        raise KeyError("first")
    except KeyError:
        pass
    raise ValueError("second")


def case_from_sets_the_cause(x, env):
    try:
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("second") from error


def case_from_none_suppresses(x, env):
    env.y = x * 2
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second") from None


def case_from_class_makes_an_instance(x, env):
    raise ValueError("second") from KeyError


def case_from_no_exception(x, env):
    env.total = (x + 1).sum()
    raise ValueError("second") from 5


def case_from_evaluation_order(x, env):
    def make(kind):
        env.log.append(kind.__name__)
        return kind()

    raise make(ValueError) from make(KeyError)


def case_raise_class_calls_it(x, env):
    class Mine(Exception):
        def __init__(self):
            env.log.append("made")
            super().__init__("from init")

    raise Mine


def case_raise_class_whose_call_gives_no_exception(x, env):
    env.x = x - 1

    class Mine(Exception):
        def __new__(cls):
            return 5

    raise Mine


def case_raise_class_that_cannot_be_called(x, env):
    class Mine(Exception):
        def __init__(self, needed):
            pass

    raise Mine


def case_raise_no_exception(x, env):
    y = env.y = x + 0.5
    raise 5


def case_raise_class_that_is_no_exception(x, env):
    raise int


def case_bare_raise_without_exception(x, env):
    raise


def case_bare_raise_in_handler(x, env):
    env.y = x * x
    try:
        env.items[9]
    except IndexError:
        env.log.append("seen")
        raise


def case_bare_raise_in_a_called_function(x, env):
    def again():
        raise

    try:
        env.table["k"]
    except KeyError:
        again()


def case_bare_raise_after_a_nested_handler(x, env):
    env.y = x * 2
    try:
        raise KeyError("outer")
    except KeyError:
        try:
            raise ValueError("inner")
        except ValueError:
            pass
        raise


def case_raise_same_object_again_adds_lines(x, env):
    error = ValueError("kept")
    for _ in range(2):
        try:
            raise error
        except ValueError:
            pass
    raise error


def case_raise_itself_in_its_handler_has_no_context(x, env):
    try:
        raise ValueError("one")
    except ValueError as error:
        raise error


def case_cycle_of_contexts_is_cut(x, env):
    env.total = (x + 1).sum()
    a, b = ValueError("a"), KeyError("b")
    try:
        try:
            raise a
        except ValueError:
            raise b
    except KeyError:
        raise a


def case_context_is_kept_when_set_by_hand(x, env):
    error = ValueError("v")
    error.__context__ = KeyError("by hand")
    raise error


def case_context_through_calls(x, env):
    env.x = x - 1

    def fails():
        raise KeyError("deep")

    def handles():
        try:
            fails()
        except KeyError:
            return recover()

    def recover():
        raise ValueError("while handling")

    handles()


def case_context_from_a_generator(x, env):
    def generate():
        try:
            yield 1
        except KeyError:
            raise ValueError("in generator")

    g = generate()
    next(g)
    try:
        raise TypeError("outer")
    except TypeError:
        g.throw(KeyError("thrown"))


def case_traceback_through_functions(x, env):
    def inner(value):
        return value + "text"

    def outer(value):
        return inner(value)

    return outer(1)


def case_traceback_through_lambda_and_comprehension(x, env):
    y = env.y = x + 0.5
    return [(lambda v: 1 // v)(v) for v in (1, 0)]


def case_notes(x, env):
    error = ValueError("v")
    error.add_note("first")
    error.add_note("second")
    raise error


def case_note_that_is_no_text(x, env):
    env.y = x * x
    ValueError("v").add_note(5)


def case_with_traceback_none(x, env):
    try:
        env.items[9]
    except IndexError as error:
        raise error.with_traceback(None)


def case_exception_stored_in_the_environment(x, env):
    try:
        y = x + 1
        y[9]
    except IndexError as error:
        env.log.append(type(error).__name__)
        env.kept = str(error)
    return y


def case_assert_with_message(x, env):
    assert env.count, f"count is {env.count}"


def case_assert_without_message(x, env):
    env.y = x * 2
    assert env.count == 0
    assert not env.items


def case_assert_message_is_evaluated_only_on_failure(x, env):
    assert env.items, env.log.append("never")
    assert env.table, env.log.append("made")


def case_assert_message_of_a_tuple(x, env):
    assert env.table, (1, x.shape)


def case_exception_with_attributes(x, env):
    env.total = (x + 1).sum()

    class Mine(Exception):
        def __init__(self, code, **extra):
            super().__init__(code)
            self.code = code
            self.extra = extra

    raise Mine(3, items=env.items)


def case_exception_equality_of_subclass_check(x, env):
    class Meta(type):
        def __instancecheck__(cls, instance):
            return True

        def __subclasscheck__(cls, subclass):
            return True

    class Everything(Exception, metaclass=Meta):
        pass

    try:
        raise KeyError("k")
    except Everything:
        return "by metaclass"
    except KeyError:
        return "by bases"


def case_system_exit_is_no_exception(x, env):
    try:
        raise SystemExit(3)
    except Exception:
        return "caught"


def case_keyboard_interrupt_is_caught_by_base(x, env):
    env.x = x - 1
    try:
        raise KeyboardInterrupt
    except BaseException as error:
        return repr(error)


def case_try_in_a_loop(x, env):
    for key in ("a", "b", 0):
        try:
            env.log.append(env.nested[key])
        except KeyError as error:
            env.log.append(error.args)
            continue
        env.log.append("next")
    return x * len(env.log)


def case_deep_nesting_unwinds_in_order(x, env):
    try:
        try:
            try:
                raise KeyError("k")
            finally:
                env.log.append(1)
        except IndexError:
            env.log.append("wrong")
        finally:
            env.log.append(2)
    except KeyError:
        env.log.append(3)
    return env.log


def case_division_and_overflow_texts(x, env):
    for attempt in (
        lambda: 1 / 0,
        lambda: 1 % 0,
        lambda: 1.0 // 0,
        lambda: 2.0**5000,
        lambda: divmod(1, 0),
        lambda: 0**-1,
    ):
        try:
            attempt()
        except ArithmeticError as error:
            env.log.append(repr(error))
    return env.log, (x + 1).sum()
