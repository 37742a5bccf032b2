"""Floor division of sizes, simplified when it is built, and what follows from it: remainders, rounded-up division.

Divisors are taken to be positive: a division by a size says that the size is not 0 (where it may be, the caller
guards first). A remainder is no term of its own: `e % n` is `e - n*(e//n)`, so `n*(e//n) + e%n` is `e` by construction.
"""

from __future__ import annotations

from math import gcd

from rushlight.sym.arithmetic import add, multiply, subtract
from rushlight.sym.expr import (
    FLOORDIV,
    SUM,
    SYMBOL,
    Rules,
    Size,
    SizeExpr,
    atom_node,
    atoms_of,
    constant_of,
    need_size,
    product_node,
    sum_of_table,
    terms,
    with_constant,
)
from rushlight.sym.interval import declared_bounds
from rushlight.sym.memo import memo_of_two
from rushlight.sym.prover import (
    Monomial,
    Polynomial,
    by_serial,
    proves_at_most,
    proves_nonnegative,
    to_polynomial,
    without_atoms,
)
from rushlight.sym.symbols import axis_size, is_axis

_LONGEST = 16  # parts of a numerator beyond which common factors of some of its parts are not looked for


def floordiv(a: Size, b: Size) -> Size:
    """a // b, rounded down; `b` is positive, unless its facts or its signs say that it is negative."""
    a, b = need_size(a), need_size(b)
    if isinstance(b, int):
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        if b == 0:
            raise ZeroDivisionError(f"the size {a!r} is divided by 0")
    if isinstance(a, int) and a == 0:
        return 0
    return _floordiv(a, b)


def mod(a: Size, b: Size) -> Size:
    """a - b*(a // b): the remainder, which has the sign of `b`."""
    a, b = need_size(a), need_size(b)
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if divides_as_declared(b, a) else subtract(a, multiply(b, floordiv(a, b)))


def ceildiv(a: Size, b: Size) -> Size:
    """a / b, rounded up, for positive `b`."""
    a, b = need_size(a), need_size(b)
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return floordiv(subtract(add(a, b), 1), b)


def divides_as_declared(n: Size, e: Size) -> bool:
    """Whether `e` is provably a multiple of `n`, from the facts of birth."""
    if isinstance(n, int):
        return e == 0 if n == 0 else declared_multiple(e) % n == 0
    if isinstance(e, int):
        return e == 0
    _, rest = _split(e, n)
    return isinstance(rest, int) and rest == 0


def declared_multiple(e: Size) -> int:
    """The greatest integer that is known to divide `e`; 0 for the size 0."""
    result = abs(constant_of(e))
    for product, coefficient in terms(e):
        if result == 1:
            break
        for atom in atoms_of(product):
            coefficient *= atom.facts.multiple_of if not atom.operands else 1
        result = gcd(result, coefficient)
    return result


@memo_of_two
def _floordiv(a: Size, b: Size) -> Size:
    quotient: Size = 0
    rest, divisor = a, b
    # Each turn makes the numerator or the divisor smaller. A common factor may have been negative.
    while True:
        if _is_negative(divisor):
            rest, divisor = multiply(-1, rest), multiply(-1, divisor)
            if divisor == 1:
                return add(quotient, rest)
        whole, rest = _split(rest, divisor)
        quotient = add(quotient, whole)
        simple = _known_quotient(rest, divisor)
        if simple is None and isinstance(divisor, int) and isinstance(rest, SizeExpr):
            carry, constant = divmod(constant_of(rest), divisor)
            if carry:
                quotient, rest = add(quotient, carry), with_constant(rest, constant)
                simple = _known_quotient(rest, divisor)
        if simple is not None:
            return add(quotient, simple)
        smaller = _without_common_factor(rest, divisor) or _without_low_digits(rest, divisor)
        smaller = smaller or _without_inner_division(rest, divisor)
        if smaller is None:
            return add(quotient, atom_node(FLOORDIV, (rest, divisor)))
        rest, divisor = smaller
        if isinstance(divisor, int) and divisor == 1:
            return add(quotient, rest)


