"""Rows of docs/systems.md about capture: hygiene, the order of graphs, deep modules, one specification."""

import collections
import math
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.utils.checkpoint import checkpoint

ROOT = Path(__file__).resolve().parent.parent.parent
WAYS = pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])


class Pair(collections.namedtuple("Pair", "left right")):
    """A named tuple that has attributes besides its fields."""


@pytest.mark.row("3.4")
def test_named_tuples_keep_their_attributes():
    def three_operators(pair):
        pair.note = [pair.left + 1]
        made = Pair(pair.left * 2, pair.right)
        made.note = pair.note
        made.twin = made.left - 3
        return made, pair

    expected, given = three_operators(Pair(rl.ones(2), "text"))
    compiled = rl.compile(three_operators, fullgraph=False)
    for _ in range(2):
        first = Pair(rl.ones(2), "text")
        made, returned = compiled(first)
        assert type(made) is Pair and returned is first
        assert made.note is first.note and made.right == "text"
        assert made.left.tolist() == expected.left.tolist() and made.twin.tolist() == expected.twin.tolist()
        assert made.note[0].tolist() == given.note[0].tolist()


LAYERS = "ReLU GELU SiLU Sigmoid Softplus ELU Mish Hardtanh LeakyReLU LogSigmoid Identity Flatten SELU Softsign"
MODELS = {
    "linear": lambda: rl.nn.Linear(4, 3),
    "bilinear": lambda: rl.nn.Sequential(rl.nn.Linear(4, 4, bias=False), rl.nn.Tanh()),
    **{name: lambda name=name: rl.nn.Sequential(rl.nn.Linear(4, 4), getattr(rl.nn, name)()) for name in LAYERS.split()},
    "softmax": lambda: rl.nn.Softmax(-1),
    "norm": lambda: rl.nn.LayerNorm(4),
    "dropout": lambda: rl.nn.Sequential(rl.nn.Dropout(0.5).eval(), rl.nn.Linear(4, 2)),
    "list": lambda: rl.nn.Sequential(*[rl.nn.Linear(4, 4) for _ in range(3)]),
}


@pytest.mark.row("3.4")
@WAYS
def test_twenty_models_are_compiled_without_a_warning(whole):
    assert len(MODELS) >= 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in MODELS.values():
            model = make()
            x = rl.ones(2, 4)
            assert rl.compile(model, fullgraph=whole)(x).tolist() == model(x).tolist()


def entries_of_two_kinds():
    """A function with a graph for four rows alone, and one, made later, that fits all."""
    weight = rl.full((4, 4), 0.3, requires_grad=True)

    def layer(x):
        return (x @ weight).tanh() * x.shape[0]

    compiled = rl.compile(layer)
    few = rl.ones(4, 4)
    rl.compiler.mark_static(few)
    compiled(few)
    compiled(rl.ones(6, 4))
    return weight, layer, compiled


@pytest.mark.row("3.6")
def test_recomputation_has_the_gradients_of_eager_code_whichever_graph_it_finds():
    weight, layer, compiled = entries_of_two_kinds()
    assert rl.compiler.graph_count() == 2
    gradients = []
    for run in (layer, compiled):
        weight.grad = None
        for step in range(50):
            results = [checkpoint(run, rl.full((rows, 4), 0.1 * step), use_reentrant=False) for rows in (4, 6, 4)]
            sum([result.sum() for result in results]).backward()
        gradients.append(weight.grad.tolist())
    assert gradients[0] == gradients[1]
    assert rl.compiler.graph_count() == 2


def nested(depth):
    """A module `depth` others deep."""

    class Level(rl.nn.Module):
        def __init__(self, child):
            super().__init__()
            self.child = child
            self.scale = rl.nn.Parameter(rl.ones(2))

        def forward(self, x):
            return self.child(x * self.scale)

    module = rl.nn.Identity()
    for _ in range(depth):
        module = Level(module)
    return module


def calls_of_capture(depth, whole):
    """How many calls of Python functions the first call of a compiled module takes."""
    module = nested(depth)
    compiled = rl.compile(module, backend="eager", fullgraph=whole)
    count = 0

    def counts(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(counts)
    try:
        compiled(rl.ones(2))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.row("3.7")
@WAYS
def test_the_work_of_capture_is_linear_in_the_depth_of_modules(whole):
    calls_of_capture(3, whole)  # loads what is loaded once
    counts = [calls_of_capture(depth, whole) for depth in (10, 20, 40, 80)]
    assert math.log(counts[3] / counts[1]) / math.log(4) <= 1.15, counts


@pytest.mark.row("3.7")
def test_a_module_five_hundred_deep_is_one_graph():
    compiled = rl.compile(nested(500), backend="eager")
    with rl.no_grad():
        assert compiled(rl.ones(2)).tolist() == [1.0, 1.0]
    assert rl.compiler.graph_count() == 1


def test_a_recursion_without_end_is_pythons_error():
    def down(x):
        return down(x + 1)

    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        rl.compile(down)(rl.ones(1))


@pytest.mark.row("3.8")
def test_one_specification_compiles_and_exports_one_graph():
    spec = "f32[rows, 4]"

    def positive(x):
        kept = x[x.sum(1) > 0]
        rl.check(kept.shape[0] >= 1, "there is something to keep")
        return kept * 2

    compiled = rl.compile(positive, specs=[spec], fullgraph=True)
    exported = rl.export.export(positive, (rl.ones(3, 4),), dynamic_shapes=spec).module()
    for rows in (2, 5):
        x = rl.ones(rows, 4)
        x[0] = -1
        assert compiled(x).tolist() == exported(x).tolist() == positive(x).tolist()
    for run in (compiled, exported):
        with pytest.raises(rl.RushlightError, match="something to keep"):
            run(-rl.ones(3, 4))


SAMPLE = "tests/eager/test_layouts.py"  # of tests that .ci/run has compiled


@pytest.mark.row("3.9")
def test_bodies_of_our_own_tests_do_compiled_what_they_do():
    outcomes: list[list[str]] = []
    for compiled in ("0", "1"):
        environment = os.environ | {
            "RUSHLIGHT_COMPILE_TESTS": compiled,
            "PYTEST_XDIST_WORKER": "",
            "PYTEST_ADDOPTS": "",
        }
        command = [sys.executable, "-m", "pytest", "-n", "0", "-rA", "-q", "-p", "no:cacheprovider", SAMPLE]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
        outcomes.append(sorted(re.findall(r"^(?:PASSED|FAILED|ERROR) \S+", done.stdout, re.MULTILINE)))
    assert outcomes[0] and outcomes[0] == outcomes[1]
