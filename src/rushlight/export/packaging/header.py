"""The C header of a package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rushlight.codegen.llvm.interface.records import (
    STATUS_ALIGNMENT,
    STATUS_ARENA,
    STATUS_CHECK,
    STATUS_NULL,
    STATUS_PROCESSOR,
    STATUS_RANGE,
    Interface,
    SizeParameter,
    TensorParameter,
)
from rushlight.ir.dtype import DType
from rushlight.sym import SizeExpr, format_size

_C_TYPES = {
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "complex64": "float",
    "complex128": "double",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
}
_STATUSES = (
    ("OK", 0, "done"),
    ("ARENA", STATUS_ARENA, "the arena is shorter than NAME_arena_size says"),
    ("NULL", STATUS_NULL, "a pointer is NULL"),
    ("RANGE", STATUS_RANGE, "a size is not in its range"),
    ("PROCESSOR", STATUS_PROCESSOR, "this processor lacks the features of every variant"),
    ("ALIGNMENT", STATUS_ALIGNMENT, "the arena does not begin at a multiple of 64 bytes"),
)


def header_text(interface: Interface, messages: Sequence[str], embedded: bool, weights_file: str) -> str:
    """The header's text."""
    return "\n".join(_lines(interface, messages, embedded, weights_file)) + "\n"


def run_parameters(interface: Interface) -> list[str]:
    """The parameters of `NAME_run`, as C declares them."""
    parameters = [f"const {interface.name}_context *context"]
    parameters += [f"int64_t {size.name}" for size in interface.sizes]
    return parameters + [_parameter(tensor) for tensor in interface.passed]


def c_type(dtype: DType) -> str:
    """C's type for an element, or for half of a complex one."""
    return _C_TYPES.get(dtype.name) or f"{dtype.name}_t"


def _lines(interface: Interface, messages: Sequence[str], embedded: bool, weights_file: str) -> Iterator[str]:
    name = interface.name
    guard = f"{name.upper()}_H"
    yield f"/* {name}: made by Rushlight. It needs neither Python nor LLVM. Any threads may call it. */"
    yield f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n#include <stdint.h>\n"
    yield '#ifdef __cplusplus\nextern "C" {\n#endif\n'
    yield f"/* What {name}_run returns. */\nenum {{"
    for word, number, meaning in _STATUSES:
        yield f"    {name.upper()}_{word} = {number}, /* {meaning.replace('NAME', name)} */"
    for number, message in enumerate(messages):
        yield f"    {name.upper()}_CHECK_{number} = {STATUS_CHECK + number}, /* {_comment(message)} */"
    yield "};\n"
    yield "typedef struct {"
    yield f"    void *arena;          /* {name}_arena_size bytes, at a multiple of 64; one for each call that runs */"
    yield "    uint64_t arena_bytes;"
    if embedded or not interface.has_weights:
        yield "    const void *weights;  /* not used */"
    else:
        yield f"    const void *weights;  /* the whole of {weights_file}, in memory or mapped */"
    yield "    /* Runs task(arguments, begin, end) on parts of 0 to count, none below grain, and returns when all"
    yield "       are done. NULL: everything on the calling thread. */"
    yield "    void (*parallel_for)(void *data, void (*task)(void *arguments, int64_t begin, int64_t end),"
    yield "                         void *arguments, int64_t count, int64_t grain);"
    yield "    void *data;           /* what parallel_for is given first */"
    yield "    int64_t threads;      /* how many threads parallel_for has */"
    yield f"    int64_t level;        /* what {name}_level() returned, or 0 to ask at each call */"
    yield f"}} {name}_context;\n"
    yield "/* The level of this processor's features: 2, 3, 4 for x86-64-v2 to v4; 1 elsewhere. */"
    yield f"int64_t {name}_level(void);\n"
    yield from _size_lines(interface.sizes)
    sizes = "".join(f", int64_t {size.name}" for size in interface.sizes)
    yield "/* The bytes of arena that a call needs, or minus one of the numbers above. */"
    yield f"int64_t {name}_arena_size(int64_t threads{sizes});\n"
    yield "/* Tensors are dense, with the strides (in elements) that are said here, and do not overlap:"
    for tensor in interface.passed:
        yield f"     {_description(tensor, interface.names)}"
    yield "*/"
    joined = (",\n" + " " * (len(name) + 13)).join(run_parameters(interface))
    yield f"int32_t {name}_run({joined});\n"
    yield "#ifdef __cplusplus\n}\n#endif\n\n#endif"


def _size_lines(sizes: Sequence[SizeParameter]) -> Iterator[str]:
    if not sizes:
        return
    yield "/* Sizes:"
    for size in sizes:
        upper = "" if size.upper is None else f" to {size.upper}"
        multiple = "" if size.multiple_of == 1 else f", a multiple of {size.multiple_of}"
        yield f"     {size.name}: from {size.lower}{upper}{multiple}"
    yield "*/"


def _parameter(tensor: TensorParameter) -> str:
    if tensor.kind == "number":
        return f"double {tensor.name}"
    const = "const " if tensor.kind == "input" else ""
    return f"{const}{c_type(tensor.type.dtype)} *{tensor.name}"


def _description(tensor: TensorParameter, names: Mapping[SizeExpr, str]) -> str:
    if tensor.kind == "number":
        return f"{tensor.name}: a number"
    shape = ", ".join([format_size(size, names) for size in tensor.type.shape])
    strides = ", ".join([format_size(stride, names) for stride in tensor.type.strides])
    kind = {"input": "read", "output": "written"}.get(tensor.kind, "read and written")
    return f"{tensor.name}: {tensor.type.dtype.name}[{shape}], strides [{strides}], {kind}"


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")
