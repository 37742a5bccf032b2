"""Schemas of custom operators: in PyTorch's words, inferred from annotations, and as the registry writes them."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence

from rushlight.eager.handle import Handle
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.support.errors import fail

UNKNOWN = "unknown"
"""Said of `mutates_args`: each tensor among the arguments may be written to."""

# PyTorch's words for what annotations say.
_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "SymInt"),
    (float, "float"),
    (complex, "Scalar"),
    (str, "str"),
    (DType, "ScalarType"),
    (Device, "Device"),
)
# The registry's words for PyTorch's; a list or an option of one that is not here is `any`.
_REGISTRY = {
    "Tensor": "Tensor",
    "Tensor[]": "Tensor[]",
    "Tensor?": "Tensor?",
    "SymInt": "Size",
    "SymInt[]": "Size[]",
    "SymInt?": "Size?",
    "int": "int",
    "int[]": "int[]",
    "int?": "int?",
    "float": "float",
    "float?": "float?",
    "bool": "bool",
    "str": "str",
    "str?": "str?",
    "ScalarType": "DType",
    "ScalarType?": "DType?",
    "Device": "Device?",
    "Device?": "Device?",
}
_SCHEMA = re.compile(r"^\s*(?P<name>[\w:.]*)\s*\((?P<parameters>.*)\)\s*->\s*(?P<results>.+?)\s*$", re.DOTALL)
_PARAMETER = re.compile(r"^(?P<type>\w+)(?P<alias>\(\w+!?\))?(?P<form>(?:\[\d*\])?\??)\s+(?P<rest>\w+(?:\s*=.*)?)$")
_RESULT = re.compile(r"^(?P<type>Tensor(?:\[\])?)(?P<name>\s+\w+)?$")


def infer_schema(
    prototype_function: Callable[..., object],
    /,
    *,
    mutates_args: str | Sequence[str],
    op_name: str | None = None,
) -> str:
    """The schema of an operator that a function with annotations is, as torch.library.infer_schema.

    `mutates_args` names the tensors that it writes to, or is "unknown". Errors: A010.

    >>> infer_schema(scaled, mutates_args=())
    '(Tensor x, float factor=1.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as problem:
        fail("A010", f"infer_schema: an annotation of {_name(prototype_function)} is unknown: {problem}")
    unknown = set() if mutates_args == UNKNOWN else set(_listed(mutates_args)) - set(signature.parameters)
    if unknown:
        fail("A010", f"infer_schema: mutates_args names no parameter: {', '.join(sorted(unknown))}")
    parts: list[str] = []
    starred = False
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(parameter, hints.get(parameter.name), mutates_args, position))
    results = _results(hints.get("return", None), "return" in hints, prototype_function)
    return f"{op_name or ''}({', '.join(parts)}) -> {results}"


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _parameter(parameter: inspect.Parameter, hint: object, mutates: str | Sequence[str], position: int) -> str:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or hint is None:
        message = "takes any number of arguments" if hint is not None else "has no annotation"
        fail("A010", f"infer_schema: {parameter.name} {message}", hint="annotate each parameter, as in `x: Tensor`")
    word = word_of(hint)
    if word is None:
        fail("A010", f"infer_schema: {parameter.name} has a type that no schema has", annotation=str(hint))
    tensor = word.startswith("Tensor")
    written = tensor if mutates == UNKNOWN else parameter.name in _listed(mutates)
    if written and not tensor:
        fail("A010", f"infer_schema: mutates_args names {parameter.name}, which is no tensor", annotation=str(hint))
    if written:
        word = f"Tensor(a{position}!){word[len('Tensor') :]}"
    text = f"{word} {parameter.name}"
    if parameter.default is parameter.empty:
        return text
    if not isinstance(parameter.default, (bool, int, float, complex, str, type(None))):
        fail("A010", f"infer_schema: the default of {parameter.name} is no number, text or None")
    return f"{text}={parameter.default!r}"


def word_of(hint: object) -> str | None:
    """PyTorch's word for an annotation, None where there is none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [argument for argument in arguments if argument is not type(None)]
        if set(rest) <= {int, float, bool, complex} and len(rest) > 1:
            return "Scalar" + "?" * (len(rest) < len(arguments))
        inner = word_of(rest[0]) if len(rest) == 1 and len(rest) < len(arguments) else None
        return None if inner is None else f"{inner}?"
    if origin in (list, Sequence):
        inner = word_of(arguments[0]) if arguments else None
        return None if inner is None else f"{inner}[]"
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Handle):
        return "Tensor"
    return next((word for kind, word in _WORDS if issubclass(hint, kind)), None)


def _results(hint: object, annotated: bool, function: object) -> str:
    if not annotated:
        fail("A010", f"infer_schema: {_name(function)} does not say what it returns", hint="annotate it: `-> Tensor`")
    if hint is None or hint is type(None):
        return "()"
    arguments = typing.get_args(hint)
    words = [word_of(argument) for argument in arguments] if typing.get_origin(hint) is tuple else [word_of(hint)]
    if any(word not in ("Tensor", "Tensor[]") for word in words) or (len(words) > 1 and "Tensor[]" in words):
        fail("A010", f"infer_schema: {_name(function)} returns what is no tensor", annotation=str(hint))
    return f"({', '.join([str(word) for word in words])})" if typing.get_origin(hint) is tuple else str(words[0])


def registry_schema(name: str, text: str) -> str:
    """A schema in PyTorch's words as the registry writes it, for an operator of this name. Errors: A010."""
    match = _SCHEMA.match(text)
    if match is None:
        fail("A010", f"{name}: malformed schema", schema=text, hint="write `(Tensor x, float y=1.0) -> Tensor`")
    parameters: list[str] = []
    for part in _split(match["parameters"]):
        piece = _PARAMETER.match(part)
        if part != "*" and piece is None:
            fail("A010", f"{name}: malformed parameter", parameter=part, schema=text)
        parameters.append(part if piece is None else _registry_parameter(piece))
    results = match["results"].strip()
    inner = _split(results[1:-1]) if results.startswith("(") else [results]
    wrong = next((part for part in inner if _RESULT.match(part) is None), None)
    if wrong is not None:
        hint = "results are new tensors: return a clone of an argument, not the argument or a view of it"
        fail("A010", f"{name}: a result of this kind is not supported", result=wrong, hint=hint)
    return f"{name}({', '.join(parameters)}) -> {results}"


def _registry_parameter(piece: re.Match[str]) -> str:
    form = re.sub(r"\[\d+\]", "[]", piece["form"])
    word = _REGISTRY.get(piece["type"] + form, "any")
    if piece["alias"]:
        word = f"Tensor{piece['alias']}{form}"
    return f"{word} {piece['rest']}"


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
