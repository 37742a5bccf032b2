"""A script for Node that runs a module of WebAssembly on values from files, as the C example does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rushlight.codegen.llvm.interface.records import Interface, TensorParameter
from rushlight.sym import SizeExpr, format_size

_START = """\
// Runs {name}: node {name}.mjs SIZES... reads the tensors from files named as they are, and writes results beside them.
import {{ readFileSync, writeFileSync }} from "node:fs";

const min = (a, b) => (a < b ? a : b), max = (a, b) => (a < b ? b : a);
const code = readFileSync(new URL("{name}.wasm", import.meta.url));
const {{ instance }} = await WebAssembly.instantiate(code, {{}});
const {{ memory, heap_base, {name}_arena_size, {name}_run }} = instance.exports;
const words = process.argv.slice(2);
if (words.length !== {count}) {{ console.error("usage: {name}.mjs{usage}"); process.exit(64); }}

let end = heap_base.value;
function allocate(bytes) {{
  const start = Math.ceil(end / 64) * 64;
  end = start + Number(bytes);
  const missing = end - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  return start;
}}
function fill(file, start, bytes) {{
  const data = readFileSync(file);
  if (data.length < Number(bytes)) {{ console.error(file + ": too short"); process.exit(66); }}
  new Uint8Array(memory.buffer, start, Number(bytes)).set(data.subarray(0, Number(bytes)));
}}
function fail(status) {{ console.error("status " + status); process.exit(Number(status)); }}
"""
_ARENA, _ARENA_BYTES, _WEIGHTS, _CONTEXT_WORDS = 0, 1, 2, 8
_NUMBER = re.compile(r"\b(\d+)\b")


def script_text(interface: Interface, weights: Mapping[str, int] | None) -> str:
    """The script's text. `weights` are the file of weights and its bytes, or None where they are inside."""
    return "\n".join(_lines(interface, weights)) + "\n"


def _lines(interface: Interface, weights: Mapping[str, int] | None) -> Iterator[str]:
    name, names = interface.name, interface.names
    usage = "".join(f" {size.name}" for size in interface.sizes)
    yield _START.format(name=name, count=len(interface.sizes), usage=usage)
    for number, size in enumerate(interface.sizes):
        yield f"const {size.name} = BigInt(words[{number}]);"
    sizes = "".join(f", {size.name}" for size in interface.sizes)
    yield f"const need = {name}_arena_size(1n{sizes});\nif (need < 0n) fail(-need);"
    yield f"const context = allocate({8 * _CONTEXT_WORDS}), arena = allocate(need);"
    for file, size in (weights or {}).items():
        yield f'const weights = allocate({size});\nfill("{file}", weights, {size});'
    passed: list[str] = []
    for tensor in interface.passed:
        if tensor.kind == "number":
            yield f'const {tensor.name} = readFileSync("{tensor.name}").readDoubleLE(0);'
        else:
            yield f"const {tensor.name}_bytes = {_bytes(tensor, names)};"
            yield f"const {tensor.name} = allocate({tensor.name}_bytes);"
            if tensor.kind != "output":
                yield f'fill("{tensor.name}", {tensor.name}, {tensor.name}_bytes);'
        passed.append(tensor.name)
    yield f"const head = new BigInt64Array(memory.buffer, context, {_CONTEXT_WORDS});\nhead.fill(0n);"
    yield f"head[{_ARENA}] = BigInt(arena);\nhead[{_ARENA_BYTES}] = need;"
    if weights:
        yield f"head[{_WEIGHTS}] = BigInt(weights);"
    arguments = ", ".join(["context", *[size.name for size in interface.sizes], *passed])
    yield f"const status = {name}_run({arguments});\nif (status) fail(status);"
    for tensor in interface.passed:
        if tensor.is_written:
            shown = f"new Uint8Array(memory.buffer, {tensor.name}, Number({tensor.name}_bytes))"
            yield f'writeFileSync("{tensor.name}", {shown});'


def _bytes(tensor: TensorParameter, names: Mapping[SizeExpr, str]) -> str:
    """The bytes of a tensor, as a BigInt."""
    factors = [f"({_whole(format_size(size, names))})" for size in tensor.type.shape]
    return " * ".join([f"{tensor.type.dtype.itemsize}n", *factors])


def _whole(text: str) -> str:
    """A size's text with its numbers as BigInt; quotients are of sizes that are not negative."""
    return _NUMBER.sub(r"\1n", text.replace("//", "/"))
