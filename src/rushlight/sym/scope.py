"""Scopes: the symbols of one capture, what is known of them, and what was assumed by asking about them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from rushlight.support.errors import error, fail
from rushlight.support.frozen import frozen
from rushlight.support.provenance import Frame, called_name, user_frame
from rushlight.sym.arithmetic import add, subtract, weighted_sum
from rushlight.sym.condition import Condition, compares, eq, first_scoped_symbol, ge, le
from rushlight.sym.division import divides_as_declared
from rushlight.sym.expr import SYMBOL, Size, SizeExpr, SymbolFacts, SymbolOwner, terms
from rushlight.sym.hints import Hints, backed_hint
from rushlight.sym.interval import Interval, declared_bounds
from rushlight.sym.knowledge import Knowledge
from rushlight.sym.origin import Origin, OriginKind
from rushlight.sym.promise import is_marked, promise
from rushlight.sym.prover import proves_nonnegative
from rushlight.sym.query import free_symbols, symbols_of
from rushlight.sym.symbols import new_symbol
from rushlight.sym.text import format_size, parse_size

MEETING = "broadcast: sizes that meet are equal, neither being 1 by chance"
# How far above and below 0 an expression has to lie for its relation to 0 to be decided.
_DECIDING = {"==": (1, 1), "!=": (1, 1), ">=": (0, 1), "<=": (1, 0)}
_CHECKED = 64  # parts of a fact whose symbols are all looked at


@frozen
class Guard:
    """A condition that the compiled artifact relies on: it was true for the example, or the program asked for it."""

    condition: Condition
    frame: Frame | None
    reason: str


@frozen
class RuntimeAssert:
    """A condition that the artifact checks at each call before it writes anything."""

    condition: Condition
    frame: Frame | None
    message: str

    def __str__(self) -> str:
        """What is said when it does not hold."""
        return f"check: {self.message or self.condition} does not hold"


@dataclass(slots=True)
class Undecided:
    """A question that nobody could answer, so that a rule took its general path: what `unlocking` would have spared.

    `operation` is what the user's line called, and `reason` what the rule says of the question. It was asked `count`
    times; the line is that of the first.
    """

    unlocking: Condition
    operation: str
    frame: Frame | None
    reason: str
    count: int = 0


class Branch:
    """What holds in a part of a program that may not run: all that was known before it, and its own asserts."""

    __slots__ = ("hints", "inherited", "knowledge", "promises", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.knowledge = scope.knowledge.copy()
        self.hints = Hints(self.knowledge)
        self.promises = list(scope.asserts)
        self.inherited = len(self.promises)

    @property
    def asserts(self) -> list[RuntimeAssert]:
        """Those that were asked for in it."""
        return self.promises[self.inherited :]


class Scope(SymbolOwner):
    """The symbols of one capture and their facts. Two scopes share nothing; one scope is used by one thread at a time.

    `locate` gives the user's line for guards and asserts. `asks` is told of each guard before it is recorded.
    """

    def __init__(
        self,
        locate: Callable[[], Frame | None] = user_frame,
        asks: Callable[[Condition, Frame | None], None] | None = None,
    ) -> None:
        self.symbols: dict[str, SizeExpr] = {}
        self.guards: list[Guard] = []
        self.asserts: list[RuntimeAssert] = []
        self.branch_asserts: dict[RuntimeAssert, None] = {}  # what parts that may not run have asserted
        self.undecided: dict[Condition, Undecided] = {}
        self._notes = False
        self.knowledge = Knowledge()
        self._hints = Hints(self.knowledge)
        self._locate = locate
        self._asks = asks
        self._numbers = {"s": 0, "u": 0}
        self._reference: weakref.ref[SymbolOwner] = weakref.ref(self)

    def symbol(
        self,
        name: str | None = None,
        hint: int | None = None,
        lower: int | None = 0,
        upper: int | None = None,
        multiple_of: int = 1,
        source: Origin | None = None,
        optimization_hint: int | None = None,
    ) -> SizeExpr:
        """A new symbol, lower <= symbol <= upper. With a hint it is backed; without, it is unbacked.

        `optimization_hint` is what `optimization_hint()` answers for an unbacked symbol, as far as its facts allow.
        Without a name backed symbols are s0, s1, ... and unbacked ones u0, u1, ....
        """
        name = self._fresh_name("s" if hint is not None else "u") if name is None else name
        if name in self.symbols:
            fail("X001", f"sym: the scope has a symbol {name} already")
        facts = SymbolFacts(name, lower, upper, multiple_of, hint, optimization_hint, source, None, self._reference)
        if hint is not None and not facts.allow(hint):
            outside = f"[{lower}, {upper}] or no multiple of {multiple_of}"
            fail("X001", f"sym: the hint {hint} of {name} is outside {outside}")
        symbol = new_symbol(facts)
        self.symbols[name] = symbol
        return symbol

    def _fresh_name(self, letter: str) -> str:
        while f"{letter}{self._numbers[letter]}" in self.symbols:
            self._numbers[letter] += 1
        return f"{letter}{self._numbers[letter]}"

    @contextmanager
    def within(self, branch: Branch) -> Generator[None]:
        """While inside, what is learned and asserted is the branch's. Guards hold for the whole program."""
        before, guards = (self.knowledge, self._hints, self.asserts), len(self.guards)
        self.knowledge, self._hints, self.asserts = branch.knowledge, branch.hints, branch.promises
        try:
            yield
        finally:
            self.knowledge, self._hints, self.asserts = before
            self.branch_asserts.update(dict.fromkeys(branch.asserts))
            for guard in self.guards[guards:]:
                self.learn(guard.condition)

    @contextmanager
    def noting(self) -> Generator[None]:
        """While inside, questions that stay open are noted: a program's own, that is, which passes ask again."""
        self._notes = True
        try:
            yield
        finally:
            self._notes = False

    @property
    def version(self) -> int:
        """Moves on whenever something is learned: what was asked before may have another answer."""
        return self.knowledge.version

    @property
    def learned(self) -> tuple[Condition, ...]:
        """All facts, in the order in which they were learned."""
        return tuple(self.knowledge.facts)

    @property
    def hints(self) -> Mapping[SizeExpr, int]:
        """The hints of the backed symbols."""
        return {symbol: symbol.facts.hint for symbol in self.symbols.values() if symbol.facts.hint is not None}

    def parse(self, text: str) -> Size:
        """The size that `text` denotes; the same text gives the same object."""
        return parse_size(text, self)

    def resolve(self, e: Size) -> Size:
        """`e` with each symbol replaced by what it is known to equal."""
        return self.knowledge.resolve(e)

    def bounds(self, e: Size) -> Interval:
        """The numeric interval of `e` under all that is known."""
        return self.knowledge.bounds(e)

    def known(self, condition: bool | Condition) -> bool | None:
        """Whether the condition is known to be true, or to be false; None if neither."""
        return self.knowledge.known(condition)

    def guard(self, condition: bool | Condition, reason: str = "") -> bool:
        """Decides the condition by what is known, else by the hints, and records that as a guard."""
        answer = self.knowledge.known(condition)
        if answer is not None or isinstance(condition, bool):
            return bool(answer)
        value = self.hint_or_none(condition.expr)
        if value is None:
            implied = self._guard_of_backed_part(condition, reason)
            if implied is None:
                _fail_undecided(condition)
            return implied
        holds = compares(condition.relation, value)
        taken = condition if holds else condition.negate()
        frame = self._locate()
        if self._asks is not None:
            self._asks(taken, frame)
        self.guards.append(Guard(taken, frame, reason))
        self.learn(taken)
        return holds

    def _guard_of_backed_part(self, condition: Condition, reason: str) -> bool | None:
        """Decides a sum with unbacked sizes by a guard on the others, where bounds allow that.

        Of `s + u == 0` it is `s >= 1`, if the example says so, since u is not negative.
        """
        backed = weighted_sum([term for term in terms(condition.expr) if self.hint_or_none(term[0]) is not None], 0)
        value = self.hint_or_none(backed)
        if value is None or isinstance(backed, int):
            return None
        lower, upper = self.knowledge.bounds(subtract(condition.expr, backed))
        above, below = _DECIDING[condition.relation]
        sufficient: bool | Condition = False
        if lower is not None and value + lower >= above:
            sufficient = ge(add(backed, lower), above)
        elif upper is not None and value + upper <= -below:
            sufficient = le(add(backed, upper), -below)
        if isinstance(sufficient, bool):
            return None
        self.guard(sufficient, reason)
        return self.knowledge.known(condition)

    def example(self, condition: Condition, reason: str) -> bool | None:
        """What is known of the condition, or what the example says; None where there is no example.

        Guarded while a program is traced. Passes only ask for what nobody sees, and guard nothing.
        """
        answer = self.knowledge.known(condition)
        if answer is not None:
            return answer
        value = self.hint_or_none(condition.expr)
        if value is None:
            return None
        return self.guard(condition, reason) if self._notes else compares(condition.relation, value)

    def leave_open(self, condition: Condition, unlocking: Condition, reason: str) -> None:
        """Notes that a rule took its general path because nobody knows the condition."""
        if not self._notes:
            return
        undecided = self.undecided.get(condition)
        if undecided is None:
            undecided = self.undecided[condition] = Undecided(unlocking, called_name(), self._locate(), reason)
        undecided.count += 1

    def check(self, condition: bool | Condition, message: str = "") -> None:
        """Makes the condition a run-time assert, and relies on it from now on."""
        holds = self.knowledge.known(condition)
        if holds is True:
            return
        frame = self._locate()
        if holds is False or isinstance(condition, bool):
            fail("R002", f"check: {message or condition} does not hold for any value", frame=frame)
        value = self.hint_or_none(condition.expr)
        if value is not None and not compares(condition.relation, value):
            report = f"{RuntimeAssert(condition, frame, message)} for the example"
            fail("R002", report, frame=frame, condition=condition)
        self.asserts.append(RuntimeAssert(condition, frame, message))
        self.learn(condition)

    def learn(self, fact: Condition) -> None:
        """Takes a condition to be true, as a specification's assumption, without recording a guard."""
        if fact.expr.count <= _CHECKED:
            self._require_own_symbols(fact)
        self.knowledge.learn(fact)
        self._hints.facts_changed(fact)

    def _require_own_symbols(self, fact: Condition) -> None:
        for symbol in self.own(symbols_of(fact.expr)):
            if symbol.facts.scope is not self._reference:
                fail(
                    "X001", f"sym: {fact} is about {format_size(symbol)}, a loop axis, of which nothing can be learned"
                )

    def own(self, symbols: Set[SizeExpr]) -> Set[SizeExpr]:
        """Symbols as they are. Errors: C010 where one is of another scope, and so of another trace."""
        for symbol in symbols:
            if symbol.facts.scope is not self._reference and symbol.facts.size is None:
                fail("C010", f"{format_size(symbol)} stands for a size of another traced program")
        return symbols

    def fixed_by(self, symbol: SizeExpr) -> Guard | RuntimeAssert | None:
        """The guard or assert by which a symbol came to be a constant; None where none did."""
        if not isinstance(self.resolve(symbol), int):
            return None
        said = {guard.condition: guard for guard in (*self.guards, *self.asserts)}
        so_far = Knowledge()
        for fact in self.knowledge.facts:
            so_far.learn(fact)
            if isinstance(so_far.resolve(symbol), int):
                return said.get(fact)
        return None

    def hint_or_none(self, e: Size) -> int | None:
        """The value of `e` for the example; None if some symbol in it is unbacked."""
        hint = backed_hint(e)
        return backed_hint(self.knowledge.resolve(e)) if hint is None else hint

    def optimization_hint(self, e: Size) -> int:
        """A plausible value of `e`, consistent with all that is known. It never guards and always answers."""
        return self._hints.value(e)


