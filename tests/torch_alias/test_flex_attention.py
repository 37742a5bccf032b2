"""Attention with functions of scores and masks: what softmax of all pairs gives, compiled and in blocks too."""

import importlib
import math
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl

SHAPE = (2, 4, 7, 8)


@pytest.fixture
def flex(torch: ModuleType) -> Any:
    """The module under the alias."""
    return importlib.import_module("torch.nn.attention.flex_attention")


def heads(*shapes: tuple[int, ...], dtype: Any = None) -> list[rl.Tensor]:
    rl.manual_seed(0)
    return [rl.randn(*shape, dtype=dtype or rl.float32) for shape in shapes or (SHAPE, SHAPE, SHAPE)]


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def window(b, h, q_idx, kv_idx):
    return q_idx - kv_idx <= 2 + h


def softmaxed(q, k, v, bias, scale=None):
    scores = (q @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return scores.softmax(-1) @ v


def test_without_functions_it_is_attention(flex: Any):
    q, k, v = heads()
    expected = rl.nn.functional.scaled_dot_product_attention(q, k, v)
    assert rl.allclose(flex.flex_attention(q, k, v), expected, atol=1e-6)
    assert rl.allclose(flex.flex_attention(q, k, v, scale=0.1), softmaxed(q, k, v, 0, 0.1), atol=1e-6)


@pytest.mark.row("5.11")
@pytest.mark.parametrize("compiled", [False, True])
def test_scores_change_by_a_captured_bias_that_does_not_lie_in_order(flex: Any, compiled: bool):
    q, k, v = heads()
    bias = rl.randn(9, 7, 4).permute(2, 1, 0)  # heads, queries, keys and two more

    def score(score, b, h, q_idx, kv_idx):
        return score * (b + 1) + bias[h, q_idx, kv_idx]

    def run(q, k, v):
        return flex.flex_attention(q, k, v, score)

    found = (rl.compile(run) if compiled else run)(q, k, v)
    batch = (rl.arange(2) + 1).reshape(2, 1, 1, 1)
    scores = (q @ k.mT) * 8**-0.5 * batch + bias[:, :, :7]
    assert rl.allclose(found, scores.softmax(-1) @ v, atol=1e-6)


@pytest.mark.row("5.11")
def test_a_neighbouring_product_and_all_sizes_are_in_one_graph(flex: Any):
    def step(q, k, v, w):
        return flex.flex_attention(q, k, v, lambda score, b, h, q_idx, kv_idx: score - (q_idx - kv_idx).abs()) @ w

    compiled, w = rl.compile(step), rl.randn(8, 3)
    for length in (7, 1, 12):
        q, k, v = heads(*[(2, 4, length, 8)] * 3)
        assert rl.equal(compiled(q, k, v, w), step(q, k, v, w)), length
    assert rl.compiler.report(compiled).graphs == 1


@pytest.mark.row("5.11")
def test_masks_of_blocks_leave_out_what_their_function_says(flex: Any):
    q, k, v = heads()
    both = flex.and_masks(causal, window)
    mask = flex.create_block_mask(both, None, 4, 7, 7, BLOCK_SIZE=2)
    place = rl.arange(7)
    distance = place[:, None] - place
    allowed = (distance >= 0) & (distance <= (rl.arange(4) + 2)[:, None, None])
    assert rl.equal(flex.create_mask(both, None, 4, 7, 7), allowed[None])
    bias = rl.zeros(4, 7, 7).masked_fill(~allowed, -math.inf)
    assert rl.allclose(flex.flex_attention(q, k, v, block_mask=mask), softmaxed(q, k, v, bias), atol=1e-6)
    either = flex.create_mask(flex.or_masks(causal, window), 1, 1, 7, 7)
    assert rl.equal(either[0, 0], (distance >= 0) | (distance <= 2))


def test_blocks_are_counted_and_listed(flex: Any):
    mask = flex.create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2)
    assert mask.shape == (1, 1, 6, 6) and mask.numel() == 36
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2]]]
    assert mask.kv_indices[0, 0, :, 0].tolist() == [0, 1, 2]
    assert mask.full_kv_indices[0, 0, 2, :2].tolist() == [0, 1]
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert abs(mask.sparsity() - 100 / 3) < 1e-4
    together = flex.create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=2, separate_full_blocks=False)
    assert together.full_kv_num_blocks is None and together.kv_num_blocks.tolist() == [[[1, 2, 3]]]


