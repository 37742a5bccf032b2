"""The names that a checkpoint may use: containers, numbers, dtypes, devices, storages and rebuilt tensors.

Each name stands for an object of ours; what it does when it is called is in a table too. Nothing is imported by name,
and no object that a file names runs code of its own, unless the program allowed it by `add_safe_globals`.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import pickletools
import struct
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from rushlight.data import numpy_objects
from rushlight.data.archive import Archive
from rushlight.data.rebuilding import REBUILDERS, storage_kind
from rushlight.data.source import Path, opened
from rushlight.data.unpickler import Malformed, checked_key
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import BY_NAME
from rushlight.ir.type import Device
from rushlight.support.errors import error, fail, require

SafeGlobal = Callable[..., Any] | type | tuple[Any, str]

_safe: dict[str, Any] = {}
_NEVER = ("builtins", "nt", "os", "posix", "subprocess", "sys", "importlib", "ctypes", "shutil", "socket", "pickle")
_COPIES, _SMALL = 16, 1 << 20  # calls may copy so many times the file's bytes, and this many of a small one
_PEER, _OURS = "torch.", "rushlight."


def add_safe_globals(safe_globals: Iterable[SafeGlobal]) -> None:
    """Let checkpoints name these classes and functions, which are called then.

    Pairs `(object, name)` give the name that files have. Do so only for files whose writer you trust with calling them.

    >>> rl.serialization.add_safe_globals([Settings])
    """
    for one in safe_globals:
        value, name = one if isinstance(one, tuple) else (one, _name_of(one))
        if not isinstance(name, str):
            fail("A001", "add_safe_globals: a class or function, or a pair of one and its name")
        if name.partition(".")[0] in _NEVER and name not in PLAIN_CLASSES and name not in NAMES:
            fail("A002", f"add_safe_globals: {name} is never allowed", hint="wrap it in a function of your own")
        _safe[name] = value


def _name_of(value: object) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        fail("A001", "add_safe_globals: a class or function, or a pair of one and its name", value=type(value).__name__)
    return f"{module}.{name}"


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that checkpoints may name."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget all classes and functions that were added."""
    _safe.clear()


class safe_globals:  # noqa: N801 - PyTorch's name
    """A context in which checkpoints may name these classes and functions too."""

    def __init__(self, safe_globals: Iterable[SafeGlobal]) -> None:
        self._added = list(safe_globals)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._before = dict(_safe)
        add_safe_globals(self._added)

    def __exit__(self, *_: object) -> None:
        _safe.clear()
        _safe.update(self._before)


def get_unsafe_globals_in_checkpoint(f: Path | BinaryIO) -> list[str]:
    """Return the names that a checkpoint's pickle uses and `load` does not know; nothing is called.

    P005 where the file is not PyTorch's archive.
    """
    with opened(f) as source:
        archive = Archive(source)
        entry = next((name for name in archive.entries if name.endswith("/data.pkl")), None)
        require(entry is not None, "P005", f"load: {source.name} is an archive without a checkpoint")
        assert entry is not None
        data = archive.read(entry)
        try:
            paths = list(dict.fromkeys(_named(data)))
        except (ValueError, IndexError, KeyError, struct.error) as cause:
            raise error("P002", f"load: {source.name} is truncated or damaged", entry=entry) from cause
    return [path for path in paths if not _is_known(path)]


def _named(data: bytes) -> Iterable[str]:
    """The names that a pickle uses, from its opcodes."""
    texts: list[str] = []
    for opcode, arg, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            module, _, name = str(arg).partition(" ")
            yield f"{'builtins' if module == '__builtin__' else module}.{name}"
        elif "UNICODE" in opcode.name:
            texts.append(str(arg))
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:])


def _is_known(path: str) -> bool:
    peer = path.startswith(_PEER) and _of_peer(path[len(_PEER) :]) is not None
    return peer or path in NAMES or any(path == safe_path or _same_class(safe_path, path) for safe_path in _safe)


