"""Sizes as infix text, the same in Python and in our IR: `2*s0*s1 + s0//4 + 1`, `min(s0, 8)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from rushlight.support.errors import RushlightError, error
from rushlight.sym.arithmetic import add, maximum, minimum, multiply, subtract
from rushlight.sym.division import divides_as_declared, floordiv, mod
from rushlight.sym.expr import (
    FLOORDIV,
    PRODUCT,
    SUM,
    SYMBOL,
    Rules,
    Size,
    SizeExpr,
    atoms_of,
    below,
    constant_of,
    terms,
)
from rushlight.sym.prover import Monomial, by_serial, to_polynomial, without_atoms
from rushlight.sym.query import bottom_up


class HasSymbols(Protocol):
    """What can name the symbols of a text: a `Scope`."""

    @property
    def symbols(self) -> Mapping[str, SizeExpr]:
        """The symbols by name."""
        ...


def format_size(e: Size, names: Mapping[SizeExpr, str] | None = None) -> str:
    """Text that `parse_size` reads back as the same object. `names` overrides the names of symbols.

    Products are ordered by degree, then by their text, so that the text depends on names and structure alone.
    """
    if isinstance(e, int):
        return str(e)
    texts: dict[SizeExpr, str] = {}
    for node in bottom_up(e, into=_formatted_first):
        texts[node] = _format_node(node, texts, names)
    return texts[e]


def to_python(e: Size, names: Mapping[SizeExpr, str]) -> str:
    """Python source for `e`, given the source of each symbol, a name or in parentheses."""
    if isinstance(e, int):
        return str(e)
    texts: dict[SizeExpr, str] = {}
    for node in bottom_up(e, into=_formatted_first):
        texts[node] = names[node] if node.op is SYMBOL else _format_node(node, texts, names)
    return texts[e]


def _formatted_first(e: SizeExpr) -> Iterable[SizeExpr]:
    return [product for product, _ in terms(e)] if e.op is SUM else below(e)


def _format_node(e: SizeExpr, texts: Mapping[SizeExpr, str], names: Mapping[SizeExpr, str] | None) -> str:
    if e.op is SYMBOL:
        return (names.get(e) if names is not None else None) or e.facts.name
    if e.op is SUM:
        return _format_sum(e, texts)
    if e.op is PRODUCT:
        return _format_product(e.operands, texts)
    if e.op is FLOORDIV:
        dividend, divisor = e.operands
        return f"{_format_dividend(dividend, texts)}//{_format_divisor(divisor, texts)}"
    integers = [str(operand) for operand in e.operands if isinstance(operand, int)]
    others = sorted([texts[operand] for operand in e.operands if isinstance(operand, SizeExpr)], key=natural_order)
    return f"{e.op.name}({', '.join(others + integers)})"


def _format_dividend(e: Size, texts: Mapping[SizeExpr, str]) -> str:
    if isinstance(e, int):
        return str(e) if e >= 0 else f"({e})"
    return f"({texts[e]})" if e.op in (SUM, FLOORDIV) else texts[e]


def _format_divisor(e: Size, texts: Mapping[SizeExpr, str]) -> str:
    if isinstance(e, int):
        return str(e)
    return f"({texts[e]})" if e.op in (SUM, PRODUCT, FLOORDIV) else texts[e]


def _format_product(atoms: Iterable[SizeExpr], texts: Mapping[SizeExpr, str]) -> str:
    return "*".join(sorted([_grouped(atom, texts) for atom in atoms], key=natural_order))


def _grouped(e: SizeExpr, texts: Mapping[SizeExpr, str]) -> str:
    return f"({texts[e]})" if e.op is FLOORDIV else texts[e]


def _format_sum(e: SizeExpr, texts: Mapping[SizeExpr, str]) -> str:
    table = {atoms_of(product): scale for product, scale in terms(e)}
    constant = constant_of(e)
    rows: list[tuple[int, str, int, bool]] = []  # degree, text, coefficient, whether the text binds loosely
    for monomial in _with_quotients(table, texts):
        taken = _take_remainder(table, constant, monomial) if monomial in table else None
        if taken is None:
            continue
        constant, scale, others, quotient = taken
        dividend, divisor = quotient.operands
        text = f"{_format_dividend(dividend, texts)}%{_format_divisor(divisor, texts)}"
        if others:
            text = "*".join(sorted([_grouped(atom, texts) for atom in others] + [f"({text})"], key=natural_order))
        rows.append((len(others) + 1, text, scale, not others))
    for monomial, scale in table.items():
        loose = len(monomial) == 1 and monomial[0].op is FLOORDIV
        text = texts[monomial[0]] if len(monomial) == 1 else _format_product(monomial, texts)
        rows.append((len(monomial), text, scale, loose))
    if len(rows) > 1:
        rows.sort(key=lambda row: (-row[0], natural_order(row[1])))
    return _join_rows(rows, constant)


def _join_rows(rows: Iterable[tuple[int, str, int, bool]], constant: int) -> str:
    pieces: list[str] = []
    for _, text, scale, loose in rows:
        sign = (" - " if scale < 0 else " + ") if pieces else ("-" if scale < 0 else "")
        factor = "" if abs(scale) == 1 else f"{abs(scale)}*"
        # -(x//4) and 2*(x//4), but x//4: the sign and the factor bind tighter.
        grouped = loose and (factor or (scale < 0 and not pieces))
        pieces.append(f"{sign}{factor}{f'({text})' if grouped else text}")
    if constant or not pieces:
        pieces.append(f" {'-' if constant < 0 else '+'} {abs(constant)}" if pieces else str(constant))
    return "".join(pieces)


def _with_quotients(table: Mapping[Monomial, int], texts: Mapping[SizeExpr, str]) -> list[Monomial]:
    """The products with a quotient, outermost quotients first, in an order set by names alone."""
    monomials = [monomial for monomial in table if any(atom.op is FLOORDIV for atom in monomial)]
    return (
        monomials
        if len(monomials) < 2
        else sorted(monomials, key=lambda one: _by_length("*".join([texts[x] for x in one])))
    )


def _by_length(text: str) -> tuple[int, str]:
    return -len(text), text


def _take_remainder(
    table: dict[Monomial, int], constant: int, monomial: Monomial
) -> tuple[int, int, Monomial, SizeExpr] | None:
    """Takes scale*others*(x - n*(x//n)) out of the table; returns (constant left, scale, others, x//n)."""
    for quotient in monomial:
        if quotient.op is not FLOORDIV or monomial.count(quotient) > 1:
            continue
        dividend, divisor = quotient.operands
        if divides_as_declared(divisor, dividend):
            continue  # mod() would not build it
        step = to_polynomial(divisor)
        ((step_atoms, step_scale),) = step.items() if len(step) == 1 else (((), 0),)
        others = without_atoms(tuple([atom for atom in monomial if atom is not quotient]), step_atoms)
        if not step_scale or others is None or table[monomial] % step_scale:
            continue
        scale = -table[monomial] // step_scale
        wanted = {
            tuple(sorted(others + atoms, key=by_serial)): scale * part
            for atoms, part in to_polynomial(dividend).items()
        }
        left = constant - wanted.pop((), 0)
        if wanted and all(table.get(atoms) == part for atoms, part in wanted.items()):
            for atoms in (*wanted, monomial):
                del table[atoms]
            return left, scale, others, quotient
    return None


_PIECE = re.compile(r"\d+|\D+")


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """A key under which s2 comes before s10."""
    return [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in _PIECE.findall(text)]


_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_][\w.]*)|(?P<mark>//|[-+*%(),]))")
_BINARY: dict[str, tuple[int, Callable[[Size, Size], Size]]] = {
    "+": (1, add),
    "-": (1, subtract),
    "*": (2, multiply),
    "//": (2, floordiv),
    "%": (2, mod),
}
_CALLS: dict[str, Callable[[Size, Size], Size]] = {"min": minimum, "max": maximum}


def parse_size(text: str, scope_or_names: HasSymbols | Mapping[str, Size]) -> Size:
    """The size that `text` denotes: integers, names, `+ - * // %`, `min(...)`, `max(...)` and parentheses."""
    names = scope_or_names if isinstance(scope_or_names, Mapping) else scope_or_names.symbols
    return _Parser(text, names).parse()


class _Parser:
    """Operator precedence with explicit stacks, so that depth of nesting is no matter."""

    def __init__(self, text: str, names: Mapping[str, Size]) -> None:
        self.text = text
        self.names = names
        self.values: list[Size] = []
        self.pending: list[str] = []  # operators; "neg"; "(", or "min(" and "max(" for calls
        self.counts: list[int] = []  # arguments so far of each open parenthesis

    def parse(self) -> Size:
        wants_value = True
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._error("unexpected text", position)
            position = match.end()
            token, kind = match.group(match.lastgroup or 0), match.lastgroup
            if not wants_value:
                wants_value = self._after_value(token, position)
            elif kind == "number":
                self.values.append(int(token))
                wants_value = False
            elif kind == "name" and token in _CALLS and self.text.startswith("(", position):
                self._open(f"{token}(")
                position += 1
            elif kind == "name":
                self.values.append(self._named(token, position))
                wants_value = False
            elif token == "(":
                self._open("(")
            elif token == "-":
                self.pending.append("neg")
            elif token != "+":
                raise self._error(f"a value is missing before {token!r}", position)
        if wants_value:
            raise self._error("a value is missing", position)
        self._reduce(0)
        if self.pending:
            raise self._error("a parenthesis is not closed", position)
        return self.values.pop()

    def _after_value(self, token: str, position: int) -> bool:
        """Takes what may follow a value; returns whether a value must come next."""
        if token in _BINARY:
            self._reduce(_BINARY[token][0])
            self.pending.append(token)
            return True
        if token not in (",", ")"):
            raise self._error(f"an operator is missing before {token!r}", position)
        self._reduce(0)
        if not self.pending or (token == "," and self.pending[-1] == "("):
            raise self._error(f"unexpected {token!r}", position)
        self.counts[-1] += 1
        if token == ",":
            return True
        opened, count = self.pending.pop(), self.counts.pop()
        if opened != "(":
            operands = self.values[-count:]
            del self.values[-count:]
            result = operands[0]
            for operand in operands[1:]:
                result = _CALLS[opened[:-1]](result, operand)
            self.values.append(result)
        return False

    def _open(self, mark: str) -> None:
        self.pending.append(mark)
        self.counts.append(0)

    def _reduce(self, level: int) -> None:
        """Applies the pending operators that bind at least as tightly as `level`."""
        while self.pending and not self.pending[-1].endswith("("):
            if self.pending[-1] == "neg":
                self.pending.pop()
                self.values.append(multiply(-1, self.values.pop()))
                continue
            strength, rule = _BINARY[self.pending[-1]]
            if strength < level:
                return
            self.pending.pop()
            right = self.values.pop()
            self.values.append(rule(self.values.pop(), right))

    def _named(self, name: str, position: int) -> Size:
        try:
            return self.names[name]
        except KeyError:
            raise self._error(f"unknown symbol {name!r}", position) from None

    def _error(self, message: str, position: int) -> RushlightError:
        return error("C009", f"size: {message} at column {position}", text=self.text)


Rules.text = format_size
