"""What captures make lives as long as somebody needs it, without the garbage collector."""

import gc
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.build import native
from rushlight.runtime import llvm
from rushlight.runtime.allocator import CPU
from rushlight.support import settings
from tools.soak import collector_off, compile_and_reset, fail_to_capture, growth, left_behind, training_step

ROUNDS = 5
MOST_PEAK = 1.02  # across breaks, of eager code's


class Stop(BaseException):
    """What a program raises that is no error, as an interrupt is none."""


def raising(error: type[BaseException]) -> Callable[[Any], Any]:
    """A program that computes something and raises."""

    def program(x: Any) -> Any:
        raise error(f"after {x.exp() @ x}")

    return program


def resized_bytes() -> Callable[[Any], Any]:
    """A program that changes what no graph can change."""
    calls = bytearray()

    def program(x: Any) -> Any:
        calls.insert(0, 1)
        return x * 2

    return program


def untold(x: Any) -> Any:
    """A program that asks for a value."""
    return x * 2 if x.sum() > 0 else x


def asserted(x: Any) -> Any:
    """A program whose assert does not hold."""
    rl.check(x[x > 0].shape[0] > 1000, "many")
    return x * 3


def gradient_of_a_view(x: Any) -> Any:
    """A program that fails in its own backward pass."""
    y = (x.detach() * 2).requires_grad_()
    (y * y).sum().backward(rl.ones(7))
    return y.grad


FAILING: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "shape": lambda: lambda x: (x * 2).view(7, 7),
    "error": lambda: raising(ValueError),
    "interrupt": lambda: raising(Stop),
    "resized": resized_bytes,
    "value": lambda: untold,
    "assert": lambda: asserted,
    "backward": lambda: gradient_of_a_view,
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_failed_capture_leaves_nothing(name: str, requires_grad: bool):
    failures: list[int] = []

    def run(number: int) -> None:
        try:
            rl.compile(FAILING[name](), fullgraph=True)(rl.ones(20, 20, requires_grad=requires_grad))
        except (rl.RushlightError, ValueError, Stop):
            failures.append(number)

    assert left_behind(run, ROUNDS) == {}
    assert len(failures) == ROUNDS + 3


