"""Exceptions and context managers."""

from __future__ import annotations

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import lookup


@operation("PUSH_EXC_INFO")
def push_exc_info(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins to handle the exception on top of the stack."""
    stack = frame.stack
    error = stack[-1]
    stack[-1:] = [interpreter.handled.error, error]
    interpreter.handled.error = error


@operation("POP_EXCEPT")
def pop_except(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Ends the handling of an exception."""
    interpreter.handled.error = frame.stack.pop()


@operation("CHECK_EXC_MATCH")
def check_exc_match(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Whether the exception below is of the classes on top, which are replaced by the answer."""
    stack = frame.stack
    classes = stack[-1] if isinstance(stack[-1], tuple) else (stack[-1],)
    for cls in classes:
        if not (isinstance(cls, type) and BaseException in cls.__mro__):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    stack[-1] = any(cls in type(stack[-2]).__mro__ for cls in classes)


@operation("CHECK_EG_MATCH")
def check_eg_match(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Splits the exception below by the classes on top: what is left over, and what matches, or None."""
    stack = frame.stack
    error, classes = stack[-2], stack[-1]
    for cls in classes if isinstance(classes, tuple) else (classes,):
        if not (isinstance(cls, type) and BaseException in cls.__mro__):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        if issubclass(cls, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if error is None:
        match, rest = None, None
    elif isinstance(error, classes):
        match, rest = error, None
        if not isinstance(error, BaseExceptionGroup):
            match = ExceptionGroup("", [error]) if isinstance(error, Exception) else BaseExceptionGroup("", [error])
            match.__traceback__ = error.__traceback__
    elif isinstance(error, BaseExceptionGroup):
        match, rest = error.split(classes)
    else:
        match, rest = None, error
    if match is not None:
        interpreter.handled.error = match
    stack[-2:] = [rest, match]


@operation("RERAISE")
def reraise(interpreter: Interpreter, frame: Frame, origin: int) -> None:
    """Raises the exception on top again, without another entry in its traceback."""
    error = frame.stack.pop()
    interpreter.reraises = True
    interpreter.origin = frame.stack[-origin] if origin else None
    raise error


@operation("RAISE_VARARGS")
def raise_varargs(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """The statement `raise`, of nothing, an exception, or an exception and its cause."""
    if not count:
        error = interpreter.current_error()
        if error is None:
            raise RuntimeError("No active exception to reraise")
        interpreter.reraises = True
        raise error
    parts = frame.stack[-count:]
    error = _instance(interpreter, parts[0], "exceptions must derive from BaseException")
    if count > 1:
        cause = parts[1]
        if cause is not None:
            cause = _instance(interpreter, cause, "exception causes must derive from BaseException")
        error.__cause__ = cause
    if interpreter.current_error() not in (None, error):
        error.__context__ = None
    raise error


def _instance(interpreter: Interpreter, value: object, refusal: str) -> BaseException:
    if isinstance(value, BaseException):
        return value
    if not (isinstance(value, type) and issubclass(value, BaseException)):
        raise TypeError(refusal)
    made = interpreter.call(value, ())
    if not isinstance(made, BaseException):
        text = f"calling {value!r} should have returned an instance of BaseException, not {type(made)}"
        raise TypeError(text)
    return made


@operation("PREP_RERAISE_STAR")
def prep_reraise_star(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """What `except*` clauses have left to raise, or None."""
    raised = frame.stack.pop()
    frame.stack[-1] = prepare_reraise(frame.stack[-1], raised)


def prepare_reraise(original: object, raised: list[BaseException | None]) -> object:
    """The exception to raise after `except*` clauses: what no clause matched, and what clauses raised."""
    errors = [error for error in raised if error is not None]
    if not errors:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return errors[0]
    again = [error for error in errors if _is_part(error, original)]
    new = [error for error in errors if not _is_part(error, original)]
    left = None
    if again:
        kept = {id(leaf) for error in again for leaf in _leaves(error)}
        left = original.split(lambda leaf: id(leaf) in kept)[0]
    if not new:
        return left
    if left is not None:
        new.append(left)
    if len(new) == 1:
        return new[0]
    plain = [error for error in new if isinstance(error, Exception)]
    return ExceptionGroup("", plain) if len(plain) == len(new) else BaseExceptionGroup("", new)


def _is_part(error: BaseException, original: BaseExceptionGroup[BaseException]) -> bool:
    """Whether an exception is a part that `split` gave of the original one."""
    return (
        getattr(error, "__notes__", None) is getattr(original, "__notes__", None)
        and error.__cause__ is original.__cause__
        and error.__context__ is original.__context__
        and error.__traceback__ is original.__traceback__
    )


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


def _special(interpreter: Interpreter, owner: object, name: str) -> object:
    """A method that the protocol looks up on the class, bound; MISSING if there is none."""
    cls = type(owner)
    method = lookup(cls, name)
    if method is MISSING:
        return MISSING
    bind = getattr(type(method), "__get__", None)
    return method if bind is None else bind(method, owner, cls)


def _enter(interpreter: Interpreter, frame: Frame, names: tuple[str, str], protocol: str) -> bool:
    manager = frame.stack[-1]
    kind = type(manager).__name__
    enter = _special(interpreter, manager, names[0])
    if enter is MISSING:
        raise TypeError(f"'{kind}' object does not support the {protocol} protocol")
    leave = _special(interpreter, manager, names[1])
    if leave is MISSING:
        raise TypeError(f"'{kind}' object does not support the {protocol} protocol (missed {names[1]} method)")
    frame.stack[-1] = leave
    return interpreter.invoke(enter, (), {})


@operation("BEFORE_WITH")
def before_with(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Enters a context manager, whose `__exit__` stays on the stack."""
    return _enter(interpreter, frame, ("__enter__", "__exit__"), "context manager")


@operation("BEFORE_ASYNC_WITH")
def before_async_with(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Enters an asynchronous context manager."""
    return _enter(interpreter, frame, ("__aenter__", "__aexit__"), "asynchronous context manager")


@operation("WITH_EXCEPT_START")
def with_except_start(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Calls `__exit__` with the exception on top, and pushes what it returns."""
    error = frame.stack[-1]
    leave = frame.stack[-4]
    return interpreter.invoke(leave, (type(error), error, error.__traceback__), {})
