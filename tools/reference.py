"""Reference pages, made of docstrings and of the records of operators.

Each public module has a page, and so have `Tensor` and the operators. The public modules are those that `rushlight`
lists and those below them. A name that several of them list has its entry with the shortest of these, and the others
link to it. A name without a docstring is an error, and so is one without an entry: `unlisted` finds these in the
finished pages, by names alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import cast

import rushlight as rl
from rushlight.ops.record import OPERATORS, Fact, Operator

BESIDE = ("rushlight.models",)  # public, but no part of what `import rushlight` brings
TENSOR = "rushlight.Tensor"
CODE = re.compile(r"(`[^`]+`)")
MARKUP = re.compile(r"[<>*_\[\]]")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
RULES = (("lower", "loops"), ("view", "a view"), ("decompose", "simpler operators"))


class ReferenceError(Exception):
    """What is wrong with the reference: names that nothing describes."""


def modules() -> dict[str, ModuleType]:
    """Return the public modules by the names that programs use for them.

    Those that `rushlight` lists come first. Of those below them only the ones come that list something new.
    """
    found: dict[str, ModuleType] = {}
    _reach("rushlight", rl, found)
    tops = [found[name] for name in sorted(found) if name.count(".") == 1]
    tops += [importlib.import_module(name) for name in BESIDE]
    known = {id(module) for module in found.values()}
    below = {module.__name__: module for top in tops for module in _below(top) if id(module) not in known}
    home = homes({**found, **below})
    new = {
        name for name, module in below.items() if any(home.get(id(value)) == at for at, value in _values(name, module))
    }
    return found | {name: below[name] for name in sorted(new)}


def _reach(path: str, module: ModuleType, found: dict[str, ModuleType]) -> None:
    """Add a module, and the modules of ours that it lists."""
    found[path] = module
    for name in _listed(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and value.__name__.startswith("rushlight.") and value not in found.values():
            _reach(f"{path}.{name}", value, found)


def _below(top: ModuleType) -> Iterator[ModuleType]:
    """Yield a package and the modules below it that list their names.

    Others are not imported: a plug-in of pytest needs what the documentation does not.
    """
    yield top
    if hasattr(top, "__path__"):
        for info in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            if not re.search(r"\._", info.name) and _lists_names(info):
                module = importlib.import_module(info.name)
                if hasattr(module, "__all__"):
                    yield module


def _lists_names(info: pkgutil.ModuleInfo) -> bool:
    spec = importlib.util.find_spec(info.name)
    return spec is not None and spec.origin is not None and "__all__" in Path(spec.origin).read_text(encoding="utf-8")


def _listed(module: ModuleType) -> Sequence[str]:
    return cast(Sequence[str], getattr(module, "__all__", ()))


def _values(place: str, module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of each name of a module."""
    for name in names(module):
        yield f"{place}.{name}", getattr(module, name)


def names(module: ModuleType) -> list[str]:
    """Return the names of a module that have entries: modules have pages instead."""
    listed = [name for name in _listed(module) if not isinstance(getattr(module, name), ModuleType)]
    return sorted(listed, key=lambda name: (name.lower(), name))


def homes(public: Mapping[str, ModuleType]) -> dict[int, str]:
    """Return by identity of a class or function where it has its entry: the first of the shortest paths."""
    found: dict[int, str] = {}
    for place, module in sorted(public.items(), key=lambda each: each[0].count(".")):
        for path, value in _values(place, module):
            if _has_home(value):
                found.setdefault(id(value), path)
    return found


def _has_home(value: object) -> bool:
    """Whether an object is known by where it stands: numbers and dtypes may stand anywhere."""
    return inspect.isclass(value) or inspect.isroutine(value)


def pages() -> dict[str, str]:
    """Return the text of each page by its place in the site."""
    public = modules()
    home = homes(public)
    found = {_place(name): _module_page(name, module, home) for name, module in public.items() if names(module)}
    found[_place(TENSOR)] = _tensor_page()
    found["reference/operators.md"] = _operators_page()
    found["reference/index.md"] = _index({name: public[name] for name in public if _place(name) in found})
    return found


