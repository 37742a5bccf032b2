"""Operands of products lie as they do: strides are no choice that is frozen, and a bias stays a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.support import settings
from rushlight.tune import search
from rushlight.tune.search import Tuner, is_tile, neighbours

F = rl.nn.functional
DTYPES = (rl.float32, rl.float64)


@pytest.fixture
def other_tiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is searched gets another tile than the cost model's, without measuring; the names of the problems."""
    asked: list[str] = []

    def find(self: Tuner, problem: Any) -> Any:
        asked.append(str(problem))
        sound = [tile for tile in neighbours(problem.tile) if is_tile(tile) and tile != problem.tile]
        return sound[len(asked) % len(sound)], "not measured"

    monkeypatch.setattr(search.Tuner, "search", find)
    return asked


@pytest.fixture(autouse=True)
def folder(tmp_path: Any) -> Any:
    with settings.override(cache_dir=str(tmp_path), tuning_s=1):
        yield


def bits(value: rl.Tensor) -> bytes:
    return value.contiguous().numpy().tobytes()


def views(number: int, x: rl.Tensor) -> rl.Tensor:
    """A view of a tensor of 24 x 24 as a matrix, one of thirty kinds."""
    kind, step = number % 6, 1 + number // 6
    if kind == 0:
        return x.as_strided((6 + step, 10), (24, 2), step)
    if kind == 1:
        return x[step:, ::2][:, 1:]
    if kind == 2:
        return x.t()[::step, step : 2 * step + 5]
    if kind == 3:
        return x.view(rl.int32 if x.dtype is rl.float32 else rl.int64).view(x.dtype)[2:][step:]
    if kind == 4:
        return x.as_strided((5, 7 + step), (step, 24), 3)[1:]
    return x.view(2, 12, 24)[1].t()[step:]


@pytest.mark.generated
@pytest.mark.row("5.4")
@pytest.mark.parametrize("number", range(30))
def test_views_of_views_go_into_products(number: int):
    rl.manual_seed(number)
    x = rl.randn(24, 24, dtype=DTYPES[number % 2])
    inner = views(number, x).shape[1]
    w = rl.randn(inner, 9, dtype=x.dtype)

    def product(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        return views(number, x * 2) @ w

    found = rl.compile(product)(x, w)
    assert bits(found) == bits(product(x, w))
    wide = views(number, (x * 2).contiguous()).double().numpy() @ w.double().numpy()
    np.testing.assert_allclose(found.double().numpy(), wide, rtol=1e-4, atol=1e-4)


PRODUCERS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "as it is": lambda x: x,
    "made": lambda x: x + 1,
    "transposed": lambda x: (x + 1).t(),
    "permuted": lambda x: (x.view(4, 5, 12) * 2).permute(2, 0, 1),
    "sliced": lambda x: (x - 1)[3:, 2::3],
}


@pytest.mark.row("5.12")
@pytest.mark.parametrize("name", PRODUCERS)
def test_strides_are_of_the_storage_whatever_made_it(name: str):
    random = np.random.default_rng(5)
    x = rl.from_numpy(random.standard_normal((20, 12)).astype(np.float32))
    whole = PRODUCERS[name](x)
    storage = rl.as_strided(whole, (240,), (1,), 0).numpy()
    for _ in range(12):
        size = tuple(int(one) for one in random.integers(0, 6, random.integers(1, 4)))
        stride = tuple(int(one) for one in random.integers(0, 20, len(size)))
        offset = int(random.integers(0, 50))

        def strided(x: rl.Tensor, size: Any = size, stride: Any = stride, offset: int = offset) -> rl.Tensor:
            return rl.as_strided(PRODUCERS[name](x), size, stride, offset) * 3

        steps = [4 * one for one in stride]
        expected = np.lib.stride_tricks.as_strided(storage[offset:], size, steps) * np.float32(3)
        for found in (strided(x), rl.compile(strided)(x)):
            np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.row("5.10")