def _is_negative(divisor: Size) -> bool:
    """Whether a divisor is negative, which 0 is not: by its facts, and by its signs where they do not tell."""
    if isinstance(divisor, int):
        return divisor < 0
    lower, upper = declared_bounds(divisor)
    if lower is not None and lower >= 0:
        return False
    if upper is not None and upper <= 0:
        return True
    return all(coefficient < 0 for _, coefficient in terms(divisor)) and constant_of(divisor) <= 0


def _known_quotient(rest: Size, divisor: Size) -> int | None:
    """The quotient where it is the same integer for all values."""
    if isinstance(rest, int) and (not rest or isinstance(divisor, int)):
        return rest // divisor if isinstance(divisor, int) else 0
    if is_axis(rest) and axis_size(rest) is divisor:
        return 0
    if isinstance(divisor, int):
        lower, upper = declared_bounds(rest)
        if lower is not None and upper is not None and lower // divisor == upper // divisor:
            return lower // divisor
        if lower is not None and upper is not None and _is_linear_over_numbers(rest):
            return None  # the interval is exact
    positive = (divisor,)
    if proves_nonnegative(rest, positive):
        return 0 if proves_at_most(rest, divisor, positive, 1) else None
    # What is left of an axis that is walked backwards lies in [-divisor, -1].
    below_zero = proves_at_most(rest, 0, positive, 1)
    return -1 if below_zero and proves_at_most(multiply(-1, rest), divisor, positive) else None


def _is_linear_over_numbers(e: Size) -> bool:
    """Whether `e` is linear in symbols that vary independently: sizes, and axes over integers."""
    return all(
        product.op is SYMBOL and (product.facts.size is None or isinstance(product.facts.size, int))
        for product, _ in terms(e)
    )


def _split(e: Size, n: Size) -> tuple[Size, Size]:
    """(q, r) with e = q*n + r, where r keeps what is no multiple of n."""
    if isinstance(e, int):
        return divmod(e, n) if isinstance(n, int) else (0, e)
    if isinstance(n, int):
        return _split_by_product(e, (), n)
    if constant_of(n) == 0 and n.count == 1:
        ((product, coefficient),) = terms(n)
        return _split_by_product(e, atoms_of(product), coefficient)
    return _split_by_sum(e, n)


def _split_by_product(e: SizeExpr, atoms: Monomial, scale: int) -> tuple[Size, Size]:
    whole: dict[SizeExpr, int] = {}
    rest: dict[SizeExpr, int] = {}
    whole_constant = 0
    for product, coefficient in terms(e):
        # Only what divides exactly: 3*s0 over 2 as s0 + s0//2 would double the text at each step of a chain.
        remaining = without_atoms(atoms_of(product), atoms) if coefficient % scale == 0 else None
        if remaining is None:
            rest[product] = coefficient
        elif remaining:
            whole[product_node(remaining)] = coefficient // scale
        else:
            whole_constant += coefficient // scale
    constant = constant_of(e)
    if not atoms and constant % scale == 0:
        whole_constant, constant = whole_constant + constant // scale, 0
    if not whole and not whole_constant:
        return 0, e
    return sum_of_table(whole, whole_constant), sum_of_table(rest, constant)


def _split_by_sum(e: SizeExpr, n: SizeExpr) -> tuple[Size, Size]:
    """Long division by the leading product of `n`; takes out only multiples of all of `n`."""
    divisor = to_polynomial(n)
    lead = max(divisor, key=_degree)
    scale = divisor[lead]
    rest = to_polynomial(e)
    quotient: Polynomial = {}
    for monomial in sorted(rest, key=_degree, reverse=True):
        coefficient = rest.get(monomial, 0)
        remaining = without_atoms(monomial, lead)
        if not coefficient or remaining is None or coefficient % scale:
            continue
        times = coefficient // scale
        taken = {tuple(sorted(remaining + atoms, key=by_serial)): times * part for atoms, part in divisor.items()}
        if all(rest.get(atoms) == part for atoms, part in taken.items()):
            quotient[remaining] = times
            for atoms in taken:
                del rest[atoms]
    return (_to_size(quotient), _to_size(rest)) if quotient else (0, e)