def _place(module: str) -> str:
    return f"reference/{module}.md"


def _index(public: Mapping[str, ModuleType]) -> str:
    lines = ["# Names", "", "Every public name, by module. [Operators](operators.md) have a table of their own.", ""]
    lines += ["| module | names | what it is for |", "|---|---:|---|"]
    rows = [(name, len(names(module)), module.__doc__) for name, module in public.items()]
    rows.append((TENSOR, len(_members(rl.Tensor.__mro__)), rl.Tensor.__doc__))
    lines += [f"| [`{name}`]({name}.md) | {count} | {_first(text or '')} |" for name, count, text in sorted(rows)]
    return "\n".join([*lines, ""])


def _module_page(place: str, module: ModuleType, home: Mapping[int, str]) -> str:
    lines = [f"# {place}", "", _prose(inspect.cleandoc(module.__doc__ or "")), ""]
    for path, value in _values(place, module):
        lines += _entry(path, value, home)
    return "\n".join(lines)


def _entry(path: str, value: object, home: Mapping[int, str]) -> list[str]:
    """The lines of a name: its heading, how it is called, and its docstring, or where these are."""
    lines = [_heading(path), ""]
    if str(getattr(value, "__module__", "")).partition(".")[0] in sys.stdlib_module_names:
        return [*lines, f"Python's `{value.__module__}.{path.rpartition('.')[2]}`.", ""]
    at = home.get(id(value), path) if _has_home(value) else path
    if at != path:
        module = at.rpartition(".")[0]
        return [*lines, f"The same as [`{at}`]({module}.md#{at}).", ""]
    return [*lines, *_described(path, value, home)]


def _heading(path: str) -> str:
    return f"### `{path.rpartition('.')[2]}` {{ #{path} }}"


def _described(path: str, value: object, home: Mapping[int, str]) -> list[str]:
    if isinstance(value, GenericAlias) or not callable(value):
        return [_constant(value), ""]
    text = (inspect.getdoc(value) or "").strip()
    if not text:
        raise ReferenceError(f"{path} has no docstring")
    lines = [*_call(path.rpartition(".")[2], value), _prose(text), ""]
    if path == TENSOR:
        lines.append(f"[Its methods and attributes]({TENSOR}.md) have a page.")
    elif inspect.isclass(value):
        lines += _class_lines(value, home)
    return [*lines, *_operator_lines(value), ""]


def _constant(value: object) -> str:
    kind = "" if value is None or isinstance(value, GenericAlias) else f", of type `{type(value).__name__}`"
    told = len(repr(value)) < 100 and not ADDRESS.search(repr(value))
    return f"`{value!r}`{kind}." if told else f"An object of type `{type(value).__name__}`."


def _class_lines(owner: type[object], home: Mapping[int, str]) -> list[str]:
    """The members of a class, and where those are that it has of a public one."""
    bases = [base for base in owner.__mro__[1:] if id(base) in home]
    own = [base for base in owner.__mro__ if not any(issubclass(public, base) for public in bases)]
    lines = [_member_line(member, name) for name, member in _members(own).items()]
    if bases:
        at = home[id(bases[0])]
        lines += ["", f"And what [`{at}`]({at.rpartition('.')[0]}.md#{at}) has."]
    return lines


def _call(name: str, value: Callable[..., object]) -> list[str]:
    """The lines that show how something is called."""
    shown = _signature(value)
    return ["```python", f"{name}{shown}", "```", ""] if shown else []


