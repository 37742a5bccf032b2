"""Instructions that only AVX-512 has (`vrange`, `vscalef`), emitted one 512-bit register at a time."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.vector_types import Shape, vector_type

_REGISTER_BITS = 512
_CURRENT_ROUNDING = "i32 4"


def fills_registers(ctx: Context, shape: Shape) -> bool:
    """Whether the target has AVX-512 and the shape is a whole number of its registers."""
    target = ctx.target
    return target.has_masks and target.architecture == "x86_64" and shape.lanes % (_REGISTER_BITS // shape.bits) == 0


def by_registers(scope: Scope, shape: Shape, name: str, operands: tuple[str, ...], *controls: str) -> str:
    """Applies a float instruction register by register; `controls` are its immediate operands, if any."""
    register = _REGISTER_BITS // shape.bits
    if shape.lanes == register:
        return _call(scope, shape, name, operands, controls)
    registers: list[str] = []
    for start in range(0, shape.lanes, register):
        chosen = ", ".join([f"i32 {lane}" for lane in range(start, start + register)])
        pick = f"{vector_type(register, 'i32')} <{chosen}>"
        parts = [
            scope.let(f"shufflevector {shape.type} {operand}, {shape.type} poison, {pick}") for operand in operands
        ]
        registers.append(_call(scope, shape, name, tuple(parts), controls))
    lanes = register
    while len(registers) > 1:
        kind = vector_type(lanes, shape.scalar)
        lanes *= 2
        chosen = ", ".join([f"i32 {lane}" for lane in range(lanes)])
        pick = f"{vector_type(lanes, 'i32')} <{chosen}>"
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [scope.let(f"shufflevector {kind} {low}, {kind} {high}, {pick}") for low, high in pairs]
    return registers[0]


def _call(scope: Scope, shape: Shape, name: str, operands: tuple[str, ...], controls: tuple[str, ...]) -> str:
    lanes = _REGISTER_BITS // shape.bits
    kind, suffix = vector_type(lanes, shape.scalar), "ps" if shape.bits == 32 else "pd"
    values = [*[f"{kind} {operand}" for operand in operands], *controls]
    all_lanes = f"{kind} {operands[0]}, i{lanes} -1"
    return scope.let(
        f"call {kind} @llvm.x86.avx512.mask.{name}.{suffix}.512({', '.join(values)}, {all_lanes}, {_CURRENT_ROUNDING})"
    )
