"""The bytecode interpreter beyond single programs: the user's line, what programs see of frames, opcodes."""

import inspect
import opcode
import sys
import textwrap
import types

import pytest

import rushlight as rl
from rushlight.capture.code.instructions import RENAMED
from rushlight.capture.interpreter import interpret
from rushlight.capture.interpreter.operations import OPERATIONS
from rushlight.support import provenance


def inner(x):
    return provenance.user_frames(3), x


def outer(x):
    return inner(x)  # the second line


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def test_the_users_frames_are_the_interpreted_ones():
    frames, _ = interpret(outer, (1,))
    here = inspect.currentframe()
    assert [(frame.function, frame.line) for frame in frames] == [
        ("inner", line_of(inner, 1)),
        ("outer", line_of(outer, 1)),
        (here.f_code.co_name, here.f_code.co_firstlineno + 1),
    ]
    assert frames[:2] == outer(1)[0][:2]
    assert interpret(asks_for_one) == asks_for_one()


def asks_for_one():
    return provenance.user_frame()


def test_frames_of_a_loop_inside_of_a_loop_come_once():
    def key(value):
        names.append([frame.function for frame in provenance.user_frames(4)])
        return value

    def sorts():
        return sorted([2, 1], key=key)

    names = []
    assert interpret(sorts) == [1, 2]
    assert names == [["key", "sorts", "test_frames_of_a_loop_inside_of_a_loop_come_once", names[0][3]]] * 2
    names_interpreted, names = names, []
    assert sorts() == [1, 2]
    assert [entry[:3] for entry in names] == [entry[:3] for entry in names_interpreted]


def test_a_stack_asked_again_shows_interpreted_frames():
    def asks(stack):
        return stack.frames()

    def begins():
        stack = provenance.Stack(8)
        return asks(stack)

    names = [frame.function for frame in interpret(begins)]
    assert names[:3] == ["asks", "begins", "test_a_stack_asked_again_shows_interpreted_frames"]
    assert names[:2] == [frame.function for frame in begins()][:2]


def test_errors_name_the_interpreted_line():
    def fails(x):
        y = x + 1
        return y[9]

    with pytest.raises(IndexError) as native:
        fails(rl.ones(4))
    with pytest.raises(IndexError) as interpreted:
        interpret(fails, (rl.ones(4),))
    assert str(interpreted.value) == str(native.value)
    assert f"test_interpreter.py:{line_of(fails, 2)} in fails" in str(native.value)


def test_no_loop_stays_entered():
    def fails():
        raise ValueError

    with pytest.raises(ValueError):
        interpret(fails)
    assert provenance.loops() == []


def test_programs_see_frames_as_pythons():
    def shows():
        frame = sys._getframe()
        return (
            frame.f_code, frame.f_lineno, frame.f_globals is globals(), frame.f_builtins, sorted(frame.f_locals),
            frame.f_back.f_code.co_name, frame.f_lasti > 0,
        )  # fmt: skip

    def calls():
        return shows()

    assert interpret(calls) == calls()


def test_generators_show_their_state():
    def states():
        def g():
            yield made.gi_running, made.gi_suspended
            yield from [1]

        made = g()
        found = [made.gi_suspended, next(made), made.gi_suspended, next(made)]
        found += [type(made.gi_yieldfrom).__name__, made.gi_frame.f_lineno, type(made) is types.GeneratorType]
        found += [list(made), made.gi_frame, made.gi_suspended, isinstance(made, types.GeneratorType)]
        return found

    assert interpret(states) == states()


# Opcodes that are no instruction of a function or of a class body.
NEVER_IN_FUNCTIONS = {"PRINT_EXPR", "IMPORT_STAR"}  # of statements of a module
INTERNAL = {"KW_NAMES", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK"}  # the decoder's and CPython's own


@pytest.mark.row("11.8")
def test_every_opcode_of_this_python_has_an_operation():
    real = {name for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    meant = {RENAMED.get(name, name) for name in real - NEVER_IN_FUNCTIONS - INTERNAL}
    assert sorted(meant - set(OPERATIONS)) == []


GENERIC = """
def generic_function():
    def first[T, *Ts, **P](x: T, *rest: *Ts) -> T:
        return x
    t, ts, p = first.__type_params__
    return first(3), [str(part) for part in (t, ts, p)], t.__module__, t.__bound__, t.__infer_variance__

def bounds_are_lazy():
    log = []
    def bound():
        log.append(1)
        return int
    def of_bound[T: bound(), U: (int, bound())]():
        return T, U
    t, u = of_bound()
    before = list(log)
    return before, t.__bound__, u.__constraints__, u.__bound__, log

def generic_class():
    class Box[T]:
        item: T
        def get(self) -> T:
            return self.__class__.__name__, T.__name__
        def put[U](self, other: U) -> tuple[T, U]:
            return other
    return Box().get(), Box[int]().put(2), [str(base) for base in Box.__orig_bases__], str(Box.__parameters__)

def generic_class_of_several():
    class Of[T, *Ts](dict[str, T]):
        kind = T
        pair = [T for _ in range(2)]
    return str(Of.__orig_bases__), Of.kind is Of.__type_params__[0], len(Of.pair), Of(a=1)["a"]

def aliases():
    type Tree[T] = dict[str, Tree[T]] | T
    type Plain = list[Later]
    Later = int
    return str(Tree.__value__), str(Tree.__type_params__), Tree.__name__, Plain.__value__, Plain.__module__

def default_arguments():
    def f[T](a=1, *, b=2):
        return a, b, T.__name__
    return f(), f(3, b=4), f.__defaults__, f.__kwdefaults__
"""
DEFAULTS = """
def default_types():
    def f[T = int, *Ts = *tuple[int, str], **P = [int]]():
        return T, Ts, P
    return [str(part.__default__) for part in f()]
"""


def test_type_parameters_do_what_python_does():
    texts = GENERIC * (sys.version_info >= (3, 12)) + DEFAULTS * (sys.version_info >= (3, 13))
    space = {"__name__": __name__}
    exec(textwrap.dedent(texts), space)
    functions = [value for value in space.values() if isinstance(value, types.FunctionType)]
    assert len(functions) == texts.count("\ndef ")
    for function in functions:
        assert interpret(function) == function(), function.__name__
