"""Bytes that are shifted and then widened are computed in 32 bits, with the same values.

No processor here shifts bytes: code for it shifts pairs of them and masks what crosses, and the results then spread
over four vectors. A load that spreads bytes over words is one instruction, and so is each shift after it.
"""

from __future__ import annotations

from rushlight.ir.dtype import DType, Kind, int32, integer_limits
from rushlight.ir.scalar import OPS, Scalar, apply, cast, constant
from rushlight.schedule.lower.rewrite import rebuild
from rushlight.support.frozen import frozen
from rushlight.term import postorder, substitute

_CAST, _CONSTANT = OPS["cast"], OPS["constant"]
_SHIFTS = (OPS["shl"], OPS["shr"])
_CHOICES = (OPS["select"], OPS["guard"])
_COMPARISONS = (OPS["lt"], OPS["le"], OPS["eq"], OPS["ne"])
_BITWISE = (OPS["and"], OPS["or"], OPS["xor"])
_SUMS = (OPS["add"], OPS["sub"])


def in_words(body: Scalar) -> Scalar:
    """A body whose shifted bytes are words where wider values are made of them."""
    images: dict[Scalar, Scalar] = {}
    words: dict[Scalar, _Word] = {}
    for term in postorder([body]):
        if term.op is not _CAST or not _is_byte(term.operands[0].type) or term.type.itemsize == 1:
            continue
        parts = list(postorder(term.operands, _below))
        if any(part.op in _SHIFTS for part in parts):
            for part in parts:
                if part not in words and _is_byte(part.type):
                    words[part] = _word(part, words)
            word = words[term.operands[0]].value
            if word.op is not _CAST:
                images[term] = cast(word, term.type)
    return substitute([body], images, rebuild)[0] if images else body


@frozen
class _Word:
    """The value of a byte as an int32, and the least and the most that it can be."""

    value: Scalar
    least: int
    most: int


def _is_byte(dtype: DType) -> bool:
    return dtype.kind is Kind.INT and dtype.bits == 8


def _below(term: Scalar) -> tuple[Scalar, ...]:
    """What a byte is computed from: bytes, and comparisons of bytes."""
    is_comparison = term.op in _COMPARISONS and _is_byte(term.operands[0].type)
    inside = term.op in (*_SHIFTS, *_CHOICES, *_BITWISE, *_SUMS) and _is_byte(term.type)
    return term.operands if inside or is_comparison else ()


def _word(term: Scalar, words: dict[Scalar, _Word]) -> _Word:
    """The word of a byte, given those of its operands; the byte converted where that is no simpler."""
    least, most = integer_limits(term.type)
    if term.op is _CONSTANT:
        number = term.attr("value")
        return _Word(constant(number, int32), number, number)
    found: _Word | None = None
    if term.op in _SHIFTS:
        found = _shifted(term, words)
    elif term.op in _BITWISE:
        a, b = (words[operand] for operand in term.operands)
        small = min(a.most, b.most) if term.op.name == "and" and min(a.least, b.least) >= 0 else None
        mask = next((word.most for word in (a, b) if term.op.name == "and" and word.least == word.most >= 0), small)
        found = _Word(apply(term.op.name, a.value, b.value), *((least, most) if mask is None else (0, mask)))
    elif term.op in _SUMS:
        a, b = (words[operand] for operand in term.operands)
        low, high = (b.least, b.most) if term.op.name == "add" else (-b.most, -b.least)
        low, high = a.least + low, a.most + high
        if least <= low and high <= most:
            found = _Word(apply(term.op.name, a.value, b.value), low, high)
    elif term.op in _CHOICES:
        condition, a, b = term.operands
        chosen = apply(term.op.name, _condition(condition, words), words[a].value, words[b].value)
        found = _Word(chosen, min(words[a].least, words[b].least), max(words[a].most, words[b].most))
    return found or _Word(cast(term, int32), least, most)


def _shifted(term: Scalar, words: dict[Scalar, _Word]) -> _Word | None:
    """A byte shifted by a constant: to the left its upper bits are dropped, and a sign extends anew."""
    byte, count = words[term.operands[0]], words[term.operands[1]]
    places = count.least
    if count.least != count.most or not 0 <= places < 8:
        return None
    if term.op.name == "shr":
        return _Word(byte.value >> places, byte.least >> places, byte.most >> places)
    if term.type.signed:
        return _Word(byte.value << (24 + places) >> 24, *integer_limits(term.type))
    return _Word(byte.value << places & 0xFF, 0, 0xFF)


def _condition(term: Scalar, words: dict[Scalar, _Word]) -> Scalar:
    """A condition, on words if it compares bytes."""
    if term.op in _COMPARISONS and all(operand in words for operand in term.operands):
        return apply(term.op.name, *[words[operand].value for operand in term.operands])
    return term
