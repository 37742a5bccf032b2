"""Compiles a scalar term to a native loop over arrays, to measure the math of `rushlight.ops.math_*` as it runs.

A small emitter of its own on purpose: what it computes is a second opinion on the code generator.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, Kind, float32
from rushlight.ir.scalar import Buffer, Scalar, load
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm
from rushlight.term import postorder

Function = Callable[..., Scalar]

_INTRINSICS = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round_even": "roundeven",
    "fma": "fma",
    "minimum": "minimum",
    "maximum": "maximum",
}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT_OPS = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT_COMPARISONS = {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ne": "fcmp une"}


class Emitter:
    """The IR of one body for vectors of `lanes` elements."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.names: dict[Scalar, str] = {}

    def vector(self, dtype: DType) -> str:
        """The LLVM type of a vector of `dtype`."""
        return f"<{self.lanes} x {self.element(dtype)}>"

    def element(self, dtype: DType) -> str:
        """The LLVM type of one element."""
        if dtype.kind is Kind.FLOAT:
            return "float" if dtype is float32 else "double"
        return "i1" if dtype.kind is Kind.BOOL else f"i{dtype.bits}"

    def suffix(self, dtype: DType) -> str:
        """The type's part of an intrinsic's name."""
        return f"v{self.lanes}{'f' if dtype.kind is Kind.FLOAT else 'i'}{dtype.bits}"

    def constant(self, value: Any, dtype: DType) -> str:
        """A vector constant of equal elements."""
        if dtype.kind is Kind.FLOAT:
            text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        else:
            text = str(value).lower()
        return "<" + ", ".join([f"{self.element(dtype)} {text}"] * self.lanes) + ">"

    def put(self, term: Scalar, text: str) -> None:
        """Adds an instruction whose result is the term's."""
        name = self.names[term] = f"%v{len(self.names)}"
        self.lines.append(f"  {name} = {text}")

    def call(self, intrinsic: str, result: DType, operands: list[tuple[DType, str]], extra: str = "") -> str:
        """The text of an intrinsic call; declares it."""
        types = ", ".join([self.vector(dtype) for dtype, _ in operands]) + (", i1" if extra else "")
        arguments = ", ".join([f"{self.vector(dtype)} {name}" for dtype, name in operands]) + extra
        self.declared.add(f"declare {self.vector(result)} @llvm.{intrinsic}({types})")
        return f"call {self.vector(result)} @llvm.{intrinsic}({arguments})"

    def emit(self, term: Scalar) -> None:
        """Adds the code of one term, its operands being there."""
        name, dtype = term.op.name, term.type
        values = [self.names[operand] for operand in term.operands]
        if name == "constant":
            self.names[term] = self.constant(term.attr("value"), dtype)
            return
        source = term.operands[-1].type
        vector, is_float = self.vector(source), source.kind is Kind.FLOAT
        pair = f"{vector} " + ", ".join(values[:2])
        if name in _INTRINSICS and is_float:
            text = self.call(f"{_INTRINSICS[name]}.{self.suffix(dtype)}", dtype, [(source, value) for value in values])
        elif name in ("select", "guard"):
            condition = f"<{self.lanes} x i1> {values[0]}"
            text = f"select {condition}, {vector} {values[1]}, {vector} {values[2]}"
        elif name in _FLOAT_COMPARISONS:
            signed = "s" if source.signed else "u"
            predicate = name if name in ("eq", "ne") else signed + name
            text = f"{_FLOAT_COMPARISONS[name] if is_float else 'icmp ' + predicate} {pair}"
        elif name == "neg":
            text = f"fneg {vector} {values[0]}" if is_float else f"sub {vector} zeroinitializer, {values[0]}"
        elif name == "not":
            text = f"xor {vector} {values[0]}, {self.constant(True if source.kind is Kind.BOOL else -1, source)}"
        elif name == "abs":
            text = self.call(f"abs.{self.suffix(dtype)}", dtype, [(source, values[0])], ", i1 false")
        elif name == "scale":
            text = self.scale(values, source)
        elif name == "mulhi":
            text = self.high_product(term, values, source)
        elif name in ("shl", "shr"):
            text = self.shift(term, values, source)
        elif name == "cast":
            text = self.cast(values[0], term.operands[0].type, dtype)
        elif name == "bitcast":
            text = f"bitcast {self.vector(term.operands[0].type)} {values[0]} to {self.vector(dtype)}"
        else:
            text = f"{(_FLOAT_OPS if is_float else _INT_OPS)[name]} {pair}"
        self.put(term, text)

    def shift(self, term: Scalar, values: list[str], source: DType) -> str:
        """A shift; counts of the width or more give 0 or the sign."""
        op = "shl" if term.op.name == "shl" else "ashr" if source.signed else "lshr"
        vector, mark = self.vector(source), f"%s{len(self.names)}"
        count = values[1]
        self.lines.append(f"  {mark}c = icmp ult {vector} {count}, {self.constant(source.bits, source)}")
        limit = self.constant(source.bits - 1, source)
        self.lines.append(f"  {mark}n = select <{self.lanes} x i1> {mark}c, {vector} {count}, {vector} {limit}")
        if op == "ashr":
            return f"ashr {vector} {values[0]}, {mark}n"
        self.lines.append(f"  {mark}r = {op} {vector} {values[0]}, {mark}n")
        return f"select <{self.lanes} x i1> {mark}c, {vector} {mark}r, {vector} zeroinitializer"

    def high_product(self, term: Scalar, values: list[str], source: DType) -> str:
        """The high half of an unsigned product."""
        wide, vector, mark = f"<{self.lanes} x i{source.bits * 2}>", self.vector(source), f"%h{len(self.names)}"
        self.lines.append(f"  {mark}a = zext {vector} {values[0]} to {wide}")
        self.lines.append(f"  {mark}b = zext {vector} {values[1]} to {wide}")
        self.lines.append(f"  {mark}p = mul {wide} {mark}a, {mark}b")
        width = "<" + ", ".join([f"i{source.bits * 2} {source.bits}"] * self.lanes) + ">"
        self.lines.append(f"  {mark}h = lshr {wide} {mark}p, {width}")
        return f"trunc {wide} {mark}h to {vector}"

    def scale(self, values: list[str], source: DType) -> str:
        """A number times a power of two: one exact factor for half of the exponent, one for the rest."""
        whole, vector, mark = f"<{self.lanes} x i{source.bits}>", self.vector(source), f"%p{len(self.names)}"
        fraction, bias = (23, 127) if source is float32 else (52, 1023)
        kind = f"v{self.lanes}i{source.bits}.{self.suffix(source)}"
        same = f"<{', '.join([f'i{source.bits} {{0}}'] * self.lanes)}>"
        self.lines.append(f"  {mark}n = call {whole} @llvm.fptosi.sat.{kind}({vector} {values[1]})")
        self.lines.append(f"  {mark}h = ashr {whole} {mark}n, {same.format(1)}")
        self.lines.append(f"  {mark}r = sub {whole} {mark}n, {mark}h")
        for part in "hr":
            self.lines.append(f"  {mark}{part}b = add {whole} {mark}{part}, {same.format(bias)}")
            self.lines.append(f"  {mark}{part}s = shl {whole} {mark}{part}b, {same.format(fraction)}")
            self.lines.append(f"  {mark}{part}f = bitcast {whole} {mark}{part}s to {vector}")
        self.lines.append(f"  {mark}x = fmul {vector} {values[0]}, {mark}hf")
        return f"fmul {vector} {mark}x, {mark}rf"

    def cast(self, value: str, source: DType, target: DType) -> str:
        """A conversion."""
        given, wanted = self.vector(source), self.vector(target)
        if target.kind is Kind.BOOL:
            kind = "fcmp une" if source.kind is Kind.FLOAT else "icmp ne"
            return f"{kind} {given} {value}, zeroinitializer"
        if source.kind is Kind.FLOAT and target.kind is Kind.FLOAT:
            return f"{'fpext' if target.bits > source.bits else 'fptrunc'} {given} {value} to {wanted}"
        if source.kind is Kind.FLOAT:
            name = f"fpto{'s' if target.signed else 'u'}i.sat.{self.suffix(target)}.{self.suffix(source)}"
            return self.call(name, target, [(source, value)])
        signed = source.signed and source.kind is not Kind.BOOL
        if target.kind is Kind.FLOAT:
            return f"{'s' if signed else 'u'}itofp {given} {value} to {wanted}"
        if source.kind is not Kind.BOOL and target.bits <= source.bits:
            return f"{'trunc' if target.bits < source.bits else 'bitcast'} {given} {value} to {wanted}"
        return f"{'s' if signed else 'z'}ext {given} {value} to {wanted}"


