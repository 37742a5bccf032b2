"""Captured programs on disk whose results are differentiated outside, that end early, or that build their results."""

import subprocess
import sys

import pytest
from tests.capture.stored import asked, flat, x_of

import rushlight as rl
from rushlight.support import events

OUTSIDE = """
import rushlight as rl

rl.manual_seed(0)
twice = rl.nn.Linear(8, 8)
model = rl.nn.Sequential(
    rl.nn.Linear(4, 8), rl.nn.Dropout(0.5), twice, rl.nn.GELU(), rl.nn.BatchNorm1d(8), twice, rl.nn.Linear(8, 3)
)
optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
x, y = rl.randn(6, 4), rl.arange(6) % 3


def train(compiled, steps=4, accumulate=1):
    losses = []
    for step in range(steps):
        loss = rl.nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
"""


@pytest.mark.row("11.7")
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("full", [True, False], ids=["whole", "parts"])
def test_models_that_are_differentiated_outside_are_found(programs, full, accumulate):
    programs.write(main=OUTSIDE)
    module = programs.load()
    expected = module.train(module.model, accumulate=accumulate)
    for run in ("first", "second"):
        module = programs.load()
        events.reset()
        assert module.train(rl.compile(module.model, fullgraph=full), accumulate=accumulate) == expected
        kinds = [kind for kind, _ in asked()]
        assert set(kinds) == ({"miss"} if run == "first" else {"hit"}), asked()
        missed = [event.reason for event in events.events("cache_miss")]
        assert run == "first" or not missed  # neither captured nor compiled
    assert len(kinds) >= 2  # the function, and its gradients


GRADIENTS = """
import rushlight as rl

w = rl.full((4,), 0.5, requires_grad=True)


def function(x):
    hidden = (x * w).sin()
    return hidden.sum(1), (hidden * w).cos().sum(0), w * x.shape[0]
"""


def gradients_of(results, wanted, tensors, **options):
    """Those of some results, weighted, for some tensors."""
    total = sum([(results[at] * (at + 1.5)).square().sum() for at in wanted])
    return rl.autograd.grad(total, tensors, allow_unused=True, **options)


@pytest.mark.row("11.7")
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 2), (0, 1, 2)], ids=str)
def test_gradients_of_other_results_are_traced_once(programs, wanted):
    """What no process has asked for is traced again, with the sizes of the call; the next process finds it."""
    programs.write(main=GRADIENTS)

    def answers(function, module, ways, rows=3):
        found = []
        for way in ways:
            x = x_of(rows, 4).requires_grad_()
            found += [one if one is None else flat(one) for one in gradients_of(function(x), way, (x, module.w))]
        return found

    module = programs.load()
    compiled = rl.compile(module.function, fullgraph=True)
    assert answers(compiled, module, [(2,)]) == answers(module.function, module, [(2,)])
    for hit in (False, True):
        module = programs.load()
        events.reset()
        compiled = rl.compile(module.function, fullgraph=True)
        for rows in (5, 7):
            assert answers(compiled, module, [wanted], rows) == answers(module.function, module, [wanted], rows)
        assert asked()[0][0] == "hit"
        assert ("miss" in [kind for kind, _ in asked()]) is not hit, asked()
        ways = [(0, 1), (2,), (1, 2), wanted]
        assert answers(compiled, module, ways) == answers(module.function, module, ways)


@pytest.mark.row("11.7")
def test_gradients_of_gradients_and_freed_arguments_are_traced(programs):
    programs.write(main=GRADIENTS)
    module = programs.load()
    x = x_of(3, 4)
    gradients_of(rl.compile(module.function, fullgraph=True)(x), (0,), (module.w,))
    module = programs.load()
    compiled = rl.compile(module.function, fullgraph=True)

    def twice(function):
        (first,) = gradients_of(function(x * 2), (0,), (module.w,), create_graph=True)
        return flat(rl.autograd.grad(first.square().sum(), module.w)[0])

    events.reset()
    found = twice(compiled)  # the argument is gone by then
    assert asked()[0][0] == "hit"
    assert found == twice(module.function)


@pytest.mark.row("11.7")
def test_a_function_that_was_changed_before_its_backward_pass_is_told(programs):
    text = GRADIENTS.replace("(x * w).sin()", "(x * w).sin() if TABLE['sin'] else (x * w).cos()") + "TABLE = {'sin': 1}"
    programs.write(main=text)
    module = programs.load()
    gradients_of(rl.compile(module.function, fullgraph=True)(x_of(3, 4)), (0,), (module.w,))
    module = programs.load()
    results = rl.compile(module.function, fullgraph=True)(x_of(3, 4))
    module.TABLE["sin"] = 0
    with pytest.raises(rl.RushlightError, match="is another one now"):
        gradients_of(results, (1,), (module.w,))