@pytest.mark.parametrize("shape", [(), (1,), (11,), (7, 11), (7, 1), (1, 11)])
def test_a_bias_is_read_as_it_lies(shape: tuple[int, ...], other_tiles: list[str]):
    """One kernel: a bias is added to tiles of the product, and is never expanded in memory."""
    x, w, bias = rl.randn(7, 40), rl.randn(40, 11), rl.randn(*shape)

    def biased(bias: rl.Tensor, x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        return rl.addmm(bias, x, w)

    for mode in ("default", "max-autotune"):
        compiled = rl.compile(biased, mode=mode, dynamic=False)
        assert bits(compiled(bias, x, w)) == bits(biased(bias, x, w))
        report = rl.compiler.report(compiled)
        assert (report.kernels, report.launches, report.arena_bytes) == (1, 1, 0)


@pytest.mark.row("5.3")
@pytest.mark.parametrize("transposed", [False, True])
def test_tuned_products_fuse_as_others_do(transposed: bool, other_tiles: list[str]):
    """Whatever made the operands, however they lie: no kernel more, and the same bits."""

    def block(x: rl.Tensor, w: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
        h = (x * 2).relu()
        left = F.gelu((h.t() if transposed else h) @ w + 1)
        return (left.view(-1, 48)[2:] @ v).sigmoid() * h.sum()

    x, w, v = rl.randn(48, 48), rl.randn(48, 48), rl.randn(48, 20)
    plain, tuned = rl.compile(block, dynamic=False), rl.compile(block, dynamic=False, mode="max-autotune")
    assert bits(plain(x, w, v)) == bits(tuned(x, w, v)) == bits(block(x, w, v))
    assert len(other_tiles) == 2
    assert rl.compiler.report(tuned).kernels <= rl.compiler.report(plain).kernels


@pytest.mark.row("5.7")
def test_no_benchmark_of_an_epilogue_runs(other_tiles: list[str]):
    """Whether work joins a product is decided by the scheduler; what is searched is the product."""
    x, w = rl.randn(33, 64), rl.randn(64, 65)
    chains: tuple[Callable[..., rl.Tensor], ...] = (
        lambda x, w: (x @ w).relu(),
        lambda x, w: F.gelu(x @ w) * 2,
        lambda x, w: (x @ w + w[0]).tanh(),
    )
    for chain in chains:
        assert bits(rl.compile(chain, dynamic=False, mode="max-autotune")(x, w)) == bits(chain(x, w))
    assert len(other_tiles) == 1 and "epilogue" in other_tiles[0]


@pytest.mark.row("6.8")
def test_twenty_sizes_are_searched_at_most_three_times(other_tiles: list[str]):
    w = rl.randn(64, 32)
    product = rl.compile(lambda x, w: (x @ w).relu(), mode="max-autotune")
    for rows in range(17, 37):
        x = rl.randn(rows, 64)
        assert bits(product(x, w)) == bits((x @ w).relu())
    assert len(other_tiles) <= 3


@pytest.mark.row("6.11")
def test_nothing_is_searched_without_being_asked(other_tiles: list[str]):
    x, w = rl.randn(33, 64), rl.randn(64, 65)
    rl.compile(lambda x, w: x @ w, dynamic=False)(x, w)
    assert not other_tiles


@pytest.mark.row("5.8")
def test_code_does_not_depend_on_when_searches_end(monkeypatch: pytest.MonkeyPatch):
    import random
    import time

    def find(self: Tuner, problem: Any) -> Any:
        time.sleep(random.random() / 50)
        sound = [tile for tile in neighbours(problem.tile) if is_tile(tile)]
        return sound[problem.sizes[2] % len(sound)], "not measured"

    monkeypatch.setattr(search.Tuner, "search", find)
    x, w, v = rl.randn(16, 24), rl.randn(24, 40), rl.randn(40, 17)
    texts = set()
    for number in range(20):
        with settings.override(cache_dir=f"{settings.cache_dir()}/{number}"):
            compiled = rl.compile(lambda x, w, v: (x @ w).relu() @ v, dynamic=False, mode="max-autotune")
            texts.add("".join(rl.compiler.run_and_get_code(compiled, x, w, v)[1]))
    assert len(texts) == 1


@pytest.mark.row("5.6")
def test_a_check_names_the_operator_and_the_line_and_leaves_nothing_when_off():
    def chain(x: rl.Tensor) -> rl.Tensor:
        y = (x * 2).exp().sin().abs()
        z = (y - 2).log()
        return z + 1

    x = rl.ones(4)
    with settings.override(nan_asserts=True), pytest.raises(rl.RushlightError) as caught:
        rl.compile(chain)(x)
    assert caught.value.code == "R001" and "log: made NaN" in str(caught.value)
    assert "z = (y - 2).log()" in str(caught.value)
    plain, explicit = (rl.compiler.run_and_get_code(rl.compile(chain), x)[1], None)
    with settings.override(nan_asserts=False):
        explicit = rl.compiler.run_and_get_code(rl.compile(chain), x)[1]
    assert plain == explicit and "isnan" not in plain[0]


@pytest.mark.row("5.1")
def test_code_is_shown_and_kernels_are_as_many_as_expected():
    x, w, b = rl.randn(40, 64), rl.randn(64), rl.randn(64)
    programs: tuple[tuple[Callable[..., rl.Tensor], tuple[rl.Tensor, ...]], ...] = (
        (lambda x: x.softmax(-1), (x,)),
        (lambda x, w, b: F.layer_norm(x, (64,), w, b), (x, w, b)),
        (lambda x, b: F.gelu(x + b), (x, b)),
    )
    for program, tensors in programs:
        texts = []
        for _ in range(2):
            compiled = rl.compile(program)
            result, code = rl.compiler.run_and_get_code(compiled, *tensors)
            assert bits(result) == bits(program(*tensors)) and rl.compiler.report(compiled).kernels == 1
            texts.append("".join(code))
        assert texts[0] == texts[1] and "define" in texts[0]
        assert rl.compiler.run_and_get_code(compiled, *tensors)[1] == []