def scope_of(e: Size) -> Scope | None:
    """The scope of the symbols in `e`; None if it has none (integers and loop axes over integers).

    Errors: C010 where it is gone, with the graph and the trace that it was of.
    """
    symbol = first_scoped_symbol(e)
    reference = symbol.facts.scope if symbol is not None else None
    if reference is None:
        return None
    owner = reference()
    if not isinstance(owner, Scope):
        fail("C010", f"the size {format_size(e)} stood for one of a traced program, which has ended")
    return owner


def scopes_of(symbols: Iterable[SizeExpr]) -> list[Scope]:
    """The scopes that symbols belong to, each once."""
    return [scope for scope in dict.fromkeys([scope_of(symbol) for symbol in symbols]) if scope is not None]


def _fail_data_dependent(e: Size, question: str, hint: str) -> NoReturn:
    asked = sorted(free_symbols(e), key=_is_backed)
    values: dict[str, object] = {symbol.facts.name: symbol.facts.source for symbol in asked[:8] if symbol.facts.source}
    raise error("C002", f"size: {question} is known only when the program runs", hint=hint, frame=None, **values)


def _is_backed(symbol: SizeExpr) -> bool:
    return symbol.facts.hint is not None


def _fail_undecided(condition: Condition) -> NoReturn:
    kept = "select values with rl.where, or branch with rl.cond"
    origin = condition.expr.facts.source if condition.expr.op is SYMBOL else None
    if origin is not None and origin.kind is OriginKind.TRUTH and condition.relation in ("==", "!="):
        _fail_data_dependent(condition.expr, f"whether {origin.what} is true", kept)
    hint = f"say which it is before: {promise(condition)}; or {promise(condition.negate())}. Else {kept}"
    _fail_data_dependent(condition.expr, f"whether {condition}", hint)


