"""A C program that runs a package on values read from files: an example, and the check of what was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rushlight.codegen.llvm.interface.records import Interface, TensorParameter
from rushlight.export.packaging.header import c_type
from rushlight.sym import Size, SizeExpr, format_size, free_symbols

_START = """\
/* Runs {name}: {name}_main SIZES... reads the tensors from files named as they are, and writes results beside them. */
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(uint64_t bytes) {{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory) exit(70);
    return memory;
}}

static void read_file(const char *name, void *to, uint64_t bytes) {{
    FILE *file = fopen(name, "rb");
    if (!file || fread(to, 1, bytes, file) != bytes) {{ fprintf(stderr, "%s: too short\\n", name); exit(66); }}
    fclose(file);
}}

static void write_file(const char *name, const void *from, uint64_t bytes) {{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(from, 1, bytes, file) != bytes) exit(74);
    fclose(file);
}}

static int64_t min(int64_t a, int64_t b) {{ return a < b ? a : b; }}
static int64_t max(int64_t a, int64_t b) {{ return a < b ? b : a; }}

int main(int count, char **words) {{
    (void)min; (void)max;
    if (count != {count}) {{ fprintf(stderr, "usage: %s{usage}\\n", words[0]); return 64; }}"""


def example_text(interface: Interface, weights: Mapping[str, int] | None) -> str:
    """The program's text. `weights` are the file of weights and its bytes, or None where they are inside."""
    return "\n".join(_lines(interface, weights)) + "\n"


def _lines(interface: Interface, weights: Mapping[str, int] | None) -> Iterator[str]:
    name, names = interface.name, interface.names
    usage = "".join(f" {size.name}" for size in interface.sizes)
    yield _START.format(name=name, count=len(interface.sizes) + 1, usage=usage)
    for number, size in enumerate(interface.sizes, 1):
        yield f"    int64_t {size.name} = atoll(words[{number}]);"
    yield f"    {name}_context context;\n    memset(&context, 0, sizeof context);"
    for file, size in (weights or {}).items():
        yield f'    void *weights = allocate({size});\n    read_file("{file}", weights, {size});'
        yield "    context.weights = weights;"
    sizes = "".join(f", {size.name}" for size in interface.sizes)
    yield f"    int64_t need = {name}_arena_size(1{sizes});"
    yield '    if (need < 0) { fprintf(stderr, "status %d\\n", (int)-need); return (int)-need; }'
    yield "    context.arena = allocate(need);\n    context.arena_bytes = need;"
    yield f"    context.level = {name}_level();"
    for tensor in interface.passed:
        if tensor.kind == "number":
            yield f'    double {tensor.name};\n    read_file("{tensor.name}", &{tensor.name}, sizeof {tensor.name});'
            continue
        yield f"    uint64_t {tensor.name}_bytes = {_bytes(tensor, names)};"
        yield f"    {c_type(tensor.type.dtype)} *{tensor.name} = allocate({tensor.name}_bytes);"
        if tensor.kind != "output":
            yield f'    read_file("{tensor.name}", {tensor.name}, {tensor.name}_bytes);'
    passed = "".join(f", {tensor.name}" for tensor in interface.passed)
    yield f"    int32_t status = {name}_run(&context{sizes}{passed});"
    yield '    if (status) { fprintf(stderr, "status %d\\n", (int)status); return (int)status; }'
    for tensor in interface.passed:
        if tensor.is_written:
            yield f'    write_file("{tensor.name}", {tensor.name}, {tensor.name}_bytes);'
        if tensor.kind != "number":
            yield f"    free({tensor.name});"
    yield "    free(context.arena);"
    if weights:
        yield "    free(weights);"
    yield "    return 0;\n}"


def _bytes(tensor: TensorParameter, names: Mapping[SizeExpr, str]) -> str:
    """The bytes of a tensor, in C."""
    return " * ".join([str(tensor.type.dtype.itemsize), *[f"({_c_size(size, names)})" for size in tensor.type.shape]])


def _c_size(size: Size, names: Mapping[SizeExpr, str]) -> str:
    """A size in C: quotients are of sizes that are not negative, so they need no rounding down."""
    text = format_size(size, names).replace("//", "/")
    assert isinstance(size, int) or all(symbol in names for symbol in free_symbols(size))
    return text
