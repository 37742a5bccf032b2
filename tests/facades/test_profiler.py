"""Profiles: what they measure, how it is shown, and that nothing is left of them."""

import json
import threading
import time

import pytest

import rushlight as rl
from rushlight.bench.prtime.opcodes import Bytecodes
from rushlight.capture.function.whole import compiled_functions
from rushlight.eager.dispatch import STATE
from rushlight.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule
from rushlight.support import settings
from rushlight.support.errors import RushlightError

pytestmark = pytest.mark.usefixtures("quick_code")


def loss(x, w):
    return (x @ w).relu().sum()


def named(events):
    return {event.name: event for event in events.key_averages()}


def test_operators_steps_of_backward_and_named_parts_are_measured():
    x, w = rl.ones(4, 8), rl.ones(8, 2, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as measured:
        with record_function("forward"):
            total = loss(x, w)
        total.backward()
    found = named(measured.events())
    assert {"matmul", "relu", "sum", "forward", "MatmulBackward0", "ReluBackward0", "AccumulateGrad"} <= set(found)
    assert found["forward"].cpu_time_total >= found["relu"].cpu_time_total > 0
    assert found["forward"].self_cpu_time_total < found["forward"].cpu_time_total
    assert found["MatmulBackward0"].kind == "backward"
    forward = next(event for event in measured.events() if event.name == "matmul")
    assert forward.input_shapes == ((4, 8), (8, 2))
    assert forward.cpu_memory_usage >= 32
    assert "in loss" in str(forward.stack[0]) or forward.stack[0].endswith(": loss")
    apart = measured.key_averages(group_by_input_shape=True)
    assert len([event for event in apart if event.name == "matmul"]) == 2
    assert sum(event.self_cpu_time_total for event in measured.events()) == pytest.approx(
        sum(event.cpu_time_total for event in outermost(measured.events()))
    )


def outermost(events):
    """Those that begin in no other: events are in the order in which they ended."""
    chosen = []
    for event in reversed(events):
        if not any(other.start <= event.start < other.start + other.cpu_time_total for other in chosen):
            chosen.append(event)
    return chosen


@pytest.mark.row("2.7")
@pytest.mark.parametrize("fullgraph", [True, False])
def test_stages_of_a_compiled_call_leave_no_time_unattributed(fullgraph):
    x, w = rl.ones(4, 8), rl.ones(8, 2, requires_grad=True)
    compiled = rl.compile(loss, fullgraph=fullgraph)
    compiled(x, w).backward()
    with profile() as measured:
        for _ in range(5):
            compiled(x, w).backward()
    found = named(measured.events())
    (whole,) = [event for name, event in found.items() if name.startswith("compiled ")]
    assert whole.count == 5
    stages = [found[name] for name in ("cache_lookup", "aot_prologue", "compiled_graph", "aot_epilogue")]
    assert sum(stage.cpu_time_total for stage in stages) > 0.9 * whole.cpu_time_total
    assert found["CompiledFunctionBackward"].count == 5
    assert "matmul" not in found


@pytest.mark.row("2.7")
def test_a_trace_of_a_training_step_names_nine_tenths_of_its_time(tmp_path):
    """The best of some steps: another program may run between two parts of one."""
    model = rl.nn.Sequential(*[rl.nn.Linear(256, 256) for _ in range(4)])
    optimizer = rl.optim.SGD(model.parameters(), lr=0.01)
    compiled = rl.compile(lambda x: model(x).square().mean())
    x = rl.ones(512, 256)

    def step():
        optimizer.zero_grad()
        compiled(x).backward()
        optimizer.step()

    step()
    shares = [0.0]
    for number in range(20):
        if max(shares) > 0.9:  # what other tests take in between is in no span
            break
        with profile() as measured:
            begun = time.perf_counter()
            step()
            wall = time.perf_counter() - begun
        measured.export_chrome_trace(str(tmp_path / f"{number}.json"))
        trace = json.loads((tmp_path / f"{number}.json").read_text())
        spans = [(one["ts"], one["ts"] + one["dur"]) for one in trace["traceEvents"] if one.get("ph") == "X"]
        shares.append(covered(spans) / (1e6 * wall))
    assert 0.9 < max(shares) <= 1


def covered(spans):
    """The length of a union of intervals."""
    total, end = 0.0, 0.0
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


@pytest.mark.row("2.7")
def test_nothing_is_left_of_a_profile():
    x, w = rl.ones(4, 8), rl.ones(8, 2)
    first, second = rl.compile(loss), rl.compile(lambda x: x * 2, fullgraph=True)
    first(x, w)
    before = [entry.call for function in compiled_functions() for entry in function.traces()]
    code = [call.__code__.co_code for call in before]
    with pytest.raises(ZeroDivisionError), profile():
        first(x, w)
        second(x)  # compiled while a profile is on
        raise ZeroDivisionError
    calls = [entry.call for function in compiled_functions() for entry in function.traces()]
    assert all(call in calls for call in before)
    assert all(call.__code__.co_name == "call" and "begin" not in call.__code__.co_names for call in calls)
    assert code == [call.__code__.co_code for call in before]
    assert not STATE.included
    assert not STATE.profiles
    assert second(x).tolist() == (x * 2).tolist()


@pytest.mark.row("2.7")
def test_calls_without_a_profile_execute_no_more_instructions_than_before_one():
    x, w = rl.ones(4, 8), rl.ones(8, 2, requires_grad=True)
    compiled = rl.compile(loss)

    def work():
        for _ in range(20):
            compiled(x, w).backward()
            loss(x, w)

    work()
    before = Bytecodes().count(work)
    with profile():
        work()
        during = Bytecodes().count(work)
    work()
    assert Bytecodes().count(work) <= before * 1.005
    assert during > before * 1.1


def branching(x, w, way):
    """Each way runs a part in another state of the process, with a break between two graphs in it."""
    first = (x @ w).relu()
    if way == "no_grad":
        with rl.no_grad():
            print(end="")
            return (first * 2).sum()
    if way == "autocast":
        with rl.autocast("cpu", dtype=rl.bfloat16):
            print(end="")
            return (first @ w.mT).sum()
    if way == "raises":
        with rl.no_grad(), rl.autocast("cpu", dtype=rl.bfloat16):
            print(end="")
            raise KeyError(way)
    return first.sum()


@pytest.mark.row("2.7")
def test_regions_begin_and_end_in_pairs_in_branches_of_another_state():
    x, w = rl.ones(4, 8), rl.ones(8, 2, requires_grad=True)
    compiled, ways = rl.compile(branching), ("plain", "no_grad", "autocast", "raises", "plain")

    def call(function, way):
        try:
            result = function(x, w, way)
        except KeyError as error:
            return error.args
        return result.item(), result.dtype, result.requires_grad

    expected = [call(branching, way) for way in ways]
    assert [call(compiled, way) for way in ways] == expected
    with profile() as measured:
        with rl.no_grad(), record_function("outer"):  # the caller's own state differs too
            assert [call(compiled, way)[:2] for way in ways] == [one[:2] for one in expected]
        with record_function("outer"):
            assert [call(compiled, way) for way in ways] == expected
    events = measured.events()
    spans = sorted([(event.start, -event.cpu_time_total, event.name) for event in events])
    open_ends = []
    for start, length, name in spans:  # each region lies within the one that was begun before, or behind it
        while open_ends and open_ends[-1] <= start + 1e-3:  # in microseconds, rounded
            open_ends.pop()
        assert not open_ends or start - length <= open_ends[-1] + 1e-3, name
        open_ends.append(start - length)
    found = named(measured)
    assert found["outer"].count == 2
    stages = [found[name].count for name in ("aot_prologue", "compiled_graph", "aot_epilogue")]
    assert len({*stages}) == 1
    assert stages[0] >= 2 * len(ways)
    assert rl.is_grad_enabled()
    assert not rl.is_autocast_enabled("cpu")
    assert not STATE.included
    assert not STATE.profiles


@pytest.mark.skipif(settings.get().eager_calls != "native", reason="calls go through Python")
def test_what_is_compiled_under_a_profile_is_measured_and_has_no_operators():
    with profile() as measured:
        compiled = rl.compile(lambda x: (x * 2).sum())
        compiled(rl.ones(3))
        compiled(rl.ones(3))
    found = named(measured.events())
    assert found["compiled_graph"].count == 2
    assert "mul" not in found


def test_results_are_those_without_a_profile():
    x, w = rl.rand(4, 8), rl.rand(8, 2).requires_grad_()
    expected = rl.autograd.grad(loss(x, w), w)[0]
    with profile():
        assert rl.equal(rl.autograd.grad(loss(x, w), w)[0], expected)
        assert rl.equal(rl.autograd.grad(rl.compile(loss)(x, w), w)[0], expected)
        rl.manual_seed(3)
        drawn = rl.rand(4)
        mapped = rl.vmap(lambda row: row.sum())(x)
    rl.manual_seed(3)
    assert rl.equal(rl.rand(4), drawn)
    assert rl.equal(mapped, x.sum(1))


def test_profiles_within_each_other_and_beside_threads():
    def named_elsewhere():
        with record_function("elsewhere"):
            rl.ones(2) + 1

    with profile() as outer:
        rl.ones(3) * 2
        with profile() as inner:
            rl.ones(3).exp()
        thread = threading.Thread(target=named_elsewhere)
        thread.start()
        thread.join()
    assert "exp" in named(outer.events())
    assert "exp" in named(inner.events())
    assert "mul" not in named(inner.events())
    assert "elsewhere" in named(outer.events())
    assert "add" not in named(outer.events())  # operators are those of the thread that profiles


def test_schedules_choose_steps():
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    names = "".join([{0: "n", 1: "w", 2: "r", 3: "s"}[plan(step).value] for step in range(12)])
    assert names == "nnwrsnwrsnnn"
    cycles = []
    with profile(schedule=plan, on_trace_ready=lambda done: cycles.append(len(named(done.events())))) as measured:
        for _ in range(10):
            rl.ones(3) * 2
            measured.step()
    assert cycles == [2, 2]
    assert measured.step_num == 10
    assert plan(4) is ProfilerAction.RECORD_AND_SAVE


def test_traces_are_written(tmp_path):
    handler = rl.profiler.tensorboard_trace_handler(str(tmp_path / "traces"), worker_name="one")
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, on_trace_ready=handler) as measured:
        rl.ones(3) * 2
    (path,) = (tmp_path / "traces").iterdir()
    events = json.loads(path.read_text())["traceEvents"]
    assert {"ones", "mul"} & {event["name"] for event in events}
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    measured.export_stacks(str(tmp_path / "stacks"))
    assert "test_profiler.py" in (tmp_path / "stacks").read_text()
    table = measured.key_averages().table(sort_by="self_cpu_time_total", row_limit=1, header="top")
    assert table.startswith("top\n")
    assert "Self CPU time total" in table


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: profile(with_flops=True), "A006"),
        (lambda: profile(activities=[ProfilerActivity.CUDA]), "A006"),
        (lambda: schedule(wait=0, warmup=0, active=0), "A002"),
        (lambda: rl.profiler.EventList().table(sort_by="cuda_time_total"), "A006"),
        (lambda: rl.profiler.tensorboard_trace_handler("x", use_gzip=True), "A006"),
    ],
)
def test_what_is_not_measured_is_refused(call, code):
    with pytest.raises(RushlightError) as caught:
        call()
    assert caught.value.code == code