def _signature(value: Callable[..., object]) -> str:
    """Return the parameters of something that is called, without types; nothing where Python knows none."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    shown = re.sub(r"<(?:[^<>]|<\w+>)*>", "...", shown)  # defaults that are objects of the implementation
    return ADDRESS.sub("", shown)


def _operator_lines(value: object) -> list[str]:
    """What the record says, where a function is that of an operator."""
    name = getattr(value, "__name__", "")
    generated = getattr(value, "__module__", "") == "rushlight.eager.functions"
    if not generated or name not in OPERATORS:
        return []
    return [f"Operator [`{name}`](operators.md#operator.{name}): {_facts(OPERATORS[name])}.", ""]


def _facts(op: Operator) -> str:
    """How an operator is computed and differentiated, in words."""
    host = Fact.HOST in op.facts
    how = "a call of the host" if host else next((words for rule, words in RULES if _has(op, rule)), "its program")
    return f"computed by {how}, {_derivative(op)}"


def _derivative(op: Operator) -> str:
    if Fact.NONDIFFERENTIABLE in op.facts:
        return "without gradient"
    if _has(op, "vjp"):
        return "with a derivative of its own"
    return "differentiated by its parts" if _has(op, "decompose") else "without gradient"


def _has(op: Operator, rule: str) -> bool:
    return getattr(op, f"{rule}_rule") is not None


def _members(classes: Sequence[type[object]]) -> dict[str, object]:
    """Return by name the public members that classes of ours define, given in the order in which Python asks them."""
    found: dict[str, object] = {}
    for base in reversed(classes):
        if base.__module__.startswith("rushlight"):
            found |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    return {name: found[name] for name in sorted(found) if _is_member(found[name])}


def _is_member(value: object) -> bool:
    return isinstance(value, (property, staticmethod, classmethod)) or inspect.isroutine(value)


def _plain(member: object) -> object:
    """The function of a member."""
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _member_line(member: object, name: str) -> str:
    function = _plain(member)
    shown = "" if isinstance(member, property) else _parameters(function)
    text = _first(inspect.getdoc(function) or "")
    return f"- `{name}{shown}`" + (f": {text}" if text else "")


def _parameters(function: object) -> str:
    """Return the parameters of a member, without the object or class that it is asked of."""
    return re.sub(r"^[(](self|cls)(, )?", "(", _signature(cast(Callable[..., object], function)))


def _tensor_page() -> str:
    lines = ["# rushlight.Tensor", "", _prose(inspect.getdoc(rl.Tensor) or ""), ""]
    for name, member in _members(rl.Tensor.__mro__).items():
        function = _plain(member)
        lines += [_heading(f"{TENSOR}.{name}"), ""]
        if not isinstance(member, property):
            lines += ["```python", f"Tensor.{name}{_parameters(function)}", "```", ""]
        lines += [_prose(inspect.getdoc(function) or "An attribute of storage or history."), ""]
    return "\n".join(lines)


def _operators_page() -> str:
    lines = [
        "# Operators",
        "",
        "What the registry knows: schema, meaning, how it is computed, and where its gradient comes from.",
        "`rushlight ops explain NAME` prints more.",
        "",
    ]
    for name in sorted(OPERATORS):
        op = OPERATORS[name]
        lines += [f"### `{name}` {{ #operator.{name} }}", "", "```text", op.schema.text, "```", ""]
        lines += [f"{_prose(op.doc)} {_facts(op).capitalize()}.", ""]
    return "\n".join(lines)


def _first(text: str) -> str:
    """Return the first sentence of a docstring, in one line and fit for a table."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return _inline(re.split(r"(?<=[^.]\.) ", paragraph)[0]).replace("|", "\\|")


def _prose(text: str) -> str:
    """Return a docstring as Markdown: examples, which are indented, stay as they are, and only code is markup."""
    blocks = text.split("\n\n")
    return "\n\n".join(block if block.startswith("    ") else _inline(block) for block in blocks)


def _inline(text: str) -> str:
    parts = CODE.split(text)
    return "".join(part if part.startswith("`") else MARKUP.sub(lambda found: f"\\{found[0]}", part) for part in parts)


def unlisted(found: Mapping[str, str]) -> list[str]:
    """Return the public names that have no entry in pages, or an empty one."""
    return [
        path
        for place, module in modules().items()
        for path, _ in _values(place, module)
        if not _is_told(found.get(_place(place), ""), path)
    ]


def _is_told(page: str, path: str) -> bool:
    """Whether a page has a heading for a name, and something below it."""
    _, mark, rest = page.partition(f"{{ #{path} }}\n")
    return bool(mark) and bool(rest.split("\n### ", 1)[0].strip())
