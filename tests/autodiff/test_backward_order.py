"""The order of backward passes and accumulations, on steps that are only names."""

import random

import pytest

from rushlight.autodiff.backward import SINK, walk


class Step:
    """A recorded event: its derivative passes each output's gradient, as a word, to every input."""

    folds = ()
    merges = False
    paths = None
    rest = ()

    def __init__(self, name, sequence, edges):
        self.name = name
        self.sequence = sequence
        self.edges = edges

    def __repr__(self):
        return self.name


def run_logged(log):
    def run(step, gradients, begun):
        log.append(step.name)
        joined = "/".join("-" if item is None else item for item in gradients)
        return [f"{step.name}{position}({joined})" for position in range(len(step.edges))]

    return run


def add(a, b):
    return f"[{a}+{b}]"


def diamond():
    leaf = Step("leaf", SINK, ())
    first = Step("a", 1, ((leaf, 0),))
    left = Step("l", 2, ((first, 0),))
    right = Step("r", 3, ((first, 0), (leaf, 0)))
    top = Step("t", 4, ((left, 0), (right, 0)))
    return leaf, first, left, right, top


def test_operators_run_in_reverse_order_of_calls_and_gradients_fold_on_the_right():
    *_, top = diamond()
    log = []
    arrived = {}
    walk([((top, 0), "1")], run_logged(log), add, prepare=lambda step, g, _: arrived.setdefault(step.name, list(g)))
    assert log == ["t", "r", "l", "a", "leaf"]
    assert arrived["a"] == ["[r0(t1(1))+l0(t0(1))]"]
    assert arrived["leaf"] == ["[r1(t1(1))+a0([r0(t1(1))+l0(t0(1))])]"]


def test_sinks_run_as_soon_as_nothing_more_arrives():
    early = Step("early", SINK, ())
    late = Step("late", SINK, ())
    low = Step("low", 1, ((late, 0),))
    high = Step("high", 2, ((early, 0), (low, 0)))
    log = []
    walk([((high, 0), "1")], run_logged(log), add)
    assert log == ["high", "early", "low", "late"]


def test_steps_without_gradients_are_passed_over_but_let_their_inputs_run():
    leaf = Step("leaf", SINK, ())
    dead = Step("dead", 1, ((leaf, 0),))
    top = Step("top", 2, ((dead, 0), (leaf, 0)))
    log = []

    def run(step, gradients, begun):
        log.append(step.name)
        return [None, "g"] if step is top else ["x"] * len(step.edges)

    walk([((top, 0), "1")], run, add)
    assert log == ["top", "leaf"]


def test_several_roots_meet_before_the_earlier_one_runs():
    _, _, left, _, top = diamond()
    arrived = {}
    walk(
        [((left, 0), "L"), ((top, 0), "T")],
        run_logged([]),
        add,
        prepare=lambda s, g, _: arrived.setdefault(s.name, list(g)),
    )
    assert arrived["l"] == ["[L+t0(T)]"]
    assert list(arrived) == ["t", "r", "l", "a", "leaf"]


def test_until_targets_runs_only_what_leads_to_them():
    _, first, *_, top = diamond()
    log, found = [], {}
    walk(
        [((top, 0), "1")],
        run_logged(log),
        add,
        targets=[(first, 0)],
        captured=lambda edge, gradient: found.setdefault(edge[0].name, gradient),
        until_targets=True,
    )
    assert log == ["t", "r", "l"]
    assert found == {"a": "[r0(t1(1))+l0(t0(1))]"}


def test_a_target_that_leads_to_another_runs_too():
    leaf, first, *_, top = diamond()
    log, found = [], {}
    walk(
        [((top, 0), "1")],
        run_logged(log),
        add,
        targets=[(leaf, 0), (first, 0)],
        captured=lambda edge, gradient: found.setdefault(edge[0].name, gradient),
        until_targets=True,
    )
    assert log == ["t", "r", "l", "a"]
    assert set(found) == {"a", "leaf"}


def test_outputs_are_kept_apart():
    leaf = Step("leaf", SINK, ())
    split = Step("s", 1, ((leaf, 0),))
    one = Step("x", 2, ((split, 1),))
    two = Step("y", 3, ((split, 0), (one, 0)))
    arrived = {}
    walk([((two, 0), "1")], run_logged([]), add, prepare=lambda step, g, _: arrived.setdefault(step.name, list(g)))
    assert arrived["s"] == ["y0(1)", "x0(y1(1))"]


def test_a_chain_of_100000_steps_needs_no_recursion():
    step = Step("leaf", SINK, ())
    for number in range(100_000):
        step = Step("n", number, ((step, 0),))
    count = [0]

    def run(step, gradients, begun):
        count[0] += 1
        return gradients[:1] * len(step.edges)

    walk([((step, 0), 1.0)], run, lambda a, b: a + b)
    assert count[0] == 100_001


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_run_every_step_after_all_of_its_users(seed):
    rng = random.Random(seed)
    steps = [Step("leaf", SINK, ())]
    for number in range(30):
        edges = tuple((rng.choice(steps), rng.randrange(2)) for _ in range(rng.randrange(1, 4)))
        steps.append(Step(str(number), number, edges))
    roots = [((step, 0), 1.0) for step in rng.sample(steps[1:], 3)]
    done, sums = [], {}

    def run(step, gradients, begun):
        done.append(step)
        return [sum(g for g in gradients if g is not None)] * len(step.edges)

    walk(roots, run, lambda a, b: a + b, prepare=lambda s, g, _: sums.setdefault(s.name, sum(x or 0 for x in g)))
    position = {step.name: at for at, step in enumerate(done)}
    for step in done:
        for edge in step.edges:
            assert position[edge[0].name] > position[step.name]
    paths = {id(step): 0.0 for step in steps}
    for (step, _), gradient in roots:
        paths[id(step)] += gradient
    for step in sorted(steps[1:], key=lambda item: -item.sequence):
        for edge in step.edges:
            paths[id(edge[0])] += paths[id(step)]
    assert sums["leaf"] == paths[id(steps[0])]
