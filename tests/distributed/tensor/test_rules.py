"""Sharding rules that operators' loops give."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
from rushlight.distributed.tensor.rule import Along, Derived, Division, Rule, Signature
from rushlight.distributed.tensor.rules import derive, signature_of
from rushlight.distributed.tensor.spec import DTensorSpec
from rushlight.distributed.tensor.strategy import Operand, choose
from rushlight.eager.execution.operands import flatten, form_of_operand
from rushlight.ops import OPERATORS
from rushlight.sym import Scope, ge


def rule_of(name, *operands, **attrs):
    """The divisions of a call as text, and the sets of operands in which it is linear."""
    op = OPERATORS[name]
    operands, attrs = op.bind(operands, attrs)
    types = [form_of_operand(operand).type for operand in flatten(operands)]
    rule = derive(op, operands, types, attrs)
    divisions = rule.divisions(signature_of(op, operands, types, attrs, types).values)
    return {_text(division) for division in divisions}, {tuple(sorted(one.operands)) for one in rule.linear}


def _text(division):
    result = f"P({division.reduction})" if division.result is None else _place(division.result)
    operands = ["P" if at in division.added else _place(one) for at, one in enumerate(division.operands)]
    return f"{' '.join(operands)} -> {result}"


def _place(along):
    if along is None:
        return "R"
    return f"S{along.dim}" + (f"*{along.unit}" if along.unit != 1 else "")


@pytest.mark.parametrize(
    ("name", "operands", "attrs", "wanted", "linear"),
    [
        ("add", (rl.ones(3, 5), rl.ones(5)), {}, {"S0 R -> S0", "S1 S0 -> S1"}, {(0, 1)}),
        ("mul", (rl.ones(3), rl.ones(3)), {}, {"S0 S0 -> S0"}, {(0,), (1,)}),
        ("exp", (rl.ones(3),), {}, {"S0 -> S0"}, set()),
        (
            "matmul",
            (rl.ones(3, 5), rl.ones(5, 4)),
            {},
            {"S0 R -> S0", "R S1 -> S1", "S1 S0 -> P(sum)"},
            {(0,), (1,)},
        ),
        ("matmul", (rl.ones(4, 4), rl.ones(4, 4)), {}, {"S0 R -> S0", "R S1 -> S1", "S1 S0 -> P(sum)"}, {(0,), (1,)}),
        (
            "linear",
            (rl.ones(3, 5), rl.ones(4, 5), rl.ones(4)),
            {},
            {"S0 R R -> S0", "R S0 S0 -> S1", "S1 S1 P -> P(sum)"},
            {(0, 2), (1, 2)},
        ),
        ("sum", (rl.ones(3, 5), 1), {}, {"S0 -> S0", "S1 -> P(sum)"}, {(0,)}),
        ("mean", (rl.ones(3, 5), 1), {}, {"S0 -> S0", "S1 -> P(avg)"}, {(0,)}),
        ("amax", (rl.ones(3, 5), 0), {}, {"S1 -> S0", "S0 -> P(max)"}, set()),
        ("transpose", (rl.ones(3, 5), 0, 1), {}, {"S0 -> S1", "S1 -> S0"}, {(0,)}),
        ("reshape", (rl.ones(4, 6), (2, 2, 6)), {}, {"S0*2 -> S0", "S1 -> S2"}, {(0,)}),
        ("reshape", (rl.ones(4, 6), (24,)), {}, {"S0 -> S0*6"}, {(0,)}),
        ("reshape", (rl.ones(6, 4), (3, 8)), {}, {"S0*2 -> S0"}, {(0,)}),
        ("expand", (rl.ones(3, 1), (3, 4)), {}, {"S0 -> S0", "R -> S1"}, {(0,)}),
        ("flip", (rl.ones(3, 5), 0), {}, {"S1 -> S1"}, {(0,)}),
        ("cat", ((rl.ones(2, 3), rl.ones(4, 3)),), {}, {"S1 S1 -> S1"}, {(0, 1)}),
        (
            "embedding",
            (rl.tensor([0, 2]), rl.ones(7, 4)),
            {},
            {"S0 R -> S0", "R S1 -> S1"},
            {(1,)},
        ),
        ("gather", (rl.ones(3, 5), 1, rl.zeros(3, 2, dtype=rl.int64)), {}, {"S0 S0 -> S0", "R S1 -> S1"}, {(0,)}),
        ("full_like", (rl.ones(3), 2.0), {}, {"S0 R -> S0"}, set()),
    ],
)
def test_rules_are_those_of_the_loops(name, operands, attrs, wanted, linear):
    divisions, sets = rule_of(name, *operands, **attrs)
    assert divisions == wanted
    assert linear <= sets


def test_an_index_that_is_read_two_ways_divides_nothing():
    x = rl.ones(4, 4)
    assert rule_of("linalg_det", x) == (set(), set())
    assert rule_of("cumsum", x, 0)[0] == {"S1 -> S1"}


def test_what_is_asked_of_neighbouring_elements_is_asked_of_whole_operands():
    assert rule_of("offsets_within", rl.tensor([0, 2, 3]), 5) == (set(), set())


def test_rules_hold_for_other_sizes_and_say_for_which():
    op = OPERATORS["reshape"]
    types = [rl.ones(4, 6).form.type]
    rule = derive(op, (rl.ones(4, 6),), types, {"shape": (2, 12)})

    def values(x, shape):
        return signature_of(op, (x,), [x.form.type], {"shape": shape}, [x.form.type]).values

    assert rule.holds(values(rl.ones(8, 6), (4, 12)))
    assert not rule.holds(values(rl.ones(8, 6), (2, 24)))
    assert np.all([division.operands[0].unit in (1, 2) for division in rule.divisions(values(rl.ones(8, 6), (4, 12)))])


def test_a_division_is_refused_where_some_part_does_not_meet_its_conditions():
    (symbol,) = [Scope().symbol("n0", hint=6)]
    along = Along(0, 1)
    division = Division((along,), along, None, ())
    rule = Rule((Derived((division,), (symbol,), (ge(symbol, 3),)),), (), frozenset())
    signature = Signature((), (6,), ((0, 0),), {})

    def chosen(count):
        spec = DTensorSpec(DeviceMesh("cpu", list(range(count)), _init_backend=False), [Shard(0)])
        return choose(rule, signature, [Operand(spec, (6,), 4)], (6,))

    assert chosen(2).divisions == (division,)
    assert chosen(3).divisions == (None,)
    assert rule.holds((6,))


@pytest.mark.parametrize("index", [[0, -1, 0], [0, 0, 0, 0, 0], [0, 1, 0]])
def test_indices_into_one_place_are_checked_as_they_are(index):
    """A kernel does not read them; what stood for them was memory that nobody had written."""

    def run():
        mesh = init_device_mesh("cpu", (4,))
        x = DTensor.from_local(rl.tensor(1.25), mesh, [Partial()])
        places = distribute_tensor(rl.tensor(index), mesh, [Shard(0)])
        if 1 in index:
            with pytest.raises(rl.RushlightError, match="out of range"):
                rl.gather(x, 0, places)
            return [5.0] * len(index)
        return rl.gather(x, 0, places).full_tensor().tolist()

    assert dist.spawn(run, 4) == [[5.0] * len(index)] * 4
