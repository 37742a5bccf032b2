"""Outcomes of programs as lines of text: what they return or raise, print, and change, with all identities.

`outcome(native, program)` runs a program on a fresh tensor and a fresh environment. An object that appears again in
result, exception or environment is a reference to where it came first, so two outcomes are equal where the same objects
are the same, and `differences` names what is not. Describing an object runs none of its own code.
"""

import contextlib
import functools
import inspect
import io
import struct
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import rushlight as rl

FOLDER = str(Path(__file__).parent)
_HEAP_TYPE = 1 << 9
# What Python itself puts into a class: weak references, caches (`__slotnames__` is that of copyreg, made by the first
# copy of an object, which may have been one of another program), and sets as tuples in an order that varies.
_CLASS_MACHINERY = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__conditional_annotations__",
    "__dict__", "__doc__", "__firstlineno__", "__module__", "__slotnames__", "__static_attributes__", "__weakref__",
    "_abc_impl",
}  # fmt: skip

Program = Callable[[rl.Tensor, types.SimpleNamespace], object]
Part = tuple[str, object]
Parts = Iterator[Part]
Line = tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """What a program did: its result or exception, then its environment, which refers to objects in these."""

    result: tuple[Line, ...]
    exception: tuple[Line, ...]
    stdout: str
    env: tuple[Line, ...]


def native(function: Callable, args: tuple, kwargs: dict) -> object:
    """Run a function as Python does."""
    return function(*args, **kwargs)


def outcome(run: Callable[[Callable, tuple, dict], object], program: Program) -> Outcome:
    """Run `program` by `run(function, args, kwargs)` and describe what happened."""
    x = rl.tensor([1.0, 2.0, 3.0, 4.0])
    env = types.SimpleNamespace(log=[], table={}, count=0, items=[1, 2, 3], nested={"a": [1, 2]}, x=x)
    description, output = Description(), io.StringIO()
    result = exception = ()
    with contextlib.redirect_stdout(output):
        try:
            value = run(program, (x, env), {})
        except BaseException as error:
            exception = description.of("raised", error)
        else:
            result = description.of("result", value)
    return Outcome(result, exception, output.getvalue(), description.of("env", env))


def differences(expected: Outcome, got: Outcome) -> list[str]:
    """Return in what two outcomes differ: what is expected and what came, then what is only in one of them.

    Of what is only in one, the parts are left out.
    """
    before, after = _by_path(expected), _by_path(got)
    changed = [
        f"{path}: {before[path]}, but {after[path]}" for path in before if after.get(path, before[path]) != before[path]
    ]
    only = [*_roots("-", before, after), *_roots("+", after, before)]
    if not changed and not only and list(before) != list(after):
        return [f"the order: {' '.join(before)}, but {' '.join(after)}"]
    return changed + only


def _by_path(found: Outcome) -> dict[str, str]:
    described = [*found.result, *found.exception, *found.env]
    paths = dict(described)
    assert len(paths) == len(described), "two parts of one path"
    return paths | {"stdout": repr(found.stdout)}


def _roots(sign: str, paths: dict[str, str], others: dict[str, str]) -> Iterator[str]:
    root = None
    for path, what in paths.items():
        if path not in others and (root is None or not path.startswith(root)):
            root = path
            yield f"{sign} {path} {what}"


class Description:
    """Pairs of a path and what is there; `is path` for an object that was described before, under another path."""

    def __init__(self):
        self.paths: dict[int, str] = {}
        self.kept: list[object] = []
        self.lines: list[Line] = []

    def of(self, path: str, value: object) -> tuple[Line, ...]:
        """Describe one more object, with references to those before."""
        start = len(self.lines)
        self._add(path, value)
        return tuple(self.lines[start:])

    def _add(self, path: str, value: object) -> None:
        text = atom(value)
        if text is not None:
            self.lines.append((path, text))
        elif id(value) in self.paths:
            self.lines.append((path, f"is {self.paths[id(value)]}"))
        else:
            self.kept.append(value)  # so that no other object gets its id
            self.paths[id(value)] = path
            self.lines.append((path, type_name(type(value))))
            for suffix, part in parts(value):
                self._add(path + suffix, part)


class Text(str):
    """A description that is no value of the program."""

    __slots__ = ()


def atom(value: object) -> str | None:
    """Return the text of a value whose identity means nothing, or None."""
    kind = type(value)
    if kind is Text:
        return str.__str__(value)
    if kind is float:
        return "nan" if value != value else f"{value!r} ({struct.pack('>d', value).hex()})"
    if kind is complex:
        return f"complex {atom(value.real)} {atom(value.imag)}"
    if kind in (int, bool, str, bytes, range, type(None), type(...), type(NotImplemented)):
        return repr(value)
    if kind is tuple and not value:
        return "()"
    if kind is types.ModuleType:
        return f"module {value.__name__}"
    if is_class(value) and not is_local(value):
        return f"class {type_name(value)}"
    if kind is types.FunctionType and "<locals>" not in value.__qualname__ and not of_programs(value.__code__):
        return f"function {value.__module__}.{value.__qualname__}"
    return None


