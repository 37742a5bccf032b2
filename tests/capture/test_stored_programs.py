"""Captured programs on disk: what another process finds, and what it must not take for the same.

A second process is here a module that is loaded anew: nothing of a function, its globals and its classes is the object
that it was. `test_another_process_captures_nothing` starts real ones.
"""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from tests.capture.stored import asked, check, flat, x_of

import rushlight as rl
from rushlight.capture.stored.places import Places
from rushlight.runtime import objects
from rushlight.support import events, settings
from rushlight.support.errors import CompileError, RushlightWarning

MAIN = """
import helper
import rushlight as rl

RATE = 2.0
TABLE = {"a": 1.5, "b": [1, 2]}


class Config:
    def __init__(self):
        self.power = 2


CONFIG = Config()


def scaled(factor):
    def inner(x):
        return x * factor
    return inner


inner = scaled(3.0)


class Model(rl.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = rl.nn.Linear(width, width)
        self.slope = 0.5

    def activate(self, x):
        return x.relu()

    def forward(self, x):
        return self.activate(self.linear(x)) * (self.slope + self.training)


rl.manual_seed(0)
model = Model().eval()


def function(x, y=1.0):
    with rl.no_grad():
        out = model(inner(x * RATE) + helper.shifted(x)) * helper.SCALE + TABLE["a"]
        return out ** CONFIG.power + y, len(TABLE["b"])
"""
HELPER = """
SCALE = 0.25


def shifted(x):
    return x + 1
"""


def test_an_object_that_hides_its_attributes_is_in_nobodys_way(programs):
    hiding = "class Shy:\n    @property\n    def __dict__(self):\n        raise LookupError\n\n\nSHY = Shy()\n"
    programs.write(main=MAIN + hiding, helper=HELPER)
    check(programs.load(), (x_of(3, 4),), hit=False)
    check(programs.load(), (x_of(3, 4),), hit=True)


@pytest.mark.parametrize("full", [True, False], ids=["whole", "parts"])
@pytest.mark.row("11.7")
def test_an_unchanged_program_is_found(programs, full):
    programs.write(main=MAIN, helper=HELPER)
    check(programs.load(), (x_of(3, 4),), hit=False, full=full)
    check(programs.load(), (x_of(3, 4),), hit=True, full=full)
    check(programs.load(), (x_of(7, 4),), hit=True, full=full)  # sizes are open


CHANGES = {
    "the function": ("main", "+ y, len", "- y, len"),
    "a helper of another module": ("helper", "x + 1", "x + 2"),
    "a global": ("main", "RATE = 2.0", "RATE = -2.0"),
    "the class of a global": ("main", "RATE = 2.0", "RATE = 2"),
    "a module's attribute": ("helper", "SCALE = 0.25", "SCALE = 0.5"),
    "a closure's variable": ("main", "scaled(3.0)", "scaled(4.0)"),
    "an entry of a dict": ("main", '"a": 1.5', '"a": 2.5'),
    "the length of a list": ("main", "[1, 2]", "[1, 2, 3]"),
    "an attribute of an object": ("main", "self.power = 2", "self.power = 3"),
    "an attribute of a model": ("main", "self.slope = 0.5", "self.slope = -0.5"),
    "a method of a model": ("main", "x.relu()", "x.sigmoid()"),
    "a default": ("main", "y=1.0", "y=2.0"),
    "a size of a model": ("main", "width=4", "width=5"),
    "a parameter without a bias": ("main", "rl.nn.Linear(width, width)", "rl.nn.Linear(width, width, bias=False)"),
    "a model that trains": ("main", "Model().eval()", "Model().train()"),
    "a hook": ("main", "def function", "model.linear.register_forward_hook(lambda m, a, y: y * 3)\n\n\ndef function"),
    "a function in a method's place": ("main", "def function", "model.activate = lambda x: x.tanh()\n\n\ndef function"),
    "frozen parameters": ("main", "def function", "model.requires_grad_(False)\n\n\ndef function"),
    "a dtype of parameters": ("main", "Model().eval()", "Model().eval().double()"),
}


