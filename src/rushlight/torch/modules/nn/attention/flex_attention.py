"""`torch.nn.attention.flex_attention`: attention with functions of scores and masks.

`score_mod(score, b, h, q_idx, kv_idx)` and `mask_mod(b, h, q_idx, kv_idx)` are functions of one element, and may index
tensors of their own with its places. They are mapped over all pairs, so that compiled attention fuses them; blocks that
a mask leaves out are computed like others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import require

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_NAME = "flex_attention"
MaskFunction = Callable[[Any, Any, Any, Any], Any]
ScoreFunction = Callable[[Any, Any, Any, Any, Any], Any]
# Over keys, queries, heads and batches; the innermost first.
_OVER = ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None))


class FlexKernelOptions(TypedDict, total=False):
    """Choices of PyTorch's kernels, of no effect here."""


class AuxOutput(NamedTuple):
    """What attention gives beside its result, where it is asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class AuxRequest(NamedTuple):
    """What attention is to give beside its result."""

    lse: bool = False
    max_scores: bool = False


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Return True: every key takes part."""
    return batch.new_ones((), dtype=rl.bool)


def and_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """Return the mask of keys that take part in all of these."""
    return _joined(mask_mods, lambda one, other: one & other)


def or_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """Return the mask of keys that take part in one of these at least."""
    return _joined(mask_mods, lambda one, other: one | other)


def _joined(functions: tuple[MaskFunction, ...], join: Callable[[Any, Any], Any]) -> MaskFunction:
    require(len(functions) > 0 and all(map(callable, functions)), "A001", "masks to join are functions, one at least")

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Any:
        first, *others = [function(b, h, q_idx, kv_idx) for function in functions]
        for other in others:
            first = join(first, other)
        return first

    return joined


def _of_all_pairs(function: Callable[..., Any], sizes: Sequence[Any], *scores: Tensor) -> Tensor:
    """What a function gives of all pairs: of their places, after their scores where it takes them."""
    mapped: Any = function
    for dims in _OVER:
        mapped = rl.vmap(mapped, in_dims=(0,) * len(scores) + dims)
    return mapped(*scores, *[rl.arange(size) for size in sizes])


def _mask_of(function: MaskFunction, *sizes: Any) -> Tensor:
    """What a function of masks says of all pairs."""
    mask = _of_all_pairs(function, sizes)
    require(mask.dtype is rl.bool, "D001", f"{_NAME}: a function of masks gives bools", dtype=mask.dtype)
    return mask


def _scores_of(function: ScoreFunction, scores: Tensor) -> Tensor:
    """What a function of scores makes of all pairs."""
    changed = _of_all_pairs(function, scores.shape, scores)
    floating = changed.dtype.is_floating_point
    require(floating, "D001", f"{_NAME}: a function of scores gives scores", dtype=changed.dtype)
    return changed.to(scores.dtype)


def create_mask(mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: object = None) -> Tensor:
    """Return the mask [B, H, Q_LEN, KV_LEN] of a function of masks; B and H are 1 where they are None."""
    return _mask_of(mod_fn, 1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)