class Compiled:
    """A scalar function as native code: call it on arrays of one length, a multiple of the lanes."""

    def __init__(self, function: Function, dtypes: tuple[DType, ...], target: str = "native", lanes: int = 16) -> None:
        buffers = [Buffer(f"x{i}", TensorType((), dtype)) for i, dtype in enumerate(dtypes)]
        loads = [load(buffer) for buffer in buffers]
        body = function(*loads)
        self.result = body.type
        self.lanes = lanes
        self.text = self._module(body, loads)
        self.machine = llvm.target_named(target)
        self.module = llvm.load_object(llvm.compile_object(self.text, self.machine))
        pointers = [ctypes.c_void_p] * (len(dtypes) + 1)
        self.entry = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(self.module.address("loop"))

    def _module(self, body: Scalar, loads: list[Scalar]) -> str:
        emitter = Emitter(self.lanes)
        head: list[str] = []
        for position, item in enumerate(loads):
            emitter.names[item] = f"%x{position}"
            vector = emitter.vector(item.type)
            head.append(f"  %a{position} = getelementptr {emitter.element(item.type)}, ptr %p{position}, i64 %i")
            head.append(f"  %x{position} = load {vector}, ptr %a{position}, align 4")
        for term in postorder([body]):
            if term not in emitter.names:
                emitter.emit(term)
        parameters = ", ".join([f"ptr %p{position}" for position in range(len(loads))])
        result, element = emitter.vector(body.type), emitter.element(body.type)
        name = emitter.names[body]
        return "\n".join(
            [
                *sorted(emitter.declared),
                f"define void @loop(i64 %n, ptr %out, {parameters}) {{",
                "start:",
                "  br label %body",
                "body:",
                "  %i = phi i64 [ 0, %start ], [ %next, %body ]",
                *head,
                *emitter.lines,
                f"  %place = getelementptr {element}, ptr %out, i64 %i",
                f"  store {result} {name}, ptr %place, align 4",
                f"  %next = add i64 %i, {self.lanes}",
                "  %more = icmp slt i64 %next, %n",
                "  br i1 %more, label %body, label %end",
                "end:",
                "  ret void",
                "}",
            ]
        )

    def __call__(self, *arrays: Any) -> Any:
        """The results, one for each element."""
        count = arrays[0].size
        padded = -(-count // self.lanes) * self.lanes
        given = [
            np.concatenate([array, np.ones(padded - count, array.dtype)]) if padded > count else array
            for array in arrays
        ]
        out = np.empty(padded, self.result.numpy)
        self.entry(padded, out.ctypes.data, *[np.ascontiguousarray(array).ctypes.data for array in given])
        return out[:count]