def guard(condition: bool | Condition, reason: str = "") -> bool:
    """The answer to a condition that decides what the program does: known, or true of the example and then guarded.

    Errors: C002 where a symbol has no hint.
    """
    return condition if isinstance(condition, bool) else _scope_of_condition(condition).guard(condition, reason)


def guard_or_false(condition: bool | Condition, reason: str = "") -> bool:
    """`guard`, or False where that would need a hint there is not."""
    return _guard_or(condition, False, reason)


def guard_or_true(condition: bool | Condition, reason: str = "") -> bool:
    """`guard`, or True where that would need a hint there is not."""
    return _guard_or(condition, True, reason)


def _guard_or(condition: bool | Condition, otherwise: bool, reason: str) -> bool:
    if isinstance(condition, bool):
        return condition
    scope = scope_of(condition.expr)
    if scope is None:
        return otherwise
    answer = scope.known(condition)
    if answer is not None:
        return answer
    if scope.hint_or_none(condition.expr) is not None:
        return scope.guard(condition, reason)
    scope.leave_open(condition, condition.negate() if otherwise else condition, reason)
    return otherwise


def example_says(condition: bool | Condition, reason: str = "") -> bool | None:
    """What is known, or what the example says and is then guarded; None without an example. See `Scope.example`."""
    return condition if isinstance(condition, bool) else _scope_of_condition(condition).example(condition, reason)