def _degree(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
    return len(monomial), tuple([atom.serial for atom in monomial])


def _to_size(polynomial: Polynomial) -> Size:
    constant = polynomial.pop((), 0)
    return sum_of_table({product_node(atoms): part for atoms, part in polynomial.items()}, constant)


def _common_factor(e: Size) -> tuple[int, Monomial]:
    """The greatest integer and the product of atoms that divide all parts of `e`."""
    if isinstance(e, int):
        return abs(e), ()
    number, atoms = abs(constant_of(e)), None
    for product, coefficient in terms(e):
        number = gcd(number, coefficient)
        atoms = atoms_of(product) if atoms is None else _shared(atoms, atoms_of(product))
    return number, () if constant_of(e) or atoms is None else atoms


def _shared(a: Monomial, b: Monomial) -> Monomial:
    left = list(b)
    shared: list[SizeExpr] = []
    for atom in a:
        if atom in left:
            left.remove(atom)
            shared.append(atom)
    return tuple(shared)


def _divided_exactly(e: Size, number: int, atoms: Monomial) -> Size:
    """e / (number * atoms), which divide all its parts."""
    if isinstance(e, int):
        return e // number
    table: dict[SizeExpr, int] = {}
    constant = constant_of(e) // number
    for product, coefficient in terms(e):
        remaining = without_atoms(atoms_of(product), atoms)
        if remaining:
            table[product_node(remaining)] = coefficient // number
        else:
            constant += coefficient // number
    return sum_of_table(table, constant)


def _without_common_factor(rest: Size, divisor: Size) -> tuple[Size, Size] | None:
    """Numerator and divisor over their greatest common factor, if there is any but 1.

    An integer factor need not divide the numerator's constant: (g*x + k) // (g*n) is (x + k//g) // n.
    """
    number, atoms = _common_factor(divisor)
    constant = constant_of(rest)
    rest_number, rest_atoms = _common_factor(with_constant(rest, 0)) if isinstance(rest, SizeExpr) else (abs(rest), ())
    atoms = () if constant else _shared(atoms, rest_atoms)
    number = gcd(number, rest_number)
    if number == 1 and not atoms:
        return None
    if isinstance(rest, SizeExpr):
        rest = with_constant(rest, constant - constant % number)
    return _divided_exactly(rest, number, atoms), _divided_exactly(divisor, number, atoms)


def _without_low_digits(rest: Size, divisor: Size) -> tuple[Size, Size] | None:
    """(g*x + y) // (g*n) is x // n if 0 <= y < g: tried for each factor g that some part shares with the divisor."""
    if isinstance(rest, int) or rest.count > _LONGEST:
        return None
    number, atoms = _common_factor(divisor)
    candidates: dict[tuple[int, Monomial], None] = {}
    for product, coefficient in terms(rest):
        candidates[gcd(coefficient, number), _shared(atoms, atoms_of(product))] = None
    for factor, factor_atoms in sorted(candidates, key=lambda candidate: (-len(candidate[1]), -candidate[0])):
        if factor == 1 and not factor_atoms:
            continue
        step = multiply(factor, product_node(factor_atoms)) if factor_atoms else factor
        high, low = _split(rest, step)
        if isinstance(high, int) and not high:
            continue
        quotient = _known_quotient(low, step)
        if quotient is not None:
            return add(high, quotient), _divided_exactly(divisor, factor, factor_atoms)
    return None


def _without_inner_division(rest: Size, divisor: Size) -> tuple[Size, Size] | None:
    """(x//m + k) // n is (x + k*m) // (m*n), for a constant k."""
    if isinstance(rest, int):
        return None
    inner = rest
    if rest.op is SUM:
        if rest.count != 1 or rest.attrs[1][1][0] != 1:
            return None
        inner = rest.operands[0]
    if inner.op is not FLOORDIV:
        return None
    dividend, step = inner.operands
    return add(dividend, multiply(step, constant_of(rest))), multiply(step, divisor)


Rules.floordiv = floordiv
Rules.mod = mod