def test_sizes_of_a_program_that_was_found_are_reported(programs):
    programs.write(main=GRADIENTS.replace("hidden = ", "hidden = x if x.shape[0] > 100 else "))
    reports = []
    for _ in range(2):
        compiled = rl.compile(programs.load().function, fullgraph=True)
        compiled(x_of(3, 4))
        reports.append(str(rl.compiler.shape_report(compiled)))
    assert reports[0] == reports[1]
    assert "x.shape[0]" in reports[0]
    assert "guards" in reports[0]


TRAINING_SCRIPT = """
import rushlight as rl
from rushlight.support import events

rl.manual_seed(0)
model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.GELU(), rl.nn.Dropout(0.5), rl.nn.Linear(8, 3))
optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
model = rl.compile(model)
for size in (6, 5):
    x, y = rl.randn(size, 4), rl.arange(size) % 3
    loss = rl.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print([(e.kind, e.code) for kind in ("cache_miss", "cache_bypass") for e in events.events(kind)])
print(loss.item())
"""


@pytest.mark.row("11.7")
def test_another_process_of_a_training_script_captures_nothing(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINING_SCRIPT)
    environment = {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache"), "PATH": "", "PYTHONHASHSEED": "random"}
    runs = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=True).stdout
        for _ in range(2)
    ]
    assert "captured" in runs[0]
    assert runs[1].splitlines()[0] == "[]"
    assert runs[1].splitlines()[1] == runs[0].splitlines()[1]


ENDING = """
import dataclasses

import rushlight as rl


class Record:
    __slots__ = ("scaled",)

    def __init__(self, scaled):
        self.scaled = scaled


@dataclasses.dataclass
class Out:
    hidden: object
    names: dict
    records: list


w = rl.full((4,), 0.5, requires_grad=True)
LOUD, LOG = True, []


def inner(x):
    y = x * w
    if LOUD:
        print("inner", end="")
    return y.sin()


def function(x):
    z = inner(x + 1)
    total = z.sum()
    LOG.append(f"{total.item():.3f}")
    if total.item() > 3:
        z = z * 2
    return Out(z, {"rows": x.shape[0], "sum": z.sum(0)}, [Record(z * 3), (z, [1, 2])])
"""


@pytest.mark.row("11.7")
def test_graphs_that_end_early_and_built_results_are_found(programs, capsys):
    """A print in an inner call, a branch of a value, objects, slots and containers that a result is built of."""

    def seen(function, module, rows):
        out = function(x_of(rows, 4))
        assert type(out) is module.Out
        assert type(out.records[0]) is module.Record
        assert out.records[1][0] is out.hidden
        out.records[0].scaled.sum().backward()
        gradient, module.w.grad = module.w.grad, None
        parts = [out.hidden, out.names["sum"], out.records[0].scaled, gradient]
        return (
            [flat(part) for part in parts],
            out.names["rows"],
            out.records[1][1],
            module.LOG[-1],
            capsys.readouterr().out,
        )

    programs.write(main=ENDING)
    module = programs.load()
    expected = [seen(module.function, module, rows) for rows in (3, 40)]
    for run in ("first", "second", "third"):
        module = programs.load()
        events.reset()
        compiled = rl.compile(module.function)
        assert [seen(compiled, module, rows) for rows in (3, 40)] == expected
        kinds = [kind for kind, _ in asked()]
        assert "bypass" not in kinds, asked()
        assert run == "first" or set(kinds) == {"hit"}, asked()
        assert run == "first" or not events.count("cache_miss")
        assert events.count("graph_break") >= 2
    programs.write(main=ENDING.replace("LOUD, LOG = True", "LOUD, LOG = False"))
    module = programs.load()
    expected = [seen(module.function, module, rows) for rows in (3, 40)]
    events.reset()
    compiled = rl.compile(programs.load().function)
    assert [seen(compiled, sys.modules["main"], rows) for rows in (3, 40)] == expected
    assert asked()[0][0] == "miss"
    assert not any("print" in event.reason for event in events.events("graph_break"))


@pytest.mark.row("11.7")
@pytest.mark.parametrize(
    ("before", "after"), [("z * 2", "z * 4"), ("y.sin", "y.cos"), ("z * 3", "z - 3"), ("> 3", "> 99")]
)
def test_a_change_behind_an_early_end_is_a_miss(programs, before, after):
    programs.write(main=ENDING)
    rl.compile(programs.load().function)(x_of(40, 4))
    programs.write(main=ENDING.replace(before, after))
    expected = programs.load().function(x_of(40, 4))
    out = rl.compile(programs.load().function)(x_of(40, 4))
    assert flat(out.hidden) == flat(expected.hidden)
    assert flat(out.records[0].scaled) == flat(expected.records[0].scaled)