def is_class(value: object) -> bool:
    """Whether an object is a class, whatever it says of itself."""
    return type in mro(type(value))


def of_programs(code: types.CodeType) -> bool:
    """Whether code stands in a file of programs."""
    return code.co_filename.startswith(FOLDER) and code.co_filename != __file__


def namespace(kind: type) -> dict[str, object]:
    """Return the attributes in a class itself, whatever its metaclass says."""
    return type.__dict__["__dict__"].__get__(kind)


def mro(kind: type) -> tuple[type, ...]:
    """Return the order of resolution of a class, whatever its metaclass says."""
    return type.__dict__["__mro__"].__get__(kind)


def type_name(kind: type) -> str:
    """Return the qualified name of a class; that of a class made by a program begins with the program's function."""
    module, name = namespace(kind).get("__module__"), type.__dict__["__qualname__"].__get__(kind)
    library = isinstance(module, str) and not module.startswith("tests.")
    return f"{module}.{name}" if library else name


def is_local(kind: type) -> bool:
    """Whether a function made this class, so that another call makes another one."""
    return "<locals>" in type_name(kind) or str(namespace(kind).get("__module__")).startswith("tests.")


def parts(value: object) -> Parts:
    """Yield what an object consists of: contents by its types, then its class, attributes and slots."""
    kinds = mro(type(value))
    if rl.Tensor in kinds:  # its attributes are the framework's
        yield from _tensor(value)
        return
    known = [RULES[kind] for kind in kinds if kind in RULES]
    for rule in known:
        yield from rule(value)
    if is_local(type(value)):
        yield ".__class__", type(value)
    attributes = {} if is_class(value) else _attributes(value)
    yield from ((_member(name), part) for name, part in attributes.items())
    yield from _slots(value, kinds)
    if (
        not known
        and not attributes
        and not any(_is_heap(kind) for kind in kinds)
        and type(value).__module__ != "itertools"
    ):
        yield from _reduced(value)


def _member(name: object) -> str:
    return f".{name}" if isinstance(name, str) and name.isidentifier() else f".<{name!r}>"


def _attributes(value: object) -> dict[str, object]:
    for kind in mro(type(value)):
        getter = namespace(kind).get("__dict__")
        if isinstance(getter, types.GetSetDescriptorType | types.MemberDescriptorType):
            return getter.__get__(value)
    return {}


def _is_heap(kind: type) -> bool:
    return bool(type.__dict__["__flags__"].__get__(kind) & _HEAP_TYPE)


def _slots(value: object, kinds: tuple[type, ...]) -> Parts:
    for kind in kinds:
        described = kind in RULES or not _is_heap(kind)
        for name, member in () if described else namespace(kind).items():
            if isinstance(member, types.MemberDescriptorType) and not name.startswith("__"):
                try:
                    yield f".{name}", member.__get__(value)
                except AttributeError:
                    yield f".{name}", Text("unset")


def _reduced(value: object) -> Parts:
    try:
        reduced = value.__reduce_ex__(2)
    except TypeError:
        return
    if isinstance(reduced, tuple):
        yield from ((f".reduced[{place}]", part) for place, part in enumerate(reduced[1:]) if part is not None)


def _sequence(kind: type) -> Callable[[object], Parts]:
    return lambda value: ((f"[{place}]", part) for place, part in enumerate(kind.__iter__(value)))


def _members(*names: str) -> Callable[[object], Parts]:
    return lambda value: ((f".{name}", getattr(value, name)) for name in names)


def _text(make: Callable[[object], object]) -> Callable[[object], Parts]:
    return lambda value: iter([(".text", Text(make(value)))])


def _dict(value: dict) -> Parts:
    for place, (key, part) in enumerate(dict.items(value)):
        text = atom(key)
        if text is None:
            yield f".key{place}", key
        yield f"[{text or f'key{place}'}]", part


def _set(value: set | frozenset) -> Parts:
    inside = list((set if set in mro(type(value)) else frozenset).__iter__(value))
    if all(atom(part) is not None for part in inside):
        inside.sort(key=atom)
    yield from ((f"{{{place}}}", part) for place, part in enumerate(inside))


def _function(value: types.FunctionType) -> Parts:
    code = value.__code__
    yield ".code", Text(f"{value.__qualname__} as {value.__name__}, {code.co_name} at line {code.co_firstlineno}")
    yield ".__defaults__", value.__defaults__
    yield ".__kwdefaults__", value.__kwdefaults__
    for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
        yield f".cell {name}", cell


