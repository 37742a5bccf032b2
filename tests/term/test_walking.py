"""Walking, rebuilding, matching and rewriting, to any depth."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.term.languages import OPS, apply, leaf, rebuild

from rushlight.term import (
    Pattern,
    Rule,
    Rules,
    Term,
    Wildcard,
    leaves,
    map_terms,
    match,
    postorder,
    rewrite,
    substitute,
)


def chain_of(length: int) -> Term:
    term = leaf("x")
    for _ in range(length):
        term = apply("neg", term)
    return term


@st.composite
def graphs(draw: st.DrawFn) -> Term:
    made = [leaf(name) for name in "abc"]
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            made.append(apply("neg", draw(st.sampled_from(made))))
        else:
            op = draw(st.sampled_from(["add", "mul"]))
            made.append(apply(op, draw(st.sampled_from(made)), draw(st.sampled_from(made))))
    return made[-1]


def value_of(root: Term, names: dict[str, int]) -> int:
    values: dict[Term, int] = {}
    for term in postorder([root]):
        operands = [values[operand] for operand in term.operands]
        if term.op is OPS["leaf"]:
            name = term.attr("value")
            values[term] = names[name] if isinstance(name, str) else name
        elif term.op is OPS["neg"]:
            values[term] = -operands[0]
        else:
            values[term] = sum(operands) if term.op is OPS["add"] else operands[0] * operands[1]
    return values[root]


@settings(deadline=None)
@given(graphs())
def test_postorder_visits_each_term_once_after_its_operands(root):
    seen: list[Term] = []
    for term in postorder([root, root]):
        assert all(operand in seen for operand in term.operands)
        seen.append(term)
    assert len(set(seen)) == len(seen)
    assert seen[-1] is root
    assert seen == list(postorder([root]))


def test_descent_can_be_limited():
    root = apply("add", chain_of(3), leaf("y"))
    stop = root.operands[0]
    visited = list(postorder([root], lambda term: () if term is stop else term.operands))
    assert [term.op.name for term in visited] == ["neg", "leaf", "add"]


@settings(deadline=None)
@given(graphs())
def test_rebuilding_what_is_there_gives_the_same_object(root):
    assert map_terms([root], rebuild) == [root]
    assert substitute([root], {}, rebuild) == [root]
    assert set(leaves([root])) <= {leaf(name) for name in "abc"}


@settings(deadline=None)
@given(graphs())
def test_substitution_is_simultaneous(root):
    a, b = leaf("a"), leaf("b")
    (swapped,) = substitute([root], {a: b, b: a}, rebuild)
    names = {"a": 5, "b": 11, "c": 3}
    assert value_of(swapped, names) == value_of(root, {"a": 11, "b": 5, "c": 3})
    assert substitute([swapped], {a: b, b: a}, rebuild) == [root]


def test_matching_binds_names_once():
    x, y = leaf("x"), leaf("y")
    square = Pattern(OPS["mul"], (Wildcard("x"), Wildcard("x")))
    assert match(square, apply("mul", x, x)) == {"x": x}
    assert match(square, apply("mul", x, y)) is None
    assert match(square, apply("add", x, x)) is None
    constant = Wildcard("c", where=lambda term: term.op is OPS["leaf"] and term.attr("value") == 0)
    assert match(Pattern(OPS["add"], (Wildcard("x"), constant)), apply("add", x, leaf(0))) == {"x": x, "c": leaf(0)}
    assert match(Pattern(OPS["add"], (Wildcard("x"), constant)), apply("add", x, y)) is None
    assert match(Pattern(OPS["neg"], (Wildcard("x"),)), apply("call", x, y)) is None


NEG_NEG = Rule("neg-neg", Pattern(OPS["neg"], (Pattern(OPS["neg"], (Wildcard("x"),)),)), lambda x: x)
ADD_ZERO = Rule(
    "add-zero",
    Pattern(OPS["add"], (Wildcard("x"), Wildcard("zero", where=lambda term: term.attrs == (("value", 0),)))),
    lambda x, zero: x,
)
LOOSE = Rule(
    "mul-is-add", Pattern(OPS["mul"], (Wildcard("x"), Wildcard("y"))), lambda x, y: apply("add", x, y), exact=False
)


@settings(deadline=None)
@given(graphs())
def test_rewriting_keeps_the_value_and_leaves_nothing_to_rewrite(root):
    rules = Rules((NEG_NEG, ADD_ZERO, LOOSE))
    (done,) = rewrite([apply("add", root, leaf(0))], rules, rebuild)
    names = {"a": 5, "b": 11, "c": 3}
    assert value_of(done, names) == value_of(root, names)
    for term in postorder([done]):
        assert match(NEG_NEG.pattern, term) is None
        assert match(ADD_ZERO.pattern, term) is None


def test_loose_rules_run_only_when_asked_for():
    rules = Rules((LOOSE,))
    product = apply("mul", leaf("a"), leaf("b"))
    assert rewrite([product], rules, rebuild) == [product]
    assert rewrite([product], rules, rebuild, exact_only=False) == [apply("add", leaf("a"), leaf("b"))]
    assert [rule.name for rule in rules] == ["mul-is-add"]


def test_a_rule_may_decline():
    rules = Rules((Rule("never", Pattern(OPS["neg"], (Wildcard("x"),)), lambda x: None), NEG_NEG))
    assert rewrite([chain_of(3)], rules, rebuild) == [chain_of(1)]


def test_chains_of_100_000_terms():
    chain = chain_of(100_000)
    assert sum(1 for _ in postorder([chain])) == 100_001
    assert rewrite([chain], Rules((NEG_NEG,)), rebuild) == [leaf("x")]
    half = chain_of(30_000)
    assert map_terms([half], rebuild) == [half]
    (other,) = substitute([half], {leaf("x"): leaf("y")}, rebuild)
    assert leaves([other]) == [leaf("y")]