@pytest.mark.row("11.7")
@pytest.mark.generated
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_program_is_a_miss(programs, change):
    name, before, after = CHANGES[change]
    texts = {"main": MAIN, "helper": HELPER}
    programs.write(**texts)
    width = 5 if change == "a size of a model" else 4
    dtype = rl.float64 if change == "a dtype of parameters" else rl.float32
    check(programs.load(), (x_of(3, 4),), hit=False)
    assert texts[name].count(before) == 1
    programs.write(**{name: texts[name].replace(before, after)})
    check(programs.load(), (x_of(3, width, dtype=dtype),), hit=False)
    programs.write(**texts)
    check(programs.load(), (x_of(3, 4),), hit=True)  # both are kept


MORE = """
import enum
import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import helper
import rushlight as rl


class Mode(enum.Enum):
    FAST = 2
    SLOW = 3


class Pair(NamedTuple):
    low: float = -0.5
    high: float = 2.0


@dataclass(frozen=True)
class Options:
    shift: float = 0.125


MODE = Mode.FAST
PAIR = Pair()
OPTIONS = Options()
SIZES = (1, (2, 3.0))
WEIGHT = np.float32(1.5)
STEPS = range(2)
NAMES = {"b": 1, "a": 2}
half = functools.partial(helper.scale, by=0.5)
table = [abs, lambda x: x - 1]


class Operation(helper.Base):
    GAIN = 3.0

    @property
    def bias(self):
        return 1.0

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def gain(cls, x):
        return x * cls.GAIN


operation = Operation()


def function(x, *, power=2, flip=False):
    x = -x if flip else x
    out = half(x).clamp(PAIR.low, PAIR.high) ** power + OPTIONS.shift
    for step in STEPS:
        out = out + step
    if MODE is Mode.FAST:
        out = out * MODE.value
    out = operation.twice(operation.gain(out)) + operation.bias + operation.offset()
    for place, name in enumerate(NAMES):
        out = out + place * NAMES[name]
    return table[1](out) * SIZES[1][1] + float(WEIGHT)
"""
MORE_HELPER = """
OFFSETS = [0.5]


def scale(x, by):
    return x * by


class Base:
    def offset(self):
        return OFFSETS[0]
"""
MORE_CHANGES = {
    "which member of an enumeration": ("main", "MODE = Mode.FAST", "MODE = Mode.SLOW"),
    "the value of a member": ("main", "FAST = 2", "FAST = 5"),
    "a field of a named tuple": ("main", "PAIR = Pair()", "PAIR = Pair(high=1.0)"),
    "a field of a frozen record": ("main", "OPTIONS = Options()", "OPTIONS = Options(2.0)"),
    "a tuple": ("main", "(2, 3.0)", "(2, 4.0)"),
    "a number of numpy": ("main", "np.float32(1.5)", "np.float32(2.5)"),
    "a range": ("main", "range(2)", "range(3)"),
    "the order of a dict": ("main", '{"b": 1, "a": 2}', '{"a": 2, "b": 1}'),
    "an argument of a partial": ("main", "by=0.5", "by=0.75"),
    "a function in a list": ("main", "x - 1", "x - 2"),
    "a class's attribute": ("main", "GAIN = 3.0", "GAIN = 4.0"),
    "a property": ("main", "return 1.0", "return 2.0"),
    "a static method": ("main", "return x * 2", "return x * 3"),
    "a class method": ("main", "return x * cls", "return x / cls"),
    "a base of another module": ("helper", "return OFFSETS[0]", "return -OFFSETS[0]"),
    "a list of another module": ("helper", "[0.5]", "[0.75]"),
    "a default by name": ("main", "flip=False", "flip=True"),
    "another function of the name": ("helper", "return x * by", "return x * by * by"),
}