def _cell(value: types.CellType) -> Parts:
    try:
        yield ".contents", value.cell_contents
    except ValueError:
        yield ".contents", Text("empty")


def _builtin(value: types.BuiltinFunctionType) -> Parts:
    yield ".name", Text(value.__qualname__)
    if not isinstance(value.__self__, types.ModuleType | type(None)):
        yield ".__self__", value.__self__


def _class(value: type) -> Parts:
    yield ".__bases__", type.__dict__["__bases__"].__get__(value)
    yield ".__metaclass__", type(value)
    yield ".name", Text(type.__dict__["__name__"].__get__(value))
    for name, part in namespace(value).items():
        if name not in _CLASS_MACHINERY:
            yield f".{name}", part


def _exception(value: BaseException) -> Parts:
    yield ".args", value.args
    yield ".__traceback__", Text(" ".join(traceback_lines(value.__traceback__)))
    yield ".__cause__", value.__cause__
    yield ".__context__", value.__context__
    yield ".__suppress_context__", value.__suppress_context__


def traceback_lines(entry: types.TracebackType | None) -> Iterator[str]:
    """Yield `function:line` for each entry of a traceback that is in a file of programs."""
    while entry is not None:
        code = entry.tb_frame.f_code
        if of_programs(code):
            yield f"{code.co_qualname}:{entry.tb_lineno}"
        entry = entry.tb_next


def _suspended(state: Callable[[object], str], prefix: str) -> Callable[[object], Parts]:
    def describe(value: object) -> Parts:
        yield ".name", Text(f"{value.__qualname__} as {value.__name__}")
        yield ".state", Text(state(value))
        frame = getattr(value, f"{prefix}_frame")
        yield ".line", Text(frame.f_lineno if frame else "no frame")
        yield from ((f".local {name}", part) for name, part in (frame.f_locals.items() if frame else ()))

    return describe


def _tensor(value: rl.Tensor) -> Parts:
    yield ".type", Text(f"{value.dtype} {tuple(value.shape)} requires_grad={value.requires_grad}")
    yield ".bits", Text(f"{value.tolist()} {value.detach().cpu().numpy().tobytes().hex()}")


# What the objects of a type consist of, beyond attributes and slots. A subclass has the parts of its bases too.
RULES: dict[type, Callable[[object], Parts]] = {
    list: _sequence(list),
    tuple: _sequence(tuple),
    deque: lambda value: iter([(".maxlen", value.maxlen), *_sequence(deque)(value)]),
    dict: _dict,
    defaultdict: _members("default_factory"),
    set: _set,
    frozenset: _set,
    int: _text(int.__repr__),
    float: _text(float.__repr__),
    str: _text(str.__repr__),
    bytes: _text(bytes.__repr__),
    bytearray: _text(bytearray.__repr__),
    memoryview: _text(memoryview.tobytes),
    slice: _members("start", "stop", "step"),
    type({}.keys()): lambda value: _sequence(list)(list(value)),
    type({}.values()): lambda value: _sequence(list)(list(value)),
    type({}.items()): lambda value: _sequence(list)(list(value)),
    types.MappingProxyType: lambda value: _dict(dict(value)),
    types.FunctionType: _function,
    types.CellType: _cell,
    types.MethodType: _members("__func__", "__self__"),
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: lambda value: iter([(".name", Text(value.__qualname__)), (".__self__", value.__self__)]),
    types.MethodDescriptorType: _text(lambda value: value.__qualname__),
    types.WrapperDescriptorType: _text(lambda value: value.__qualname__),
    types.ClassMethodDescriptorType: _text(lambda value: value.__qualname__),
    types.GetSetDescriptorType: _text(lambda value: value.__qualname__),
    types.MemberDescriptorType: _text(lambda value: value.__qualname__),
    types.GeneratorType: _suspended(inspect.getgeneratorstate, "gi"),
    types.CoroutineType: _suspended(inspect.getcoroutinestate, "cr"),
    types.AsyncGeneratorType: _suspended(lambda value: f"running={value.ag_running}", "ag"),
    types.GenericAlias: _members("__origin__", "__args__"),
    types.UnionType: _members("__args__"),
    property: _members("fget", "fset", "fdel", "__doc__"),
    staticmethod: _members("__func__"),
    classmethod: _members("__func__"),
    functools.partial: _members("func", "args", "keywords"),
    functools._lru_cache_wrapper: _text(lambda value: value.cache_info()),
    type: _class,
    super: _members("__thisclass__", "__self__", "__self_class__"),
    BaseException: _exception,
    BaseExceptionGroup: _members("message", "exceptions"),
    AttributeError: _members("name", "obj"),
    NameError: _members("name"),
    StopIteration: _members("value"),
}