class TorchVocabulary:
    """The vocabulary of PyTorch's checkpoints.

    `persistent` finds storages, `all_classes` adds some plain classes; `size` bytes of the file limit what calls copy.
    """

    def __init__(self, name: str, storage: Callable[[Any], object], all_classes: bool, size: int) -> None:
        self.persistent = storage
        self._file = name
        self._names: Mapping[str, object] = {**NAMES, **PLAIN_CLASSES} if all_classes else NAMES
        self._used: dict[int, object] = {}  # of the program's own, by identity
        self._bare: dict[int, type] = {}  # classes whose objects are their attributes, by identity
        self._all_classes = all_classes
        self._left = _COPIES * size + _SMALL

    def find(self, module: str, name: str) -> object:
        """Return what a name stands for; P009 for a name that is not allowed."""
        path = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if path in self._names:
            return self._names[path]
        if path in PLAIN_CLASSES and path in _safe:
            return PLAIN_CLASSES[path]
        if path.startswith(_PEER):
            peer = _of_peer(path[len(_PEER) :])
            if peer is not None:
                return peer
        if path.partition(".")[0] not in _NEVER:
            for safe_path, value in _safe.items():
                if safe_path == path or _same_class(safe_path, path):
                    self._used[id(value)] = value
                    return value
        found = _object_name(path) if self._all_classes else None
        if isinstance(found, type):
            self._bare[id(found)] = found
        return self._refuse(path) if found is None else found

    def _refuse(self, path: str) -> object:
        if path in PLAIN_CLASSES:
            hint = "pass weights_only=False: nothing is executed then either, and more plain classes are known"
        elif _object_name(path) is not None:
            hint = (
                "pass weights_only=False: modules of classes that the program has imported are built without any call"
            )
        elif path.startswith("torch.nn.modules."):
            hint = "save the module's state_dict() where it was written, and load that"
        else:
            hint = "add it with rl.serialization.add_safe_globals([...]) if you trust the file's writer to call it"
        fail("P009", f"load: {self._file} names {path[:200]}, which is not allowed", hint=hint)

    def call(self, function: object, args: tuple[Any, ...]) -> object:
        """Return what a call of such an object makes; P009 where it may not be called."""
        if id(function) in self._used:
            return self._used[id(function)](*args)  # pyright: ignore[reportCallIssue] - the program allowed it
        made = _CALLS.get(id(function))
        if made is None:
            return self._refuse_call(function)
        self._left -= sum(map(_copied, args))
        if self._left < 0:
            raise Malformed("calls copy far more than the file holds")
        return made(*args)

    def _refuse_call(self, function: object) -> object:
        fail("P009", f"load: {self._file} calls {type(function).__name__}, which is not allowed")

    def new(self, cls: object, args: tuple[Any, ...]) -> object:
        """Return a new object of a class; P009 where it may not be made."""
        if id(cls) in self._used and isinstance(cls, type):
            return cls.__new__(cls, *args)
        if id(cls) in self._bare and not args:
            return object.__new__(self._bare[id(cls)])
        return _BARE[id(cls)]() if id(cls) in _BARE else self.call(cls, args)

    def build(self, instance: object, state: object) -> None:
        """Give an object its state; P009 where it has none."""
        if id(type(instance)) in self._used:
            _restore(instance, state)
        elif id(type(instance)) in self._bare and isinstance(state, dict):
            vars(instance).update(state)
        elif isinstance(instance, np.dtype):
            numpy_objects.check_dtype_state(state)
        elif isinstance(instance, np.ndarray):
            numpy_objects.fill(instance, state)
        elif isinstance(instance, OrderedDict | argparse.Namespace | types.SimpleNamespace):
            vars(instance).update(_attributes(type(instance), state))
        else:
            self._refuse_call(instance)


def _copied(value: object) -> int:
    """Bytes, about, that a call may copy of an argument."""
    if isinstance(value, Handle):
        return 0 if value.backing is None else value.form.nbytes
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    return 16 * len(value) if isinstance(value, list | tuple | dict | set | frozenset | deque) else 0


def _same_class(ours: str, theirs: str) -> bool:
    """Whether a class of ours has the name that PyTorch gives to its own."""
    both = ours.startswith(_OURS) and theirs.startswith(_PEER)
    return both and ours.rpartition(".")[2] == theirs.rpartition(".")[2]


def _restore(instance: Any, state: Any) -> None:
    """What Python's unpickler does for an object of a class that the program allowed."""
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        vars(instance).update(attributes)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def _attributes(cls: type, state: object) -> dict[str, object]:
    if not isinstance(state, dict):
        raise Malformed("a state that is no dict")
    for name in state:
        if not isinstance(name, str) or (hasattr(cls, name) and name[:2] == "__") or hasattr(OrderedDict, name):
            raise Malformed("an attribute that is not the object's own")
    return state


def _object_name(path: str) -> object:
    """A class of objects that are their attributes, or a function of ours, which is not called.

    Only names that the program itself has imported are looked at.
    """
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, types.FunctionType):
        return found if path.startswith(_OURS) else None
    plain = isinstance(found, type) and getattr(found, "__rushlight_saved__", None) == "attributes"
    methods = ("__new__", "__setstate__", "__del__")
    return found if plain and all(getattr(found, one, None) is getattr(object, one, None) for one in methods) else None


def _of_peer(name: str) -> object:
    """A dtype or a class of storages."""
    if name in BY_NAME:
        return BY_NAME[name]
    return storage_kind(name)


