"""What the library calls back of a program, as hooks and functions of transforms, has its effects at every call."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.resume.interpreters import known
from rushlight.distributed.optim import _apply_optimizer_in_backward as apply_in_backward
from rushlight.ir.graph import GraphBuilder
from rushlight.ir.type import TensorType
from rushlight.nn.utils import parametrize
from rushlight.ops.promote import unbroadcast
from rushlight.support.errors import CompileError
from rushlight.utils.checkpoint import checkpoint_sequential
from rushlight.utils.checkpoint.wrapper import checkpoint_wrapper

log: list[object] = []


class Counter:
    count = 0


counter = Counter()


def doubled(x: Any) -> Any:
    log.append(len(log))
    counter.count += 1
    return x * 2


class Logged(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        counter.count += 1
        return gradient * 2


class Appending(Logged):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        log.append("backward")
        return gradient * 2


def note_forward(*_: Any) -> None:
    log.append("forward")


def note_gradient(*_: Any) -> None:
    log.append("gradient")


def linear(**hooks: Callable[..., Any]) -> nn.Module:
    module = nn.Linear(2, 2)
    for name, hook in hooks.items():
        getattr(module, f"register_{name}_hook")(hook)
    return module


def hooked_layer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True)
    layer.linear1.register_forward_hook(note_forward)
    return layer


class Scale(nn.Module):
    def forward(self, weight: Any) -> Any:
        log.append("scale")
        return weight * 2


def scaled() -> nn.Module:
    module = nn.Linear(2, 2)
    nn.utils.parametrize.register_parametrization(module, "weight", Scale())
    return module


class Noting(nn.Linear):
    def forward(self, x: Any) -> Any:
        log.append("noting")
        return super().forward(x)


def with_hook_on_a_result(x: Any) -> Any:
    y = x * 2
    y.register_hook(note_gradient)
    return y.sin()


def with_list_of_the_call(x: Any) -> Any:
    kept: list[Any] = []
    y = x * 2
    y.register_hook(kept.append)
    return y.sin(), kept


seen, watched, parametrized, noting = linear(forward=note_forward), hooked_layer(), scaled(), Noting(2, 2)
backward, before = linear(full_backward=note_gradient), linear(full_backward_pre=note_gradient)
saved = linear()
saved._register_state_dict_hook(note_forward)
averaged = rl.optim.swa_utils.AveragedModel(seen)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda x: rl.vmap(doubled)(x),
    "grad": lambda x: rl.func.grad(lambda y: doubled(y).sum())(x),
    "jacrev": lambda x: rl.func.jacrev(doubled)(x),
    "vjp": lambda x: rl.func.vjp(doubled, x)[0],
    "functional_call": lambda x: rl.func.functional_call(noting, {}, (x,)),
    "a branch that is not taken": lambda x: rl.cond(x.sum() > 1e6, doubled, lambda y: y, (x,)),
    "segments": lambda x: checkpoint_sequential([doubled, doubled], 2, x, use_reentrant=False),
    "a layer within a layer": lambda x: watched(x),
    "a module within another": lambda x: averaged(x),
    "a parametrization": lambda x: parametrized(x),
    "a state dict": lambda x: x * len(saved.state_dict()),
    "a module that is mapped": lambda x: rl.vmap(seen)(x),
    "a backward that counts": lambda x: Logged.apply(x.sin()).cos(),
    "a backward that appends": lambda x: Appending.apply(x.sin()).cos(),
    "a hook on a result": with_hook_on_a_result,
    "a hook on what a module is given": lambda x: backward(x.sin()).cos(),
    "a hook on what a module gives": lambda x: before(x.sin()).cos(),
    "a method of a list as a hook": with_list_of_the_call,
}


def effects(call: Callable[[Any], Any]) -> list[object]:
    log.clear()
    counter.count = 0
    found: list[object] = []
    for _ in range(3):
        x = rl.arange(4.0).view(2, 2).requires_grad_()
        given = call(x)
        result, *kept = given if isinstance(given, tuple) else (given,)
        if result.requires_grad:
            result.sum().backward()
        found.append((result.tolist(), None if x.grad is None else x.grad.tolist(), [len(one) for one in kept]))
    return [*found, list(log), counter.count]


@pytest.mark.parametrize("name", PROGRAMS)
def test_effects_of_what_is_called_back_happen_at_every_call(name: str) -> None:
    program = PROGRAMS[name]
    expected = effects(program)
    assert effects(rl.compile(program, backend="eager")) == expected
    try:
        whole = effects(rl.compile(program, backend="eager", fullgraph=True))
    except CompileError as problem:
        assert problem.code in ("C003", "C039")
    else:
        assert whole == expected


class Clipped(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, bound: float) -> Any:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(max=bound)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        ctx.passed = gradient.clone()
        ctx.passed[x > ctx.bound] = 0
        parts = {"half": ctx.passed / 2}
        found = [parts["half"]]
        found.append(parts["half"])
        return found[0] + found[1], None


def test_what_is_called_back_and_changes_only_its_own_is_part_of_the_graph() -> None:
    class Settings:
        scale = 3.0

    chosen = Settings()
    doubling = linear(full_backward=lambda _, inputs, __: tuple([one * 2 for one in inputs]))

    def program(x: Any) -> Any:
        y = Clipped.apply(doubling(x), 0.5)
        y.register_hook(lambda gradient: gradient * chosen.scale)
        return (y * y).sum()

    compiled = rl.compile(program, fullgraph=True)
    for scale in (3.0, 4.0):
        chosen.scale = scale
        gradients: list[Any] = []
        for call in (program, compiled):
            x = rl.arange(4.0).view(2, 2).requires_grad_()
            call(x).backward()
            gradients.append(x.grad.tolist())
        assert gradients[0] == gradients[1]


class Reversed(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return -gradient


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_view_that_a_custom_function_gives_has_its_history(fullgraph: bool) -> None:
    for program in (Reversed.apply, lambda x: Reversed.apply(x)[0], lambda x: Reversed.apply(Reversed.apply(x.t()))):
        gradients: list[Any] = []
        for call in (program, rl.compile(lambda x, f=program: f(x), fullgraph=fullgraph)):
            x = rl.ones(2, 3, requires_grad=True)
            result = call(x)
            result.sum().backward()
            gradients.append(x.grad.tolist())
            with rl.no_grad():
                result.zero_()  # it is a view of the argument
            gradients.append(x.tolist())
        assert gradients[:2] == gradients[2:]


def test_optimizers_that_step_in_the_backward_pass_are_registered_once() -> None:
    def trained() -> tuple[bool, int, list[float]]:
        module = nn.Embedding(3, 1)
        nn.init.ones_(module.weight)
        apply_in_backward(rl.optim.SGD, module.parameters(), {"lr": 0.5})
        module(rl.tensor([0, 1])).sum().backward()
        print(end="")  # ends a graph
        kept: Any = module.weight
        return kept.grad is None, len(kept._in_backward_optimizers), module.weight.flatten().tolist()

    assert rl.compile(trained, backend="eager")() == trained() == (True, 1, [0.5, 0.5, 1.0])


def test_what_profiles_sees_the_operators_of_each_call() -> None:
    def counted(x: rl.Tensor) -> bool:
        with rl.profiler.profile() as profile:
            x.exp()
        return len(profile.key_averages()) > 0

    compiled = rl.compile(counted, backend="eager")
    assert counted(rl.ones(2)) and compiled(rl.ones(2)) and compiled(rl.ones(2))


def test_programs_are_exported_and_written_down_at_each_call(tmp_path: Any) -> None:
    def kept(x: Any, name: str) -> Any:
        program = rl.export.export(nn.Linear(2, 2), (x * 2,))
        rl.export.save(program, tmp_path / f"{name}.rl")
        (tmp_path / f"{name}.txt").write_text(str(program), encoding="utf-8")
        return program.module()(x + 1)

    compiled = rl.compile(kept)
    for name in ("first", "second", "third"):
        given = rl.rand(3, 2)
        rl.manual_seed(1)
        wanted = kept(given, "eager")
        rl.manual_seed(1)
        assert compiled(given, name).tolist() == wanted.tolist()
        assert (tmp_path / f"{name}.txt").read_bytes() == (tmp_path / "eager.txt").read_bytes()
        assert rl.export.load(tmp_path / f"{name}.rl").module()(given + 1).tolist() == wanted.tolist()


def test_a_function_that_is_compiled_within_sees_caches_emptied() -> None:
    def counted(x: Any) -> tuple[int, Any]:
        rl.compiler.reset()
        y = rl.compile(lambda x: x.exp())(x)
        return rl.compiler.graph_count(), y

    compiled = rl.compile(counted, backend="eager")
    for size in (2, 3):
        assert compiled(rl.zeros(size))[1].tolist() == [1.0] * size


def test_what_is_said_of_modules_of_ours_is_said_of_ones_that_exist() -> None:
    for name in known.TRACED | known.NOT_TRACED:
        assert resolve_name(f"rushlight.{name}") is not None, name
    assert known.is_traced("rushlight.nn.modules.linear")
    assert not known.is_traced("rushlight.distributed.checkpoint.saving")
    assert not known.is_traced("rushlight.one_that_is_new")
    assert not known.is_traced("rushlight.nn.utils.parametrize", "register_parametrization")


class Scaled(nn.Module):
    """A parametrization with a buffer that is computed from the weight."""

    def __init__(self, weight: rl.Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", weight.detach().abs().amax())

    def forward(self, weight: rl.Tensor) -> rl.Tensor:
        return weight * self.scale


def _twice(module: nn.Linear) -> None:
    parametrize.register_parametrization(module, "weight", Scaled(module.weight))
    parametrize.register_parametrization(module, "weight", Scaled(module.weight))


def _there_and_back(module: nn.Linear) -> None:
    parametrize.register_parametrization(module, "weight", Scaled(module.weight))
    parametrize.remove_parametrizations(module, "weight")


GIVING_CLASSES: dict[str, Callable[[nn.Linear], object]] = {
    "parametrizations": _twice,
    "one that is removed": _there_and_back,
    "a spectral norm": nn.utils.parametrizations.spectral_norm,
    "a weight norm": nn.utils.parametrizations.weight_norm,
    "orthogonal": nn.utils.parametrizations.orthogonal,
    "recomputed": checkpoint_wrapper,
}


@pytest.mark.parametrize("name", GIVING_CLASSES)
def test_modules_are_given_classes_at_each_call(name: str) -> None:
    def changed(module: Any, x: rl.Tensor) -> Any:
        GIVING_CLASSES[name](module)
        return module(x)

    def told(function: Any) -> list[object]:
        rl.manual_seed(0)
        module = nn.Linear(3, 3)
        found = function(module, rl.ones(2, 3)).tolist()
        state = {name: value.tolist() for name, value in module.state_dict().items()}
        return [found, state, [cls.__name__ for cls in type(module).__mro__]]

    compiled = rl.compile(changed, backend="eager")
    assert [told(compiled) for _ in range(3)] == [told(changed)] * 3


def test_graphs_that_a_program_builds_itself_get_each_call_once() -> None:
    def function(x: Any) -> tuple[list[str], Any]:
        y = x * 2
        builder = GraphBuilder()
        one = builder.parameter("one", TensorType((2, 3), rl.float32))
        unbroadcast(one + one, builder.parameter("like", TensorType((2, 1), rl.float32)))
        return [call.op.name for call in builder.calls], y + 1

    names, _ = function(rl.ones(1))
    compiled = rl.compile(function)
    for _ in range(3):
        assert compiled(rl.ones(1))[0] == names


class Steps(rl.autograd.Function):
    """Products with a table, which the backward pass changes."""

    table = rl.ones(3)

    @staticmethod
    def forward(ctx: Any, anchor: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * Steps.table

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        change(Steps.table, g * ctx.saved_tensors[0])
        return None, (g * 2 if ctx.needs_input_grad[1] else None)


def change(table: Any, by: Any) -> None:
    with rl.no_grad():
        table -= by


@pytest.mark.parametrize("wanted", [False, True])
def test_what_a_backward_pass_writes_to_is_written_by_each_pass(wanted: bool) -> None:
    def trained(function: Callable[..., Any]) -> list[list[float]]:
        Steps.table.copy_(rl.ones(3))
        anchor, found = rl.zeros(1, requires_grad=True), list[list[float]]()
        for _ in range(3):
            x = rl.tensor([1.0, 2.0, 3.0], requires_grad=wanted)
            y = function(anchor, x)
            found.append(Steps.table.tolist())
            y.sum().backward()
            found += [y.tolist(), Steps.table.tolist(), x.grad.tolist() if x.grad is not None else []]
        return found

    def program(anchor: Any, x: Any) -> Any:
        return Steps.apply(anchor, x + 1) * 2

    assert trained(rl.compile(program)) == trained(program)
    with pytest.raises(CompileError, match="a backward pass has effects"):
        trained(rl.compile(program, fullgraph=True))
    assert trained(program) == trained(rl.compile(program))