@pytest.mark.row("11.7")
@pytest.mark.generated
@pytest.mark.parametrize("change", MORE_CHANGES)
def test_whatever_a_trace_reads_is_told_apart(programs, change):
    name, before, after = MORE_CHANGES[change]
    texts = {"main": MORE, "helper": MORE_HELPER}
    programs.write(**texts)
    module = programs.load()
    assert flat(rl.compile(module.function)(x_of(3, 4))) == flat(module.function(x_of(3, 4)))
    assert texts[name].count(before) == 1
    programs.write(**{name: texts[name].replace(before, after)})
    check(programs.load(), (x_of(3, 4),), hit=False, full=False)
    programs.write(**texts)
    check(programs.load(), (x_of(3, 4),), hit=True, full=False)


CALLS = {
    "dtype": lambda: (x_of(3, 4).double().float().to(rl.float64),),
    "number of dims": lambda: (x_of(2, 3, 4),),
    "stride": lambda: (x_of(4, 3).mT,),
    "a number": lambda: (x_of(3, 4), 2),
    "no tensor": lambda: (x_of(3, 4), x_of(1)),
}


OBJECTS = """
from array import array


class Numbers(array):
    pass


class Held:
    def __len__(self):
        return 2


def function(x, held):
    return x * len(held)
"""


def test_an_argument_of_another_class_is_a_miss(programs):
    """What C holds of an object no entry tells."""
    programs.write(main=OBJECTS)
    makers = [lambda module: module.Held(), lambda module: range(3), lambda module: module.Numbers("d", [1, 2, 3, 4])]
    for make in (*makers, *makers):
        module = programs.load()
        held = make(module)
        for _ in range(2):
            for compiled in (rl.compile(module.function), rl.compile(module.function, fullgraph=True)):
                try:
                    assert flat(compiled(x_of(3), held)) == flat(module.function(x_of(3), held))
                except CompileError as refused:
                    assert refused.code == "C003"
            if type(held) is module.Numbers:
                held.append(1.0)


@pytest.mark.row("11.7")
@pytest.mark.parametrize("call", CALLS)
def test_another_call_is_a_miss(programs, call):
    programs.write(
        main="""
        def function(x, y=1.0):
            return (x.T if x.dim() == 2 else x) * y + x.stride(0) * x.requires_grad
        """
    )
    check(programs.load(), (x_of(3, 4),), hit=False)
    check(programs.load(), CALLS[call](), hit=False)
    check(programs.load(), CALLS[call](), hit=True)
    check(programs.load(), (x_of(3, 4),), hit=True)


@pytest.mark.row("11.7")
@pytest.mark.parametrize(
    "changed", [{"target": "x86-64-v3"}, {"numerics": "fast"}, {"without": ("rows",)}, {"optimise": 1}], ids=str
)
def test_another_setting_or_processor_is_a_miss(programs, changed):
    programs.write(main=MAIN, helper=HELPER)
    check(programs.load(), (x_of(3, 4),), hit=False)
    with settings.override(**changed):
        events.reset()
        rl.compile(programs.load().function, fullgraph=True)(x_of(3, 4))
        assert [kind for kind, _ in asked()] == ["miss"]
    check(programs.load(), (x_of(3, 4),), hit=True)


@pytest.mark.row("11.7")
def test_grad_mode_default_dtype_and_autocast_are_told_apart(programs):
    programs.write(
        main="""
        import rushlight as rl

        def function(x):
            return (x @ x.mT) * 1.5 + rl.ones(2, 2)
        """
    )
    check(programs.load(), (x_of(2, 3),), hit=False)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        check(programs.load(), (x_of(2, 3),), hit=False)
    with rl.device("meta"), pytest.raises(rl.RushlightError):
        rl.compile(programs.load().function, fullgraph=True)(x_of(2, 3)).numpy()
    rl.set_default_dtype(rl.float64)
    try:
        check(programs.load(), (x_of(2, 3),), hit=False)
        check(programs.load(), (x_of(2, 3),), hit=True)
    finally:
        rl.set_default_dtype(rl.float32)
    check(programs.load(), (x_of(2, 3),), hit=True)