def statically_known(condition: bool | Condition) -> bool:
    """Whether the condition is known to be true. Never guards."""
    if isinstance(condition, bool):
        return condition
    scope = scope_of(condition.expr)
    return scope is not None and scope.known(condition) is True


def check(condition: bool | Condition, message: str = "") -> None:
    """Makes the condition a run-time assert of what is being compiled, which may rely on it from now on.

    Errors: R002 where the condition is false of all values or of the example.
    """
    if not isinstance(condition, bool):
        _scope_of_condition(condition).check(condition, message)
    elif not condition:
        fail("R002", f"check: {message or 'the condition'} does not hold")


def _scope_of_condition(condition: Condition) -> Scope:
    scope = scope_of(condition.expr)
    if scope is None:
        fail("X001", f"sym: {condition} is about loop axes alone: nobody can answer it")
    return scope


def optimization_hint(e: Size) -> int:
    """A plausible value of `e`: always answers, never guards, consistent with all that is known of its symbols."""
    if isinstance(e, int):
        return e
    scope = scope_of(e)
    return Hints(Knowledge()).value(e) if scope is None else scope.optimization_hint(e)


def guarding_hint_or_throw(e: Size) -> int:
    """The value of `e` for the example, or the only one it can have. The caller must guard on what it does with it.

    Errors: C002 where a symbol has no hint.
    """
    scope = scope_of(e)
    value = backed_hint(e) if scope is None else scope.hint_or_none(e)
    if value is None:
        lower, upper = bounds(e)
        if lower is not None and lower == upper:
            return lower
        hint = "pass it on as a size, or loop with rl.while_loop, without asking Python for its value"
        if any(is_marked(symbol) for symbol in symbols_of(e)):
            hint += "; or mark_static, where the program is for one value"
        _fail_data_dependent(e, f"the value of {format_size(e)}", hint)
    return value