def encode(text: str, encoding: str = "latin1") -> bytes:
    """Return the bytes that a pickle of protocol 2 has as text."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise Malformed("bytes in an unknown encoding")
    return text.encode(encoding)


def get_layout(name: str) -> object:
    """Return the layout of dense tensors, which is the only one; A006 for others."""
    if name != "torch.strided":
        fail("A006", f"load: tensors of layout {str(name)[:50]} are not supported")
    return name


def _bytearray(*args: Any) -> bytearray:
    if args and isinstance(args[0], str):
        return bytearray(encode(*args))
    if args and not isinstance(args[0], bytes):
        raise Malformed("bytes of no content")  # a number would allocate that many
    return bytearray(*args)


def _members(values: object = ()) -> list[Any]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise Malformed("members that are no list")
    return [checked_key(value) for value in values]


def _pairs(values: object = ()) -> list[tuple[Any, Any]]:
    pairs = list(values.items()) if isinstance(values, dict) else values
    if not isinstance(pairs, list | tuple):
        raise Malformed("members that are no pairs")
    return [(checked_key(key), value) for key, value in pairs]


def _size(values: object = ()) -> Size:
    if not isinstance(values, list | tuple) or not all(type(value) is int for value in values):
        raise Malformed("a size that is no tuple of integers")
    return Size(values)


def _counts(values: object = ()) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    dict.update(counts, _pairs(values))
    return counts


def _defaults(factory: object = None, values: object = ()) -> defaultdict[Any, Any]:
    if not any(factory is kind for kind in (None, int, float, list, dict, set, str, OrderedDict)):
        raise Malformed("a factory that is not known")
    return defaultdict(factory, _pairs(values))  # pyright: ignore[reportArgumentType, reportCallIssue] - one of those


def _number(kind: type) -> Callable[..., object]:
    def made(value: Any = 0, *more: Any) -> object:
        if more and kind is not complex:
            raise Malformed("a number of too many parts")
        if not all(isinstance(part, int | float) for part in (value, *more)):
            raise Malformed("a number of no number")
        return kind(value, *more)

    return made


def _text(value: object = "") -> str:
    if not isinstance(value, str):
        raise Malformed("text that is none")
    return str(value)


def _path(*parts: object) -> pathlib.PurePath:
    return pathlib.PurePath(*[_text(part) for part in parts])


def _reconstructor(cls: object, base: object, state: object) -> object:
    """What `copyreg` does for objects of pickles of protocols 0 and 1."""
    if base is not object or state is not None or id(cls) not in _BARE:
        raise Malformed("an object of an unknown kind")
    return _BARE[id(cls)]()


def _slice(*parts: object) -> slice:
    if not all(part is None or type(part) is int for part in parts):
        raise Malformed("a slice of no numbers")
    return slice(*parts)


_BARE: dict[int, Callable[[], object]] = {
    id(argparse.Namespace): argparse.Namespace,
    id(types.SimpleNamespace): types.SimpleNamespace,
}
"""Classes whose objects are their attributes alone."""

NAMES: dict[str, object] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "_codecs.encode": encode,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": Device,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.serialization._get_layout": get_layout,
    **REBUILDERS,
    **numpy_objects.NAMES,
}
"""What every checkpoint may name."""

PLAIN_CLASSES: dict[str, object] = {
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": types.SimpleNamespace,
    "collections.defaultdict": defaultdict,
    "collections.deque": deque,
    "copyreg._reconstructor": _reconstructor,
    "copy_reg._reconstructor": _reconstructor,
    "datetime.timedelta": datetime.timedelta,
    **{f"pathlib.{name}": pathlib.PurePath for name in ("Path", "PosixPath", "PurePath", "PurePosixPath")},
    **{f"builtins.{kind.__name__}": kind for kind in (bool, dict, float, int, list, object, slice, str, tuple)},
}
"""What a checkpoint may name besides where `weights_only=False` is given: classes without behaviour of their own."""

_CALLS: dict[int, Callable[..., object]] = {
    id(OrderedDict): lambda *args: OrderedDict(_pairs(*args)),
    id(Counter): _counts,
    id(set): lambda *args: set(_members(*args)),
    id(frozenset): lambda *args: frozenset(_members(*args)),
    id(bytearray): _bytearray,
    id(complex): _number(complex),
    id(int): _number(int),
    id(float): _number(float),
    id(bool): _number(bool),
    id(str): _text,
    id(list): lambda *args: list(_members(*args)),
    id(tuple): lambda *args: tuple(_members(*args)),
    id(dict): lambda *args: dict(_pairs(*args)),
    id(deque): lambda *args: deque(_members(*args)),
    id(defaultdict): _defaults,
    id(slice): _slice,
    id(datetime.timedelta): lambda *args: datetime.timedelta(*[int(arg) for arg in args]),
    id(pathlib.PurePath): _path,
    id(_reconstructor): _reconstructor,
    id(Size): _size,
    id(Device): Device,
    id(encode): encode,
    id(get_layout): get_layout,
    **{id(function): function for function in REBUILDERS.values()},
    **numpy_objects.CALLS,
}
"""What a call of an allowed object does, by the object's identity."""