@pytest.mark.row("11.7")
def test_tensors_that_share_memory_are_told_from_those_that_do_not(programs):
    text = """
    import rushlight as rl

    a = rl.ones(4)
    b = OTHER

    def function(x):
        a.add_(x)
        return b * 2
    """
    programs.write(main=text.replace("OTHER", "rl.ones(4)"))
    for hit in (False, True):
        module = programs.load()
        events.reset()
        assert rl.compile(module.function, fullgraph=True)(rl.ones(4)).tolist() == [2.0] * 4
        assert ("hit" in [kind for kind, _ in asked()]) is hit
        assert module.a.tolist() == [2.0] * 4
    programs.write(main=text.replace("OTHER", "a"))
    module = programs.load()
    assert rl.compile(module.function, fullgraph=True)(rl.ones(4)).tolist() == [4.0] * 4
    programs.write(main=text.replace("OTHER", "rl.ones(8)[:4]"))
    module = programs.load()
    assert rl.compile(module.function, fullgraph=True)(rl.ones(4)).tolist() == [2.0] * 4


TRAINING = """
import rushlight as rl

rl.manual_seed(0)
model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Dropout(0.5), rl.nn.GELU(), rl.nn.BatchNorm1d(8), rl.nn.Linear(8, 1))
optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
losses = []


def function(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
    return loss.detach()
"""


@pytest.mark.row("11.7")
@pytest.mark.parametrize("full", [True, False], ids=["whole", "parts"])
def test_steps_of_training_are_found(programs, full):
    programs.write(main=TRAINING)
    module, curves = programs.load(), []
    curves.append([module.function(x_of(6, 4)).item() for _ in range(5)])
    for hit in (False, True):
        module = programs.load()
        events.reset()
        step = rl.compile(module.function, fullgraph=full)
        curves.append([step(x_of(6, 4)).item() for _ in range(5)])
        assert ("hit" in [kind for kind, _ in asked()]) is hit, asked()
        assert len(module.losses) == 5
        assert module.model[3].num_batches_tracked.item() == 5
    assert curves[0] == curves[1] == curves[2]
    programs.write(main=TRAINING.replace("lr=0.01", "lr=0.02"))  # which is a number of the run time
    module = programs.load()
    expected = module.function(x_of(6, 4)).item(), module.function(x_of(6, 4)).item()
    step = rl.compile(programs.load().function, fullgraph=full)
    assert (step(x_of(6, 4)).item(), step(x_of(6, 4)).item()) == expected
    programs.write(main=TRAINING.replace("AdamW", "SGD"))
    events.reset()
    rl.compile(programs.load().function, fullgraph=full)(x_of(6, 4))
    assert next(kind for kind, _ in asked()) == "miss"


REFUSED = {
    "os": ("import os\n", "x * len(os.environ.get('HOME', ''))"),
    "the order of a set": ("NAMES = {'a', 'b'}\n", "x * [*NAMES].index('a')"),
    "marks": ("", "x * 2"),
}


@pytest.mark.row("11.7")
@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_kept_is_counted_with_its_reason(programs, why):
    before, body = REFUSED[why]
    programs.write(main=f"{before}\ndef function(x):\n    return {body}\n")
    x = x_of(3, 4)
    if why == "marks":
        rl.compiler.mark_static(x, 0)
    module = programs.load()
    events.reset()
    assert flat(rl.compile(module.function)(x)) == flat(module.function(x))
    reasons = [reason for kind, reason in asked() if kind == "bypass"]
    broke = events.count("graph_break")
    assert any(why in reason for reason in reasons) or (why in ("os", "the order of a set") and broke)
    check(programs.load(), (x,), hit=False, full=False)


