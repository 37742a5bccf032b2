"""Regions: parts of a step that are compiled each by itself, with the bits, gradients and memory of the whole."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.build.parts import PARTS
from rushlight.nn.functional import gelu
from rushlight.runtime import allocator


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return gelu(self.up(self.norm(x)))


class Attention(nn.Module):
    """Heads are views of a product, and the result is a view of their values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        query, key, value = heads[0], heads[1], heads[2]
        shares = (query @ key.mT / 2).softmax(-1)
        return x + (shares @ value).transpose(1, 2).reshape(batch, length, width)


def model_of(layer: type[nn.Module], count: int, width: int, wrap: Callable[[Any], Any], every: int = 1) -> nn.Module:
    rl.manual_seed(0)
    layers = [layer(width) for _ in range(count)]
    return nn.Sequential(*[wrap(one) if at % every == 0 else one for at, one in enumerate(layers)])


def plain(value: Any) -> Any:
    return value


def gradients(model: nn.Module, x: rl.Tensor) -> list[rl.Tensor]:
    x = x.clone().requires_grad_()
    loss = rl.compile(model)(x).square().mean()
    loss.backward()
    return [loss.detach(), x.grad, *[weight.grad for weight in model.parameters()]]


@pytest.mark.row("11.6")
@pytest.mark.parametrize("layer", [Block, Attention])
@pytest.mark.parametrize("every", [1, 3])
def test_regions_change_no_bit_and_serve_all_sizes(layer: type[nn.Module], every: int):
    regions = model_of(layer, 6, 16, rl.compiler.region, every)
    whole = model_of(layer, 6, 16, plain)
    rl.compiler.reset()
    for batch in (3, 1, 5):
        x = rl.randn(batch, 7, 16)
        for ours, wanted in zip(gradients(regions, x), gradients(whole, x), strict=True):
            assert rl.equal(ours, wanted)
        regions.zero_grad()
        whole.zero_grad()


@pytest.mark.row("11.6")
def test_of_six_blocks_the_two_regions_are_compiled():
    given: list[int] = []

    def backend(module: Any, inputs: list[Any]) -> Any:
        given.append(len(module.graph.nodes))
        return module

    model = model_of(Block, 6, 8, lambda block: rl.compiler.region(block, backend=backend), 3)
    x = rl.randn(4, 8)
    with rl.no_grad():
        assert rl.equal(rl.compile(model)(x), model_of(Block, 6, 8, plain)(x))
    assert len(given) == 2


def test_regions_that_are_alike_share_their_code():
    before = set(PARTS)
    model = model_of(Block, 6, 8, rl.compiler.region)
    made: list[Any] = []
    for number in set(PARTS) - before:

        def compiled(graph: Any, inner: Callable[[Any], Any] = PARTS[number]) -> Any:
            made.append(inner(graph))
            return made[-1]

        PARTS[number] = compiled
    with rl.no_grad():
        rl.compile(model)(rl.randn(4, 8))
    # The first block may have arguments in other strides; the others find the code of the second.
    assert len(made) == 6 and sum(one.cached for one in made) >= 4


def test_outside_of_a_compiled_function_a_region_is_one():
    doubled = rl.compiler.region(lambda x: x * 2)
    rl.compiler.reset()
    assert doubled(rl.ones(3)).tolist() == [2.0] * 3
    assert rl.compiler.graph_count() == 1


@pytest.mark.row("11.6")
def test_a_region_may_write_and_print(capsys: pytest.CaptureFixture[str]):
    @rl.compiler.region
    def counted(x: rl.Tensor, total: rl.Tensor) -> rl.Tensor:
        total += x.sum()
        print("counted")
        return x * total

    def step(x: rl.Tensor, total: rl.Tensor) -> rl.Tensor:
        return counted(x + 1, total) - 1

    total, wanted = rl.zeros(()), rl.zeros(())
    compiled = rl.compile(step)
    for _ in range(3):
        assert rl.equal(compiled(rl.ones(4), total), step(rl.ones(4), wanted))
        assert rl.equal(total, wanted)
    assert capsys.readouterr().out == "counted\n" * 6


@pytest.mark.row("11.5")
def test_the_peak_of_a_step_by_regions_is_that_of_the_whole():
    """All memory of a training step of 24 layers, parameters and gradients included."""
    peaks: list[int] = []
    for wrap in (plain, rl.compiler.region):
        model, loss = model_of(Block, 24, 256, wrap), wrap(lambda y: y.square().mean())
        step = rl.compile(lambda x, model=model, loss=loss: loss(model(x)))
        optimizer = rl.optim.SGD(model.parameters(), lr=0.01)
        x = rl.ones(64, 256)
        gc.collect()
        before = allocator.CPU.statistics().used_bytes - sum(weight.nbytes for weight in model.parameters())
        for _ in range(3):
            allocator.CPU.reset_peak()
            optimizer.zero_grad()
            step(x).backward()
            optimizer.step()
        peaks.append(allocator.CPU.statistics().peak_bytes - before)
        del model, step, optimizer, loss
    assert peaks[1] <= 1.02 * peaks[0]


def test_a_region_has_a_backend_by_the_name_that_a_program_gave_it():
    seen = []

    def noting(module, inputs):
        seen.append(len(inputs))
        return module

    rl.compiler.register_backend(noting, name="noting_regions")
    doubled = rl.compiler.region(lambda x: x * 2 + 1, backend="noting_regions")
    x = rl.ones(3, requires_grad=True)
    result = rl.compile(lambda x: doubled(x).relu().sum())(x)
    result.backward()
    assert result.item() == 9.0 and x.grad.tolist() == [2.0] * 3 and seen
    assert doubled(rl.ones(2)).tolist() == [3.0] * 2
    with pytest.raises(ValueError, match="there is no such backend"):
        rl.compiler.region(lambda x: x, backend="nothing of that name")
