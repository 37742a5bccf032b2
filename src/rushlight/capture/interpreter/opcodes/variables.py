"""Variables: locals, cells, globals, the names of class bodies; and the stack itself."""

from __future__ import annotations

from collections.abc import MutableMapping

from rushlight.capture.code.instructions import NULL_FIRST
from rushlight.capture.interpreter.binding import make_cells
from rushlight.capture.interpreter.frame import NULL, UNBOUND, Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import delete_item, item_of, store_item


@operation("NOP", "RESUME", "CACHE", "EXTENDED_ARG", "SETUP_FINALLY", "PRECALL", "COPY_FREE_VARS")
def nothing(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Does nothing. A frame has the cells of its closure from the beginning (`take_closure`)."""


@operation("POP_TOP", "END_FOR")
def pop_top(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Drops the top of the stack."""
    frame.stack.pop()


@operation("PUSH_NULL")
def push_null(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes what says that a call has no `self`."""
    frame.stack.append(NULL)


@operation("COPY")
def copy(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Pushes a value of the stack once more."""
    frame.stack.append(frame.stack[-depth])


@operation("SWAP")
def swap(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Exchanges the top of the stack with another value of it."""
    stack = frame.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@operation("LOAD_CONST")
def load_const(interpreter: Interpreter, frame: Frame, constant: object) -> None:
    """Pushes a constant."""
    frame.stack.append(constant)


@operation("LOAD_FAST")
def load_fast(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes a local variable."""
    value = frame.locals[index]
    if value is UNBOUND:
        raise _unbound_local(frame, index)
    frame.stack.append(value)


def _unbound_local(frame: Frame, index: int) -> UnboundLocalError:
    name = frame.body.code.locals[index]
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    return UnboundLocalError(text)


@operation("LOAD_FAST_LOAD_FAST")
def load_fast_load_fast(interpreter: Interpreter, frame: Frame, pair: tuple[int, int]) -> None:
    """Pushes two local variables."""
    for index in pair:
        load_fast(interpreter, frame, index)


@operation("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes a local variable, bound or not, and unbinds it."""
    frame.stack.append(frame.locals[index])
    frame.locals[index] = UNBOUND


@operation("STORE_FAST", "STORE_FAST_MAYBE_NULL")
def store_fast(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Binds a local variable."""
    frame.locals[index] = frame.stack.pop()


@operation("STORE_FAST_STORE_FAST")
def store_fast_store_fast(interpreter: Interpreter, frame: Frame, pair: tuple[int, int]) -> None:
    """Binds two local variables."""
    for index in pair:
        frame.locals[index] = frame.stack.pop()


@operation("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(interpreter: Interpreter, frame: Frame, pair: tuple[int, int]) -> None:
    """Binds a local variable and pushes another."""
    frame.locals[pair[0]] = frame.stack.pop()
    frame.stack.append(frame.locals[pair[1]])


@operation("DELETE_FAST")
def delete_fast(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Unbinds a local variable."""
    if frame.locals[index] is UNBOUND:
        raise _unbound_local(frame, index)
    frame.locals[index] = UNBOUND


@operation("MAKE_CELL")
def make_cell(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Makes a variable one that closures share."""
    make_cells(frame, index)


@operation("LOAD_CLOSURE")
def load_closure(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes a cell."""
    frame.stack.append(frame.locals[index])


@operation("LOAD_DEREF")
def load_deref(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes what a cell holds."""
    frame.stack.append(_contents(interpreter, frame, index))


def _contents(interpreter: Interpreter, frame: Frame, index: int) -> object:
    value = interpreter.contents(frame.locals[index])
    if value is UNBOUND:
        raise _unbound_cell(frame, index)
    return value


def _unbound_cell(frame: Frame, index: int) -> NameError:
    name = frame.body.code.locals[index]
    if name in frame.body.raw.co_freevars:
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        return NameError(text, name=name)
    return _unbound_local(frame, index)


@operation("STORE_DEREF")
def store_deref(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Puts a value into a cell."""
    value = frame.stack[-1]
    if not interpreter.binds(frame.locals[index], 0, value):
        frame.locals[index].cell_contents = value
    frame.stack.pop()


@operation("DELETE_DEREF")
def delete_deref(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Empties a cell."""
    _contents(interpreter, frame, index)
    if not interpreter.binds(frame.locals[index], 0, UNBOUND):
        del frame.locals[index].cell_contents


def _named(interpreter: Interpreter, names: MutableMapping[str, object], name: str) -> object:
    """What a class body's mapping has under a name, asked as CPython does; UNBOUND if nothing."""
    if type(names) is dict:
        return names.get(name, UNBOUND)
    try:
        return item_of(interpreter, names, name)
    except KeyError:
        return UNBOUND


@operation("LOAD_CLASSDEREF")
def load_classderef(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes a name of a class body, or else what a cell holds."""
    value = _named(interpreter, _names(frame), frame.body.code.locals[index])
    frame.stack.append(_contents(interpreter, frame, index) if value is UNBOUND else value)


@operation("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(interpreter: Interpreter, frame: Frame, index: int) -> None:
    """Pushes an entry of the mapping on the stack, or else what a cell holds."""
    value = _named(interpreter, frame.stack[-1], frame.body.code.locals[index])
    frame.stack[-1] = _contents(interpreter, frame, index) if value is UNBOUND else value


@operation("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Pushes an entry of the mapping on the stack, or else a global."""
    value = _named(interpreter, frame.stack[-1], name)
    frame.stack[-1] = _global(interpreter, frame, name) if value is UNBOUND else value


@operation("LOAD_LOCALS")
def load_locals(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes the names of a class body."""
    frame.stack.append(_names(frame))


def _names(frame: Frame) -> MutableMapping[str, object]:
    if frame.names is None:
        raise SystemError("no locals")
    return frame.names


@operation("LOAD_NAME")
def load_name(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Pushes a name of a class body, a global, or a builtin."""
    value = _named(interpreter, _names(frame), name)
    frame.stack.append(_global(interpreter, frame, name) if value is UNBOUND else value)


@operation("STORE_NAME")
def store_name(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Binds a name of a class body."""
    names = _names(frame)
    if type(names) is dict:
        value = frame.stack[-1]
        if names is not frame.globals:
            interpreter.replaces(names, name, value)
            names[name] = value
        elif not interpreter.binds(names, name, value):
            names[name] = value
    else:
        store_item(interpreter, names, name, frame.stack[-1])
    frame.stack.pop()


@operation("DELETE_NAME")
def delete_name(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Unbinds a name of a class body."""
    names = _names(frame)
    try:
        if type(names) is dict:
            if name in names and not (names is frame.globals and interpreter.binds(names, name, UNBOUND)):
                interpreter.writes(names)
                del names[name]
            elif name not in names:
                raise KeyError(name)
        else:
            delete_item(interpreter, names, name)
    except KeyError:
        raise _unknown(name) from None


def _unknown(name: str) -> NameError:
    return NameError(f"name '{name}' is not defined", name=name)


def _global(interpreter: Interpreter, frame: Frame, name: str) -> object:
    value = frame.globals.get(name, UNBOUND)
    if value is not UNBOUND:
        interpreter.reads(frame.globals, name, value)
        return value
    interpreter.lacks(frame.globals, name)
    value = frame.builtins.get(name, UNBOUND)
    if value is UNBOUND:
        raise _unknown(name)
    return value


@operation("LOAD_GLOBAL")
def load_global(interpreter: Interpreter, frame: Frame, operand: tuple[str, bool]) -> None:
    """Pushes a global or a builtin, for a call with a null."""
    name, with_null = operand
    value = _global(interpreter, frame, name)
    if with_null:
        frame.stack += (NULL, value) if NULL_FIRST else (value, NULL)
    else:
        frame.stack.append(value)


@operation("STORE_GLOBAL")
def store_global(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Binds a global."""
    if not interpreter.binds(frame.globals, name, frame.stack[-1]):
        frame.globals[name] = frame.stack[-1]
    frame.stack.pop()


@operation("DELETE_GLOBAL")
def delete_global(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Unbinds a global."""
    if name not in frame.globals:
        raise _unknown(name)
    if not interpreter.binds(frame.globals, name, UNBOUND):
        del frame.globals[name]