def has_example(e: Size) -> bool:
    """Whether the example has a value of `e`, so that `guard` can answer questions about it. Never guards."""
    scope = scope_of(e)
    return (backed_hint(e) if scope is None else scope.hint_or_none(e)) is not None


def bounds(e: Size) -> Interval:
    """The numeric interval of `e` under all that its scope knows; None for no bound."""
    scope = scope_of(e)
    return declared_bounds(e) if scope is None else scope.bounds(e)


def is_nonnegative(e: Size) -> bool:
    """Whether e >= 0 is known."""
    scope = scope_of(e)
    return proves_nonnegative(e) if scope is None else scope.knowledge.is_nonnegative(e)


def divides(n: Size, e: Size) -> bool:
    """Whether `e` is known to be a multiple of `n`."""
    scope = scope_of(e)
    if scope is not None:
        e, n = scope.resolve(e), scope.resolve(n)
        if isinstance(n, int) and n and scope.knowledge.multiple(e) % n == 0:
            return True
    return divides_as_declared(n, e)


def broadcast_sizes(a: Size, b: Size) -> Size:
    """The size of a dim where sizes `a` and `b` meet: they are equal, or one of them is 1.

    Which of the three holds is decided by the hints and guarded; the values are not. Where there is no hint, the sizes
    are taken to be equal, which is asserted at run time. Errors: S001.
    """
    if a is b or (isinstance(b, int) and b == 1):
        return a
    if isinstance(a, int):
        if a == 1:
            return b
        if isinstance(b, int):
            return a if a == b else _fail_broadcast(a, b)
    equal = eq(a, b)
    scope = scope_of(a) or scope_of(b)
    if scope is None:
        return a if equal is True else _fail_broadcast(a, b)
    return _broadcast(scope, a, b, equal)


def _broadcast(scope: Scope, a: Size, b: Size, equal: bool | Condition) -> Size:
    equality = scope.known(equal)
    if equality:
        return scope.resolve(a)
    for size, other in ((a, b), (b, a)):
        if scope.known(eq(size, 1)):
            return scope.resolve(other)
    a_hint, b_hint = scope.hint_or_none(a), scope.hint_or_none(b)
    if equality is not False and not isinstance(equal, bool):
        if a_hint is not None and a_hint == b_hint:
            scope.guard(equal, "broadcast: equal sizes")
            return scope.resolve(a)
        if 1 not in (a_hint, b_hint) and (a_hint is None or b_hint is None):
            scope.check(equal, MEETING)
            return scope.resolve(a)
    for size, hint, other in ((a, a_hint, b), (b, b_hint, a)):
        if hint == 1:
            scope.guard(eq(size, 1), "broadcast: a size of 1")
            return scope.resolve(other)
    return _fail_broadcast(a, b)


def _fail_broadcast(a: Size, b: Size) -> NoReturn:
    fail("S001", f"broadcast: sizes {format_size(a)} and {format_size(b)} differ", left=a, right=b)
