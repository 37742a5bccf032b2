"""Where a graph ends before its function does, and why: a registry of kinds, from which a page is generated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from rushlight.support import settings
from rushlight.support.errors import DataDependentError, InternalError, RushlightError
from rushlight.support.frozen import frozen

INLINED = "__rushlight_traced__"  # of what `rl.compile` returns: the function or module that a trace calls in its place
PROMISE = "__rushlight_promise__"  # of it: what its caller was promised, one of these, or nothing
ONE_GRAPH, OWN_GRAPHS = "one graph", "graphs of its own"
OF_BACKEND = "__rushlight_backend__"  # of an error that a backend of the user's has raised
APART = "__rushlight_disabled__"  # of a function that is kept out of graphs: the function as it was


@frozen(eq=False)
class BreakKind:
    """One kind of break: a code, a title, when it happens and why, and what would avoid it."""

    code: str
    title: str
    explanation: str
    hint: str

    def __repr__(self) -> str:
        return f"{self.code}: {self.title}"


_kinds: dict[str, BreakKind] = {}
KINDS: Mapping[str, BreakKind] = MappingProxyType(_kinds)


def _register(code: str, title: str, explanation: str, hint: str) -> BreakKind:
    if code in _kinds:
        raise ValueError(f"the code of a break {code!r} is registered twice")
    return _kinds.setdefault(code, BreakKind(code, title, explanation, hint))


VALUE = _register(
    "B001",
    "The value of a tensor is asked for",
    "While a graph is traced tensors have no values: a branch, `bool(x)`, `float(x)`, `x.item()`, `x.numpy()`, or a"
    " text with a tensor in it needs one. The graph up to there runs first, and Python goes on with its result.",
    "choose with rl.where or rl.cond, keep numbers as tensors, or read the value once, at the end",
)
CALL = _register(
    "B002",
    "A function is called that may have effects",
    "`print`, `open`, `input`, clocks, random numbers of Python's, and functions written in C that are not known to"
    " be without effects happen at each call, as Python has them. A graph would have them happen once.",
    "call it before or after the computation, or leave it out where rl.compiler.is_compiling()",
)
OUTSIDE = _register(
    "B003",
    "An object changes that was there before the call",
    "A graph writes tensors, numbers and texts to attributes, variables and dicts. Python carries out, in order with"
    " everything else, a change of a list, a set or a class, and a write of an object that the graph has made.",
    "return the new value instead, or write once, at the end",
)
ARGUMENT = _register(
    "B004",
    "A container among the arguments is given a new object",
    "A list or dict of the arguments gets an object that the graph has made and that is no tensor or number.",
    "return the object instead",
)
PASSED_BY = _register(
    "B005",
    "An object is used that the graph passes by",
    "A graph reads the attributes of the program's own objects, and the cells of its functions. It does not look into"
    " iterators, files, objects with weak references or `__del__`, and objects of C that were there before it begins:"
    " it hands them on, and Python does what they are asked. So it does where such an object, or one of the program's,"
    " is given to C.",
    "take the tensors and numbers out of the object before the computation",
)
ITERATOR = _register(
    "B006",
    "An iterator goes on that was there before",
    "Its next value is an effect on an object of somebody else's, which happens at each call.",
    "take the values into a list first, or make the iterator inside of the function",
)
CALLED_BACK = _register(
    "B007",
    "C would call methods that are written in Python",
    "A builtin compares, hashes, counts or formats objects of a class with methods of its own, and what these do would"
    " be seen once, while the graph is traced. Methods of classes that the function makes itself are traced there.",
    "use plain numbers, texts and tuples as keys and operands there",
)
NATIVE = _register(
    "B008",
    "A function runs as it is",
    "A generator or coroutine function that is compiled itself gives an object that runs later, as Python has it."
    " Within a compiled function both are looked into.",
    "compile the functions that it calls",
)
CLASS = _register(
    "B009",
    "A class is made",
    "Each call makes the classes of its class statements. Python makes those that no statement could make so: of which"
    " slots were taken away, for which others were registered, or of which a metaclass orders the bases.",
    "define the class outside of the compiled function",
)
TENSOR_ATTRIBUTE = _register(
    "B010",
    "An attribute of a tensor is set",
    "A graph sets `grad`, `requires_grad` and `data`; other attributes are Python's.",
    "keep what belongs to a tensor in a variable or a dict beside it",
)
KEY = _register(
    "B011",
    "A tensor is the key of a dict or set",
    "Tensors are told apart by identity, and those that stand for arguments are others than those of the call."
    " Parameters can be keys, and so can arguments and what the graph computes, in dicts and sets that it makes.",
    "use a name or a number as the key",
)
IDENTITY = _register(
    "B012",
    "It is asked whether two objects are one",
    "Which objects are one may differ from call to call, for tensors of changing state, containers of the arguments,"
    " and objects that a graph passes by. The number that `id` gives can be looked up and compared with those of other"
    " objects; it is another one at each call.",
    "compare names or numbers instead of objects",
)
FINALIZER = _register(
    "B013",
    "An object is made, or dies, that does something at the end of its life",
    "A class with `__del__` runs code when the last reference goes, which is another moment in a graph than in Python."
    " So does a generator with `finally`: the graph goes on where that only computes, and ends before it where an"
    " object that the graph has made held the generator, or where the code cannot be part of a graph.",
    "make the object outside of the compiled function",
)
RAISED = _register(
    "B014",
    "An exception leaves the function",
    "No handler of the function takes it. Python raises it again, with the traceback that it has there.",
    "check the arguments before the computation",
)
SCOPE = _register(
    "B015",
    "A setting of autograd or dispatch changes",
    "`no_grad`, autocast, a default device or a dispatch mode would be on when the graph ends, or another than when it"
    " began.",
    "open and close the scope around the whole of the computation",
)
SUSPENDED = _register(
    "B016",
    "A constructor or generator has not ended where the graph would",
    "A graph ends where all running functions can be written down as they stand; a constructor, or a generator between"
    " two values, cannot.",
    "move what breaks the graph out of the constructor or generator",
)
UNBUILT = _register(
    "B017",
    "An object cannot be built anew",
    "What a graph makes of Python's objects is built again at each call: containers of plain keys, instances of the"
    " program's classes, closures, cells and iterators of containers. Other objects are made by Python.",
    "make tensors, numbers and plain containers in the computation, and other objects around it",
)
UNSUPPORTED = _register(
    "B018",
    "The compiler refuses the program",
    "An operator, an argument or a combination of writes is a registered error of compiling. Uncompiled it works.",
    "the code in the reason says what is refused and what to do; docs/errors.md has its section",
)
FAILED = _register(
    "B019",
    "Tracing fails",
    "An error came up while a graph was traced that the program does not have. Python runs this part.",
    "rl.compile(f, fullgraph=True) shows the whole error",
)
VARIABLES = _register(
    "B020",
    "An object's variables are replaced, or taken as a dict",
    "`x.__dict__ = {}` shares the dict with the object, and `vars(x)` of an object that was there before the call shows"
    " all that is later written to it.",
    "read and write the attributes by name",
)


DISABLED = _register(
    "B021",
    "The function is kept out of graphs",
    "It is decorated with `rl.compiler.disable`, is `rl.compiler.graph_break`, changes what later calls see, such as"
    " a seed, or is compiled by itself, with `specs` or `freeze`.",
    "take the decorator away, or call the function before or after the computation",
)


UNKEPT = _register(
    "B022",
    "A new tensor is more than its elements",
    "A tensor that a graph makes has elements, and a history that leads to what the graph was given. One that requires"
    " gradients by itself, keeps a gradient, has hooks, is a Parameter, or is `data` of another, is made by Python.",
    "make parameters and other leaves outside of the compiled function",
)


AUTOGRAD = _register(
    "B023",
    "It is asked what autograd keeps of a tensor",
    "The step of the tape that made a tensor, how often it was written to, and what it is a view of are what they are"
    " once the graph has run.",
    "look at gradients instead of the tape",
)


MODE = _register(
    "B024",
    "A mode of dispatch or of functions is on",
    "It sees each operator as it runs, which a graph would show it once: the function runs uncompiled.",
    "leave the mode around the compiled function",
)


GRAPHLESS = _register(
    "B025",
    "A function is called in which no graph was found",
    "An earlier call of it broke at eight places or more, and no graph with an operator was among them. Python calls"
    " such a function as it is, in its own time; what it computes with tensors runs operator by operator.",
    "compile what computes in it by itself, with a decorator",
)


RESTLESS = _register(
    "B026",
    "State is read that is another at each call",
    "Several graphs were made that no later call fits, because an object holds another list, dict or text each time, or"
    " a list another number of entries. Python reads it from then on.",
    "pass what changes as an argument, or keep the same list and assign to its slice",
)


LONG = _register(
    "B027",
    "A loop runs long without an operator",
    "Interpreting costs some microseconds a bytecode. Where as many as the setting `loop_budget` have run in a row"
    " without an operator, as where a table or a vocabulary is built, Python runs the loop that they are in, or the"
    " function that calls itself. So it does at later calls, at once; the next graph begins behind it. With"
    " fullgraph=True it is interpreted to its end.",
    "build tables once, outside of the compiled function",
)


WARNS = _register(
    "B028",
    "A warning is given",
    "Python carries out the call that gives it, so that the program's filters and records see the warning where it is"
    " given. Most are given once: the next call makes the graph again, without an end there. With fullgraph=True it is"
    " given while the graph is traced.",
    "do what the warning asks for",
)


UNPAID = _register(
    "B029",
    "The graphs of a function do not pay",
    "Call after call, more was interpreted between its graphs, or more graphs were made, than its graphs save: some"
    " 100,000 bytecodes in all, where a call in a graph counts as 20 and a graph that is made as 5,000. From then on"
    " Python calls the function as it is, except where one graph is all of a call. With fullgraph=True that does not"
    " happen.",
    "compile the functions that compute by themselves, or take away the other breaks that are told of",
)


LARGE = _register(
    "B030",
    "A large container is looked into",
    "A list, dict, set or their like of more than 1,000 entries without tensors, as a vocabulary or a table of data, is"
    " read by Python: a graph would compare what it read of it at each call. With fullgraph=True a graph does, which"
    " takes time for each entry when it is made.",
    "look up what the function needs outside, and pass it as an argument",
)


@frozen
class Reason:
    """Why a graph ends: the kind, and what it is here."""

    kind: BreakKind
    detail: str

    @staticmethod
    def of(error: Exception) -> Reason:
        """Why a graph ends where tracing raises an error. With the setting `strict_parts` B019 is the error itself."""
        text = str(error).partition("\n")[0]
        if isinstance(error, DataDependentError):
            return Reason(VALUE, text)
        if isinstance(error, RushlightError) and error.code == "C039":
            return Reason(DISABLED, text)
        if isinstance(error, RushlightError) and not isinstance(error, InternalError):
            return Reason(UNSUPPORTED, f"{error.code}, {text}")
        if settings.get().strict_parts:
            raise error
        return Reason(FAILED, f"{type(error).__name__}: {text}")

    def __str__(self) -> str:
        return f"{self.kind.code}: {self.detail}"


# Of edited stages, marks, `freeze`, specifications, and backends.
_ASKED_FOR = frozenset({"C009", "C011", "C015", "C016", "C021", "C022", "C037", "R001"})


def is_of_caller(error: Exception) -> bool:
    """Whether what the caller of `compile` asked for cannot be had, or fails: then no other way to run is taken."""
    return getattr(error, "code", None) in _ASKED_FOR or hasattr(error, OF_BACKEND)


class Break(BaseException):
    """Ends a trace in front of the instruction that raises it, which has done nothing yet."""

    def __init__(self, kind: BreakKind, detail: str) -> None:
        super().__init__(kind.code, detail)
        self.reason = Reason(kind, detail)


NOT_NOW = -1  # the limit of a trace that may not be made


class Retrace(BaseException):
    """Asks for the trace again, which is to end after so many instructions."""

    def __init__(self, limit: int, reason: Reason) -> None:
        super().__init__(limit, reason)
        self.limit = limit
        self.reason = reason


def end_before(moment: int, reason: str) -> NoReturn:
    """Asks for a trace that ends before a tensor becomes what no graph gives. See `Recorder.ends`."""
    raise Retrace(moment, Reason(UNKEPT, reason))