def test_blocks_that_are_given_count_beside_the_function(flex: Any):
    """The second block of keys is in no list: nothing of it takes part, whatever the function says."""
    q, k, v = heads((1, 1, 4, 8), (1, 1, 4, 8), (1, 1, 4, 8))
    one, none = rl.tensor([[[1, 1]]]), rl.tensor([[[[0, 1], [0, 1]]]])
    mask = flex.BlockMask.from_kv_blocks(one, none, BLOCK_SIZE=2, mask_mod=causal)
    bias = rl.zeros(4, 4).masked_fill(
        rl.tensor([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]).bool(), -math.inf
    )
    assert rl.allclose(flex.flex_attention(q, k, v, block_mask=mask), softmaxed(q, k, v, bias), atol=1e-6)


def test_rows_without_keys_are_zero_and_have_gradients_of_zero(flex: Any):
    q, k, v = (one.requires_grad_() for one in heads())
    mask = flex.create_block_mask(lambda b, h, q_idx, kv_idx: q_idx > kv_idx, None, None, 7, 7)
    found, lse = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    assert (found[:, :, 0] == 0).all() and (lse[:, :, 0] == -math.inf).all()
    (slope,) = rl.autograd.grad(found.sum(), [q])
    assert (slope[:, :, 0] == 0).all() and slope.isfinite().all()


@pytest.mark.row("5.11")
def test_gradients_are_those_of_finite_differences(flex: Any):
    q, k, v = (one.requires_grad_() for one in heads(*[(1, 2, 3, 2)] * 3, dtype=rl.float64))
    slopes = rl.randn(2, dtype=rl.float64, requires_grad=True)
    mask = flex.create_block_mask(causal, None, None, 3, 3)

    def run(q, k, v, slopes):
        def score(score, b, h, q_idx, kv_idx):
            return 2 * rl.tanh(score / 2) + slopes[h] * (q_idx - kv_idx)

        return flex.flex_attention(q, k, v, score, mask)

    assert rl.autograd.gradcheck(run, (q, k, v, slopes))


def test_heads_share_keys_and_more_is_given_where_it_is_asked_for(flex: Any):
    q, k, v = heads((2, 4, 7, 8), (2, 2, 5, 8), (2, 2, 5, 8))
    request = flex.AuxRequest(lse=True, max_scores=True)
    found, more = flex.flex_attention(q, k, v, enable_gqa=True, return_aux=request)
    expected = rl.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert rl.allclose(found, expected, atol=1e-6)
    scores = (q @ k.repeat_interleave(2, 1).mT) * 8**-0.5
    assert rl.allclose(more.lse, scores.logsumexp(-1)) and rl.allclose(more.max_scores, scores.amax(-1))


def test_what_does_not_fit_is_an_error(flex: Any):
    q, k, v = heads()
    with pytest.raises(rl.RushlightError, match="4 dims"):
        flex.flex_attention(q[0], k, v)
    with pytest.raises(rl.RushlightError, match="other lengths"):
        flex.flex_attention(q, k, v, block_mask=flex.create_block_mask(causal, None, None, 7, 9))
    with pytest.raises(rl.RushlightError, match="gives bools"):
        flex.create_mask(lambda b, h, q_idx, kv_idx: q_idx - kv_idx, None, None, 3, 3)
    with pytest.raises(rl.RushlightError, match="multiple"):
        flex.flex_attention(q, k[:, :3], v[:, :3], enable_gqa=True)
