"""What the interpreter calls when objects die runs at any moment, and an interrupt in it is printed and lost.

So a callback of a weak reference is a method of C (`deque.append`, a partial `dict.pop`), and no class has a `__del__`
that runs code of ours.
"""

import ast
import gc
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, BuiltinMethodType

import pytest

import rushlight as rl
from rushlight.sym import axis_symbol

# A generator that dies runs the program's own `finally` blocks, where Python loses an interrupt too.
OF_THE_PROGRAM = {"capture/interpreter/generators.py"}
SOURCE = Path(rl.__file__).parent
PYTHON_CALLBACKS = {"finalize", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary", "WeakMethod"}
# Where references with callbacks are made: each callback is looked at below while programs run.
WITH_CALLBACKS = {
    "term/term.py": "_InternedRef",
    "runtime/allocator.py": "Block",
    "runtime/shared.py": "weakref.ref",
    "build/native.py": "weakref.ref",
    "capture/function/whole.py": "weakref.ref",
    "capture/resume/interpreters/noting.py": "weakref.ref",
    "data/worker.py": "weakref.ref",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """All modules by path."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def test_no_class_has_a_finaliser_in_python():
    wrong = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__del__" and path not in OF_THE_PROGRAM
    ]
    assert not wrong


def test_nothing_of_weakref_calls_python():
    """Its collections and `finalize` have callbacks that are Python functions."""
    wrong = [
        f"{path}:{node.lineno} {name}"
        for path, tree in modules()
        for node in ast.walk(tree)
        for name in [node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""]
        if name in PYTHON_CALLBACKS
    ]
    assert not wrong


def _references(tree: ast.Module) -> set[str]:
    """The classes of weak references that a module makes with a callback."""
    subclasses = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("weakref.ref" in ast.unparse(base) for base in node.bases)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) == 2]
    return {ast.unparse(call.func) for call in calls} & (subclasses | {"weakref.ref"})


def test_references_with_callbacks_are_the_ones_that_are_known():
    found = {path: names for path, tree in modules() if (names := _references(tree))}
    assert found == {path: {name} for path, name in WITH_CALLBACKS.items()}


def _is_c(callback: object) -> bool:
    if isinstance(callback, partial):
        return _is_c(callback.func)
    return isinstance(callback, (BuiltinFunctionType, BuiltinMethodType))


@pytest.mark.core
def test_callbacks_are_methods_of_c():
    step = rl.compile(lambda x: (x * 2 + 1).sum())
    loader = iter(rl.utils.data.DataLoader(list(range(8)), batch_size=2, num_workers=1))
    # A sum is interned, as symbols are not; a compilation that the cache answers may leave none.
    kept = [step(rl.ones(3)), next(loader), axis_symbol(4) + 1, rl.ones(2).share_memory_()]
    ours = ("rushlight.", "weakref")
    callbacks = {
        (type(target).__name__, ref.__callback__)
        for target in gc.get_objects()
        if str(type(target).__module__).startswith(ours)
        for ref in weakref.getweakrefs(target)
        if ref.__callback__ is not None
    }
    names = {name for name, _ in callbacks}
    assert {"SizeExpr", "Storage", "LoadedModule", "ResumingFunction", "SharedMemory", "_Prefetching"} <= names
    assert [callback for _, callback in callbacks if not _is_c(callback)] == []
    assert len(kept) == 4
