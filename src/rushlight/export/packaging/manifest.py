"""The manifest of a package: JSON that says what its functions take, for programs that are not C."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rushlight.capture.source import ArgumentSource
from rushlight.capture.values import Constant, Container, InputRef, Output, SizeOf, Template
from rushlight.codegen.llvm.interface.records import Interface, SizeParameter, TensorParameter
from rushlight.export.program import ExportedProgram
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr, format_size

Names = Mapping[SizeExpr, str]
FORMAT = 1


def manifest_text(
    program: ExportedProgram,
    interface: Interface,
    messages: Sequence[str],
    platforms: Sequence[str],
    weights_file: str,
    embedded: bool,
) -> str:
    """The manifest's text. Sizes are sums of products of names, in Python's notation."""
    names = interface.names
    entries = {
        "format": FORMAT,
        "name": interface.name,
        "platforms": list(platforms),
        "specification": str(program.spec),
        "sizes": [_size(size) for size in interface.sizes],
        "tensors": [_tensor(tensor, names) for tensor in interface.tensors],
        "conditions": [
            f"{format_size(condition.expr, names)} {condition.relation} 0" for condition in interface.conditions
        ],
        "checks": list(messages),
        "weights": None if embedded or not interface.has_weights else weights_file,
        "result": _Result(program, interface).entry(program.result),
    }
    return json.dumps(entries, indent=1, ensure_ascii=True) + "\n"


def _size(size: SizeParameter) -> Mapping[str, object]:
    entry: dict[str, object] = {
        "name": size.name,
        "lower": size.lower,
        "upper": size.upper,
        "multiple_of": size.multiple_of,
    }
    if size.tensor is not None:
        entry |= {"tensor": size.tensor, "dim": size.dim, "scale": size.scale, "offset": size.offset}
    return entry


def _tensor(tensor: TensorParameter, names: Names) -> Mapping[str, object]:
    entry: dict[str, object] = {
        "kind": tensor.kind,
        "name": tensor.name,
        "title": tensor.title,
        "dtype": tensor.type.dtype.name,
        "shape": _sizes(tensor.type.shape, names),
        "strides": _sizes(tensor.type.strides, names),
    }
    if tensor.kind == "weight":
        entry["offset"] = tensor.offset
    return entry


def _sizes(sizes: Sequence[Size], names: Names) -> list[int | str]:
    return [size if isinstance(size, int) else format_size(size, names) for size in sizes]


class _Result:
    """Describes what a program returns: outputs by number, in the containers that it makes."""

    def __init__(self, program: ExportedProgram, interface: Interface) -> None:
        self.names = interface.names
        leaves = [int(source.target) for source in program.inputs if source.kind == "argument"]
        kinds = ("input", "argument")
        places = [at for at, tensor in enumerate(interface.passed_in) if tensor.kind in kinds]
        self.places = dict(zip(leaves, places, strict=True))

    def entry(self, template: Template) -> Mapping[str, object]:
        """The entry of a template."""
        if isinstance(template, Output):
            return {"output": template.place}
        if isinstance(template, Container):
            parts = [self.entry(part) for part in template.items]
            if template.kind is dict:
                return {"dict": [[key, part] for key, part in zip(template.keys, parts, strict=True)]}
            return {"tuple" if template.kind is tuple else "list": parts}
        if isinstance(template, InputRef) and isinstance(template.source, ArgumentSource):
            place = self.places.get(template.source.position)
            if place is not None:
                return {"argument": place}
        if isinstance(template, SizeOf):
            return {"size": format_size(template.expr, self.names)}
        if isinstance(template, Constant):
            return {"constant": template.value}
        hint = "return tensors and sizes"
        return fail("P010", "package: a result is a number that Python computes, or an unused argument", hint=hint)