@pytest.mark.row("11.7")
def test_an_entry_with_any_byte_changed_is_a_miss(programs, tmp_path):
    programs.write(main=MAIN, helper=HELPER)
    check(programs.load(), (x_of(3, 4),), hit=False)
    files = [path for path in (tmp_path / "cache").iterdir() if b"captured " in path.read_bytes()[:200]]
    (path,) = files
    whole = path.read_bytes()
    for at in [*range(0, 64, 9), *np.linspace(64, len(whole) - 1, 8).astype(int)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        module = programs.load()
        events.reset()
        corrupt = objects.shared().counts.corrupt
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RushlightWarning)  # K002 is said once of a folder
            result = rl.compile(module.function, fullgraph=True)(x_of(3, 4))
        assert objects.shared().counts.corrupt == corrupt + 1
        assert flat(result) == flat(module.function(x_of(3, 4)))
        assert [kind for kind, _ in asked()] == ["miss"]
    path.write_bytes(whole)
    check(programs.load(), (x_of(3, 4),), hit=True)


HOSTILE = """
import rushlight as rl


class Hostile:
    factor = 2.0

    def __getattr__(self, name):
        raise KeyError(name)


class Table(dict):
    def __getitem__(self, key):
        raise RuntimeError(key)

    def items(self):
        raise RuntimeError("items")


HOSTILE, TABLE, LONG = Hostile(), Table(a=1), list(range(100_000))


def function(x):
    return x * HOSTILE.factor + TABLE.get("a") + len(LONG)
"""


def test_objects_of_the_program_are_asked_for_nothing(programs):
    programs.write(main=HOSTILE)
    for _ in range(2):
        module = programs.load()
        compiled = rl.compile(module.function)
        assert flat(compiled(x_of(3))) == flat(module.function(x_of(3)))
        assert flat(compiled(x_of(3))) == flat(module.function(x_of(3)))


def test_a_program_that_is_forgotten_is_traced_again(programs):
    programs.write(main=MAIN, helper=HELPER)
    compiled = rl.compile(programs.load().function, fullgraph=True)
    compiled(x_of(3, 4))
    rl.compiler.reset()
    events.reset()
    compiled(x_of(3, 4))
    assert [kind for kind, _ in asked()] == ["miss"]


SCRIPT = """
import time
import rushlight as rl
from rushlight.runtime import objects
from rushlight.support import events
import main

compiled = rl.compile(main.model)
x = rl.ones(3, 4)
with rl.no_grad():
    times = []
    for _ in range(3):
        start = time.process_time()
        y = compiled(x)
        times.append(time.process_time() - start)
print([(e.kind, e.code) for kind in ("cache_miss", "cache_bypass") for e in events.events(kind)])
print(times[0] - times[2] < 0.15, y.sum().item())
"""


@pytest.mark.row("11.7")
def test_another_process_captures_nothing(programs, tmp_path):
    programs.write(main=MAIN, helper=HELPER)
    programs.load()
    script = tmp_path / "modules" / "script.py"
    script.write_text(SCRIPT)
    environment = {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache"), "PATH": "", "PYTHONHASHSEED": "random"}
    runs = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=True).stdout
        for _ in range(2)
    ]
    assert "captured" in runs[0]
    assert runs[1].splitlines()[0] == "[]"
    assert runs[1].splitlines()[1].split()[0] == "True"
    assert runs[1].split()[-1] == runs[0].split()[-1]


def test_what_a_trace_has_seen_of_its_arguments_is_kept(programs):
    programs.write(main=MAIN, helper=HELPER)
    proposed = []
    for _ in range(2):
        compiled = rl.compile(programs.load().function, fullgraph=True)
        compiled(x_of(3, 4), 2.0)
        compiled(x_of(3, 4), y=x_of(4))
        proposed.append([str(spec) for spec in rl.compiler.propose_specs(compiled)])
    assert proposed[0] == proposed[1]


def test_ways_are_looked_for_as_far_as_they_are_needed():
    class Node:
        def __init__(self, others: list[object]) -> None:
            self.others, self.table = others, {"near": self.method}

        def method(self) -> None: ...

    others: list[object] = []
    others += [Node(others) for _ in range(10_000)]
    near, far = {"key": 1}, object()
    places = Places([("near", [near]), ("world", others)])
    assert places.step(near) is not None
    assert len(vars(places)["_steps"]) < 10  # not the world, which comes behind it
    assert places.function_of(Node.method.__code__) is Node.method
    assert places.step(far) is None  # where there is more than is looked at