@pytest.mark.parametrize("stage", ["_load", "_compile"])
def test_a_failed_compilation_leaves_nothing(stage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Of a program whose capture was done."""

    def failing(*_: Any) -> Any:
        raise MemoryError("no more")

    def run(number: int) -> None:
        with suppress(MemoryError):
            rl.compile(lambda x: (x * (1.5 + number)).cos().sum(), fullgraph=True)(rl.ones(20, 20))
            pytest.fail("compiled")

    monkeypatch.setattr(native, stage, failing)
    with settings.override(cache_dir=str(tmp_path)):
        assert left_behind(run, ROUNDS) == {}


def test_the_callers_tensors_are_free_after_a_failure():
    with collector_off():
        x = rl.ones(1000, 1000)
        ref, storage = weakref.ref(x), weakref.ref(x.backing)
        with suppress(rl.RushlightError):
            rl.compile(lambda x: (x * 2).view(7, 7))(x)
        del x
        assert ref() is None and storage() is None


def drawn(x: Any) -> Any:
    """A program with random numbers."""
    return rl.nn.functional.dropout(x, 0.5) + rl.rand_like(x)


def chosen(x: Any) -> Any:
    """A program with control flow."""
    return rl.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def several(x: Any) -> Any:
    """A program of several native calls."""
    return x[x > 0].sort().values * 2


def caught(x: Any) -> Any:
    """A program that handles the error of an operator."""
    y = x * 2
    with suppress(rl.RushlightError):
        _ = y + rl.ones(77)
    return y + 1


FINISHED: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2).relu().sum(0),
    "product": lambda x: rl.nn.functional.gelu(x @ x.mT).softmax(-1),
    "sizes": lambda x: x.reshape(-1) * x.shape[0],
    "draws": drawn,
    "control": chosen,
    "several": several,
    "caught": caught,
}


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_finished_capture_leaves_nothing_after_a_reset(name: str, requires_grad: bool):
    def run(number: int) -> None:
        step = rl.compile(FINISHED[name])
        for size in (4, 6):
            result = step(rl.ones(size, size, requires_grad=requires_grad))
            if requires_grad:
                result.sum().backward()
        rl.compiler.reset()

    assert left_behind(run, ROUNDS) == {}


class Handling:
    """A scope that handles an error, and keeps it."""

    error: BaseException

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, _: object, error: BaseException, traceback: object) -> bool:
        """Handles the error."""
        self.error = error
        return True


@pytest.mark.parametrize("scope", [Handling, lambda: suppress(ValueError)])
@pytest.mark.parametrize("nested", [False, True])
def test_steps_of_the_history_and_tensors_behind_an_error_of_a_hook_are_free(scope: Callable[[], Any], nested: bool):
    def refuse(_: Any) -> Any:
        raise ValueError

    def program() -> Any:
        x = w * 2
        x.register_hook(refuse)
        y = x.exp()
        with scope():
            y.sum().backward()
        return weakref.ref(x.grad_fn), weakref.ref(y)

    w = rl.ones(3, requires_grad=True)
    called = (lambda: [ref() for ref in program()]) if nested else program
    with collector_off():
        refs = rl.compile(called)()
        assert (refs if nested else [ref() for ref in refs]) == [None, None]


def test_a_model_and_its_optimizer_are_free_with_their_step():
    def run(number: int) -> None:
        step = training_step(compiled=True)
        step(0)
        step(1)
        rl.compiler.reset()

    assert left_behind(run, 2, warm_up=2) == {}


def test_a_compiled_function_that_nobody_has_is_free():
    with collector_off():
        step = rl.compile(lambda x: x.sin() + 5)
        step(rl.ones(3))
        ref = weakref.ref(step)
        del step
        assert ref() is None


def test_native_code_is_unloaded_with_its_last_executable(monkeypatch: pytest.MonkeyPatch):
    loaded: list[weakref.ref[llvm.LoadedModule]] = []
    load = native._load

    def watched(*args: Any) -> llvm.LoadedModule:
        module = load(*args)
        loaded.append(weakref.ref(module))
        return module

    monkeypatch.setattr(native, "_load", watched)
    with collector_off():
        first, second = (rl.compile(lambda x: (x * 8.25).sin() - 4) for _ in range(2))
        x = rl.ones(3)
        first(x)
        second(x)
        assert len(loaded) == 1, "equal graphs share code"
        first.reset()
        assert loaded[0]() is not None
        second.reset()
        assert loaded[0]() is None
        second(x)
        assert len(loaded) == 2 and loaded[1]() is not None


def test_tables_stay_as_large_when_a_program_is_compiled_again_and_again():
    """In small; `python -m tools.soak` does it at length."""
    _, added = growth(compile_and_reset, count=10, warm_up=10)
    for name in ("Event", "Frame", "Counter", "list"):  # the ring of events is bounded
        added.pop(name, None)
    assert added.total() < 10 * 10, added


def test_what_the_long_runs_do_is_what_they_say():
    with pytest.raises(rl.RushlightError):
        rl.compile(lambda x: (x * 2).view(7, 7))(rl.ones(100, 100))
    assert left_behind(fail_to_capture, 2, warm_up=1) == {}
    kept: list[Any] = []
    assert left_behind(lambda number: kept.append(rl.ones(3)), 2) == {"tensor": 2, "Storage": 2}
    assert gc.isenabled()


def test_growth_counts_what_is_added_and_no_caches_of_abstract_classes():
    classes = [type(f"Asked{number}", (), {}) for number in range(10)]
    kept: list[Any] = []

    def run(number: int) -> None:
        isinstance(classes[number]() if number < 10 else None, Mapping)
        kept.append([weakref.ref(classes[0], print)])

    added = growth(run, count=8, warm_up=2)[1]
    assert (added["ReferenceType"], added["builtin_function_or_method"]) == (8, 0)


def chain_with_breaks(x: Any, log: list[float]) -> Any:
    y = x * 2
    log.append(float(y.sum()))
    z = y.sin()
    del y
    print(end="")
    w = z.reshape(-1, 4) @ rl.ones(4, 4)
    del z
    log.append(w.max().item())
    v = w.exp()
    del w
    print(end="")
    return v.sum()


def squared(x: Any) -> Any:
    held = x @ x.T
    print(end="")
    held = held.cos()
    print(end="")
    return held @ x


def breaks_in_calls(x: Any, log: list[float]) -> Any:
    y = squared(x.reshape(256, -1)[:, :256])
    z = squared(y)
    del y
    print(end="")
    try:
        z = squared(z)
    finally:
        log.append(float(z.sum()))
    for _ in range(3):
        z = z / 2
        print(end="")
    return z


@pytest.mark.parametrize("function", [chain_with_breaks, breaks_in_calls])
def test_the_peak_of_memory_across_breaks_is_that_of_eager_code(function: Callable[[Any, list[float]], Any]):
    """The state at a break holds no tensor longer than the variables of the program do."""
    compiled, x = rl.compile(function, fullgraph=False), rl.ones(1 << 18)

    def peak(step: Callable[[Any, list[float]], Any]) -> int:
        for _ in range(2):
            step(x, [])
        with collector_off():
            CPU.reset_peak()
            before = CPU.statistics().used_bytes
            step(x, [])
            return CPU.statistics().peak_bytes - before

    eager = peak(function)
    assert eager >= x.nbytes // 2
    assert peak(compiled) <= MOST_PEAK * eager
    assert rl.compiler.graph_count() >= 4