class BlockMask:
    """A function of masks, and which blocks of queries and keys it leaves anything of.

    Of each row of blocks, `kv_indices` begins with the `kv_num_blocks` blocks that the function is asked about, and
    `full_kv_indices` with those that take part as a whole. Pairs in no such block take no part.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskFunction = noop_mask,
    ) -> None:
        require(kv_indices.ndim >= 2, "S002", "BlockMask: kv_indices has 2 dims at least", kv_indices=kv_indices)
        both = (full_kv_num_blocks is None) == (full_kv_indices is None)
        require(both, "A004", "BlockMask: full blocks have numbers and indices, or neither")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskFunction | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Return the mask of these blocks; by default sequences end where blocks do."""
        size = _pair(BLOCK_SIZE)
        counts = kv_indices.shape[-2], kv_indices.shape[-1]
        lengths = (counts[0] * size[0], counts[1] * size[1]) if seq_lengths is None else seq_lengths
        function = noop_mask if mask_mod is None else mask_mod
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, size, function)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Batches, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def to_dense(self) -> Tensor:
        """Return which blocks anything takes part of: 1 for each such, else 0."""
        return (self._partial() | self._full()).to(rl.int32)

    def sparsity(self) -> float:
        """Return the percentage of pairs in blocks that are left out; the last blocks count as whole ones."""
        computed = self.kv_num_blocks.sum().item()
        computed += 0 if self.full_kv_num_blocks is None else self.full_kv_num_blocks.sum().item()
        return 100.0 * (1.0 - computed * math.prod(self.BLOCK_SIZE) / max(self.numel(), 1))

    def numel(self) -> int:
        """Return the number of pairs."""
        return math.prod(self.shape)

    def mask(self, batches: Any, heads: Any) -> Tensor:
        """Return which pairs take part."""
        length, keys = self.seq_lengths
        said = _mask_of(self.mask_mod, batches, heads, length, keys)
        return (said & self._spread(self._partial())) | self._spread(self._full())

    def _partial(self) -> Tensor:
        return _listed(self.kv_num_blocks, self.kv_indices)

    def _full(self) -> Tensor:
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return rl.zeros(self.kv_indices.shape, dtype=rl.bool)
        return _listed(self.full_kv_num_blocks, self.full_kv_indices)

    def _spread(self, blocks: Tensor) -> Tensor:
        """What is said of blocks, for each pair."""
        rows, columns = [rl.arange(n) // size for n, size in zip(self.seq_lengths, self.BLOCK_SIZE, strict=True)]
        return blocks.index_select(-2, rows).index_select(-1, columns)

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"


def _listed(numbers: Tensor, indices: Tensor) -> Tensor:
    """Which blocks are among the first `numbers` of each row of `indices`."""
    listed = rl.arange(indices.shape[-1]) < numbers.unsqueeze(-1)
    counts = rl.zeros(indices.shape, dtype=rl.int32).scatter_add(-1, indices.long(), listed.to(rl.int32))
    return counts > 0


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row there are, and their places, before those of others."""
    order = blocks.to(rl.int32).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(rl.int32), order.to(rl.int32)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def create_block_mask(
    mask_mod: MaskFunction,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: object = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """Return the blocks that a function of masks leaves anything of; B and H are 1 where they are None."""
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    size = _pair(BLOCK_SIZE)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padded = rl.nn.functional.pad(mask.to(rl.int32), (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN))
    counts = padded.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = counts == size[0] * size[1]
    partial = (counts > 0) & ~full if separate_full_blocks else counts > 0
    whole = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask((Q_LEN, KV_LEN), *_ordered(partial), *whole, size, mask_mod)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreFunction | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return what queries [B, H, L, E] find of the values; 0 where no key takes part.

    With `return_lse` the logarithms of the sums of exponentials come too, with `return_aux` what it asks for.
    """
    for name, operand in (("query", query), ("key", key), ("value", value)):
        require(operand.ndim == 4, "S002", f"{_NAME}: {name} has 4 dims: batches, heads, places, features", of=operand)
    heads, shared = query.shape[1], key.shape[1]
    if enable_gqa:
        message = f"{_NAME}: heads of queries are a multiple of those of keys"
        require(heads % shared == 0, "S003", message, query=query, key=key)
        key, value = [operand.repeat_interleave(heads // shared, 1) for operand in (key, value)]
    wide = rl.float64 if query.dtype is rl.float64 else rl.float32
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query.to(wide) @ key.to(wide).mT) * factor
    if score_mod is not None:
        scores = _scores_of(score_mod, scores)
    if block_mask is not None:
        lengths = (query.shape[2], key.shape[2])
        message = f"{_NAME}: the block mask is of other lengths"
        require(tuple(block_mask.seq_lengths) == lengths, "S003", message, mask=block_mask.shape, query=query, key=key)
        scores = scores.masked_fill(~block_mask.mask(query.shape[0], heads), -math.inf)
    top = scores.amax(-1, keepdim=True)
    weights = (scores - top.masked_fill(top == -math.inf, 0.0).detach()).exp()
    total = weights.sum(-1, keepdim=True)
    found = ((weights / total.masked_fill(total == 0, 1.0)) @ value.to(wide)).to(query.dtype)
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return found, AuxOutput(lse, top.squeeze(-1) if return_aux.max_scores else None)
    return (found, scores.logsumexp(-1)) if return_lse else found
