"""Size expressions as 64-bit integer code: each part is hoisted to the outermost scope that binds its axes.

A size is a sum of parts, `coefficient * product of atoms`; an atom is a symbol, a floor division, a minimum or a
maximum. Output: the text of an i64, or of a vector of i64 for all lanes. Address arithmetic is most of a kernel's
integer code; every partial sum and product is emitted once per scope.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rushlight.codegen.llvm.builder.analysis import CONSTANT, INDEX
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Scope, splat
from rushlight.codegen.llvm.builder.vector_types import lane_numbers
from rushlight.ir.dtype import int64
from rushlight.ir.scalar import Scalar
from rushlight.sym import Size, SizeExpr, is_nonnegative, parts

Part = tuple[int, tuple[SizeExpr, ...]]


def size_text(ctx: Context, size: Size, scope: Scope) -> str:
    """The value of a size as an i64; vectorised axes have their value in lane 0."""
    if isinstance(size, int):
        return str(size)
    home = ctx.hoist(ctx.analysis.size_axes(size), 0, scope)
    text = home.sizes.get(size)
    if text is None:
        text = home.sizes[size] = sum_text(ctx, parts(size), home)
    return text


def sum_text(ctx: Context, summands: Iterable[Part], scope: Scope) -> str:
    """The value of a sum of parts; partial sums are hoisted."""
    by_scope: dict[Scope, list[Part]] = {}
    constant = 0
    for part in summands:
        if part[1]:
            by_scope.setdefault(ctx.hoist(ctx.analysis.atoms_axes(part[1]), 0, scope), []).append(part)
        else:
            constant += part[0]
    if not by_scope:
        return str(constant)
    total = ""
    homes = sorted(by_scope, key=_depth)
    for home in homes:
        # Keyed by values, not symbols: two axes of one loop have one value.
        texts = [_common_text(ctx, mine, others, home) for mine, others in _by_factors(ctx, by_scope[home], home)]
        if constant and home is homes[-1]:
            texts.append(str(constant))
        key = (total, "+", *texts)
        partial = home.sizes.get(key)
        if partial is None:
            partial = total
            for text in texts:
                partial = _plus(home, partial, text)
            home.sizes[key] = partial
        total = partial
    return total


def _by_factors(
    ctx: Context, summands: Iterable[Part], scope: Scope
) -> Iterable[tuple[tuple[SizeExpr, ...], list[Part]]]:
    """Groups parts by the factors that this scope binds; the others are their cofactors."""
    groups: dict[tuple[SizeExpr, ...], list[Part]] = {}
    for coefficient, atoms in summands:
        mine = tuple([atom for atom in atoms if ctx.hoist(ctx.analysis.size_axes(atom), 0, scope) is scope])
        others = tuple([atom for atom in atoms if atom not in mine])
        groups.setdefault(mine, []).append((coefficient, others))
    return groups.items()


def _common_text(ctx: Context, factors: tuple[SizeExpr, ...], cofactors: list[Part], scope: Scope) -> str:
    """The value of a product of factors times a sum of parts, which is hoisted."""
    if len(cofactors) == 1 or not factors:
        texts = [part_text(ctx, (coefficient, (*others, *factors)), scope) for coefficient, others in cofactors]
        return functools.reduce(functools.partial(_plus, scope), texts)
    axes = 0
    for _, others in cofactors:
        axes |= ctx.analysis.atoms_axes(others)
    total = sum_text(ctx, cofactors, ctx.hoist(axes, 0, scope))
    key = (total, "*", factors)
    text = scope.sizes.get(key)
    if text is None:
        text = scope.sizes[key] = scope.let(f"mul i64 {part_text(ctx, (1, factors), scope)}, {total}")
    return text


def _depth(scope: Scope) -> int:
    return scope.depth


def _plus(scope: Scope, a: str, b: str) -> str:
    return b if not a or a == "0" else scope.let(f"add i64 {a}, {b}")


def part_text(ctx: Context, part: Part, scope: Scope) -> str:
    """The value of coefficient * product of atoms, multiplied from the outermost scope inwards."""
    coefficient, atoms = part
    hoisted = [(ctx.hoist(ctx.analysis.size_axes(atom), 0, scope), atom) for atom in atoms]
    if len(hoisted) > 1:
        hoisted.sort(key=lambda pair: pair[0].depth)
    result = "" if coefficient == 1 and hoisted else str(coefficient)
    for home, atom in hoisted:
        value = atom_text(ctx, atom, home)
        if not result:
            result = value
            continue
        key = (result, "*", value)
        product = home.sizes.get(key)
        if product is None:
            product = home.sizes[key] = home.let(f"mul i64 {value}, {result}")
        result = product
    return result


def atom_text(ctx: Context, atom: SizeExpr, scope: Scope) -> str:
    """The value of a symbol, a floor division, a minimum or a maximum."""
    outer: Scope | None = scope
    while outer is not None:
        text = outer.sizes.get(atom)
        if text is not None:
            return text
        outer = outer.parent
    if atom.op.name == "symbol":
        return ctx.size_symbol(atom)
    if atom.op.name == "floordiv":
        text = _floordiv(ctx, atom, scope)
    else:
        text = size_text(ctx, atom.operands[0], scope)
        for operand in atom.operands[1:]:
            other = size_text(ctx, operand, scope)
            text = scope.let(f"call i64 @llvm.s{atom.op.name}.i64(i64 {text}, i64 {other})")
    scope.sizes[atom] = text
    return text


def divisor_text(ctx: Context, size: Size, scope: Scope) -> str:
    """A divisor, at least 1: it is 0 only if a dim is empty, and then nothing uses the quotient."""
    if isinstance(size, int):
        return str(max(size, 1))
    home = ctx.hoist(ctx.analysis.size_axes(size), 0, scope)
    key = (size, "divisor")
    divisor = home.sizes.get(key)
    if divisor is None:
        text = size_text(ctx, size, home)
        divisor = home.sizes[key] = home.let(f"call i64 @llvm.smax.i64(i64 {text}, i64 1)")
    return divisor


def _floordiv(ctx: Context, atom: SizeExpr, scope: Scope) -> str:
    """A floor division: by a constant as integers, else as doubles, in a third of the cycles.

    `_floordiv_lanes` says why doubles are exact.
    """
    dividend, divisor = atom.operands
    a = size_text(ctx, dividend, scope)
    if not isinstance(divisor, int):
        a_double = scope.let(f"sitofp i64 {a} to double")
        quotient = scope.let(f"fdiv double {a_double}, {_divisor_double(ctx, divisor, scope)}")
        if not is_nonnegative(dividend):
            quotient = scope.let(f"call double @llvm.floor.f64(double {quotient})")
        return scope.let(f"fptosi double {quotient} to i64")
    if is_nonnegative(dividend):
        return scope.let(f"udiv i64 {a}, {max(divisor, 1)}")
    quotient = scope.let(f"sdiv i64 {a}, {max(divisor, 1)}")
    rest = scope.let(f"sub i64 {a}, {scope.let(f'mul i64 {quotient}, {max(divisor, 1)}')}")
    return scope.let(f"add i64 {quotient}, {scope.let(f'ashr i64 {rest}, 63')}")


def _divisor_double(ctx: Context, size: SizeExpr, scope: Scope) -> str:
    home = ctx.hoist(ctx.analysis.size_axes(size), 0, scope)
    key = (size, "double")
    divisor = home.sizes.get(key)
    if divisor is None:
        divisor = home.sizes[key] = home.let(f"sitofp i64 {divisor_text(ctx, size, home)} to double")
    return divisor


class Affine:
    """A size in all lanes of a scope: lane l has `base + l * stride + extra[l]`.

    `base` are the parts in lane 0, `stride` is an int or the text of an i64, `extra` the text of a vector of i64 or
    None. If `repeats` is not 0, lane l has `base + l // repeats`.
    """

    __slots__ = ("base", "extra", "repeats", "stride")

    def __init__(self, base: list[Part], stride: int | str, extra: str | None, repeats: int = 0) -> None:
        self.base = base
        self.stride = stride
        self.extra = extra
        self.repeats = repeats


def affine(ctx: Context, summands: Iterable[Part], scope: Scope) -> Affine:
    """Splits a sum by its dependence on the vectorised axes of `scope`."""
    lanes = scope.vector
    if lanes is None:
        return Affine(list(summands), 0, None)
    base: list[Part] = []
    steps: list[Part] = []
    extra: str | None = None
    repeats: list[int] = []
    size_axes = ctx.analysis.size_axes
    for part in summands:
        coefficient, atoms = part
        moving = [atom for atom in atoms if size_axes(atom) & lanes.axes and atom not in lanes.uniform]
        if not moving:
            base.append(part)
        elif len(moving) == 1 and moving[0].op.name == "symbol":
            base.append(part)
            steps.append((coefficient, tuple([atom for atom in atoms if atom is not moving[0]])))
        elif len(moving) == 1 and is_aligned(ctx, moving[0], lanes):
            base.append(part)
            others = tuple([atom for atom in atoms if atom is not moving[0]])
            product = _steps_of_quotient(ctx, (coefficient, others), moving[0], scope)
            if product is not None:
                repeats.append(moving[0].operands[1] if coefficient == 1 and not others else 0)
                extra = product if extra is None else scope.let(f"add <{lanes.width} x i64> {extra}, {product}")
        else:
            repeats.append(0)
            product = _part_lanes(ctx, part, ctx.hoist(ctx.analysis.atoms_axes(atoms), 0, scope))
            extra = product if extra is None else scope.let(f"add <{lanes.width} x i64> {extra}, {product}")
    stride: int | str = sum([step[0] for step in steps if not step[1]])
    if any(step[1] for step in steps):
        stride = sum_text(ctx, steps, scope)
    only = repeats[0] if len(repeats) == 1 and stride == 0 else 0
    return Affine(base, stride, extra, only if isinstance(only, int) else 0)


def is_aligned(ctx: Context, atom: SizeExpr, lanes: Lanes) -> bool:
    """Whether an atom is the vectorised axis divided by a constant, with steps at constant lanes or none."""
    if atom.op.name != "floordiv" or not lanes.aligned:
        return False
    dividend, divisor = atom.operands
    if not isinstance(dividend, SizeExpr) or dividend.op.name != "symbol" or not isinstance(divisor, int):
        return False
    return (
        ctx.analysis.size_axes(dividend) == lanes.axes
        and divisor > 0
        and 0 in (lanes.width % divisor, divisor % lanes.width)
    )


def _steps_of_quotient(ctx: Context, factor: Part, atom: SizeExpr, scope: Scope) -> str | None:
    """The step of a quotient times uniform factors in each lane; None if it is 0 in all lanes."""
    lanes, (coefficient, others) = scope.vector, factor
    divisor = atom.operands[1]
    assert lanes is not None
    assert isinstance(divisor, int)
    if divisor >= lanes.width:
        return None
    steps = f"<{', '.join([f'i64 {coefficient * (lane // divisor)}' for lane in range(lanes.width)])}>"
    if not others:
        return steps
    factors = splat_i64(scope, part_text(ctx, (1, others), scope), lanes.width)
    return scope.let(f"mul <{lanes.width} x i64> {factors}, {steps}")


def lanes_text(ctx: Context, summands: Iterable[Part], scope: Scope) -> str:
    """The values of a sum in all lanes, a vector of i64."""
    split = affine(ctx, summands, scope)
    assert scope.vector is not None
    width = scope.vector.width
    base = splat_i64(scope, sum_text(ctx, split.base, scope), width)
    return add_steps(scope, base, split, width)


def add_steps(scope: Scope, base: str, split: Affine, width: int) -> str:
    """Adds the stride and extra steps of an affine size to `base`."""
    vector = f"<{width} x i64>"
    result = base
    if split.stride != 0:
        steps = lane_numbers(width, "i64")
        if split.stride != 1:
            steps = scope.let(f"mul {vector} {steps}, {splat_i64(scope, str(split.stride), width)}")
        result = scope.let(f"add {vector} {result}, {steps}")
    return result if split.extra is None else scope.let(f"add {vector} {result}, {split.extra}")


def splat_i64(scope: Scope, text: str, width: int) -> str:
    """An i64 in all lanes."""
    if text.lstrip("-").isdigit():
        return f"splat (i64 {text})"
    key = (text, width)
    vector = scope.sizes.get(key)
    if vector is None:
        vector = scope.sizes[key] = splat(scope, f"<{width} x i64>", "i64", text, width)
    return vector


def _part_lanes(ctx: Context, part: Part, scope: Scope) -> str:
    lanes = scope.vector
    assert lanes is not None
    coefficient, atoms = part
    size_axes = ctx.analysis.size_axes
    still = tuple([atom for atom in atoms if not size_axes(atom) & lanes.axes or atom in lanes.uniform])
    result = ""
    if coefficient != 1 or still:
        result = splat_i64(scope, part_text(ctx, (coefficient, still), scope), lanes.width)
    for atom in atoms:
        if atom not in still:
            value = _atom_lanes(ctx, atom, scope)
            result = value if not result else scope.let(f"mul <{lanes.width} x i64> {result}, {value}")
    return result


def _size_lanes(ctx: Context, size: Size, scope: Scope) -> str:
    assert scope.vector is not None
    if isinstance(size, int):
        return splat_i64(scope, str(size), scope.vector.width)
    key = (size, "lanes")
    text = scope.sizes.get(key)
    if text is None:
        text = scope.sizes[key] = lanes_text(ctx, parts(size), scope)
    return text


def _atom_lanes(ctx: Context, atom: SizeExpr, scope: Scope) -> str:
    lanes = scope.vector
    assert lanes is not None
    if atom.op.name == "symbol":
        return lanes_text(ctx, ((1, (atom,)),), scope)
    key = (atom, "lanes")
    text = scope.sizes.get(key)
    if text is None:
        divisor = atom.operands[-1]
        text, *rest = [_size_lanes(ctx, operand, scope) for operand in atom.operands]
        if atom.op.name == "floordiv" and isinstance(divisor, int) and divisor.bit_count() == 1:
            text = scope.let(f"ashr <{lanes.width} x i64> {text}, splat (i64 {divisor.bit_length() - 1})")
        elif atom.op.name == "floordiv":
            text = _floordiv_lanes(scope, text, rest[0], lanes.width)
        else:
            vector, name = f"<{lanes.width} x i64>", f"@llvm.s{atom.op.name}.v{lanes.width}i64"
            for operand in rest:
                text = scope.let(f"call {vector} {name}({vector} {text}, {vector} {operand})")
        scope.sizes[key] = text
    return text


def _floordiv_lanes(scope: Scope, a: str, b: str, width: int) -> str:
    """Divides as doubles, exactly while |a| + b < 2**53: a fractional quotient is at least 1/b from an integer."""
    vector, doubles = f"<{width} x i64>", f"<{width} x double>"
    b = scope.let(f"call {vector} @llvm.smax.v{width}i64({vector} {b}, {vector} splat (i64 1))")
    a_double = scope.let(f"sitofp {vector} {a} to {doubles}")
    b_double = scope.let(f"sitofp {vector} {b} to {doubles}")
    quotient = scope.let(f"fdiv {doubles} {a_double}, {b_double}")
    floor = scope.let(f"call {doubles} @llvm.floor.v{width}f64({doubles} {quotient})")
    return scope.let(f"fptosi {doubles} {floor} to {vector}")


class Offset:
    """An element offset as a sum of size parts and of data-dependent scalars with factors."""

    __slots__ = ("data", "parts")

    def __init__(self, offset: Scalar | Size) -> None:
        self.parts: list[Part] = []
        self.data: list[tuple[int, Scalar]] = []
        if not isinstance(offset, Scalar):
            self.parts.extend(parts(offset))
            return
        stack: list[tuple[int, Scalar]] = [(1, offset)]
        while stack:
            factor, term = stack.pop()
            name = term.op.name
            if term.op is INDEX:
                self.parts.extend([(factor * coefficient, atoms) for coefficient, atoms in parts(term.attr("expr"))])
            elif term.op is CONSTANT:
                self.parts.append((factor * term.attr("value"), ()))
            elif name == "add" and term.type is int64:
                stack.extend([(factor, operand) for operand in reversed(term.operands)])
            elif name == "sub" and term.type is int64:
                stack.extend([(-factor, term.operands[1]), (factor, term.operands[0])])
            else:
                self.data.append((factor, term))
