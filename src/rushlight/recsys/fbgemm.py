"""Operators of jagged data by FBGEMM's names, as `torch.ops.fbgemm` has them. All are made of ordinary ones.

>>> fbgemm.jagged_2d_to_dense(rl.ones(3, 2), rl.tensor([0, 1, 3]), 2).shape
rushlight.Size([2, 2, 2])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.composite.segments import lengths_of, taken_segments
from rushlight.ops.ragged import padded_segments, segment_numbers, segment_sum, unpadded_segments
from rushlight.support.errors import require

__all__ = [
    "asynchronous_complete_cumsum",
    "asynchronous_exclusive_cumsum",
    "asynchronous_inclusive_cumsum",
    "batched_dense_vec_jagged_2d_mul",
    "block_bucketize_sparse_features",
    "dense_to_jagged",
    "expand_into_jagged_permute",
    "group_index_select_dim0",
    "index_select_dim0",
    "invert_permute",
    "jagged_1d_to_dense",
    "jagged_1d_to_truncated_values",
    "jagged_2d_to_dense",
    "jagged_dense_bmm",
    "jagged_dense_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_add",
    "jagged_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_mul",
    "jagged_index_select",
    "jagged_jagged_bmm",
    "jagged_softmax",
    "jagged_to_padded_dense",
    "keyed_jagged_index_select_dim1",
    "lengths_range",
    "masked_select_jagged_1d",
    "offsets_range",
    "pack_segments",
    "permute_1D_sparse_data",
    "permute_2D_sparse_data",
    "permute_pooled_embs_auto_grad",
    "segment_sum_csr",
    "stacked_jagged_1d_to_dense",
    "stacked_jagged_2d_to_dense",
]


def asynchronous_complete_cumsum(t_in: Tensor) -> Tensor:
    """Return 0 and the sums of the first one, two, … numbers, of each row."""
    return rl.cat([t_in.new_zeros(*t_in.shape[:-1], 1), asynchronous_inclusive_cumsum(t_in)], -1)


def asynchronous_inclusive_cumsum(t_in: Tensor) -> Tensor:
    """Return the sums of the first one, two, … numbers, of each row."""
    return t_in.cumsum(-1).to(t_in.dtype)


def asynchronous_exclusive_cumsum(t_in: Tensor) -> Tensor:
    """Return the sum of the numbers before each, of each row."""
    return asynchronous_inclusive_cumsum(t_in) - t_in


def offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    """Return 0, 1, … in each segment; `offsets` say where segments begin."""
    places = rl.arange(range_size, dtype=offsets.dtype)
    ends = rl.cat([offsets, offsets.new_full((1,), range_size)])
    return places - offsets[segment_numbers(ends, range_size)]


def lengths_range(t_in: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """Return 0, 1, … in each segment of these lengths."""
    starts = asynchronous_exclusive_cumsum(t_in)
    return offsets_range(starts, _total(t_in) if shape is None else shape[0])


def segment_sum_csr(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    """Return the sum of each segment, whose ends are in rows of `batch_size` values."""
    rows = values.reshape(-1, 1)
    floats = rows if rows.dtype.is_floating_point else rows.double()
    return segment_sum(floats, csr_seg * batch_size, None, None).reshape(-1).to(values.dtype)


def invert_permute(permute: Tensor) -> Tensor:
    """Return where each number of a permutation is."""
    return rl.empty_like(permute).index_copy_(0, permute, rl.arange(permute.shape[0], dtype=permute.dtype))


def expand_into_jagged_permute(
    permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int
) -> Tensor:
    """Return where each value comes from when segments with these offsets get those others."""
    places = taken_segments(input_offset[permute.long()], lengths_of(output_offset), output_size)
    return places.to(permute.dtype)


def permute_1D_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return lengths, values and weights of segments in another order; a segment may come several times."""
    chosen, starts = permute.long(), asynchronous_exclusive_cumsum(lengths)
    permuted = lengths[chosen]
    count = _total(permuted) if permuted_lengths_sum is None else permuted_lengths_sum
    places = taken_segments(starts[chosen], permuted, count)
    return permuted, values[places], None if weights is None else weights[places]


def permute_2D_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return lengths [features, batch], values and weights with features in another order."""
    batch = lengths.shape[1]
    each = permute.long().unsqueeze(1) * batch + rl.arange(batch)
    flat = lengths.reshape(-1)
    permuted, chosen, own = permute_1D_sparse_data(each.reshape(-1), flat, values, weights, permuted_lengths_sum)
    return permuted.reshape(-1, batch), chosen, own


def jagged_to_padded_dense(
    values: Tensor, offsets: Sequence[Tensor], max_lengths: Sequence[int], padding_value: float = 0.0
) -> Tensor:
    """Return segments as a dim, or nested ones as several, outermost first; padding behind short ones."""
    require(len(offsets) == len(max_lengths), "A002", "jagged_to_padded_dense: a length for each offsets")
    for ends, length in reversed(list(zip(offsets, max_lengths, strict=True))):
        values = padded_segments(values, ends, length, padding_value)
    return values


def jagged_2d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int) -> Tensor:
    """Return the rows of each segment as a dim; zeros where it is shorter."""
    return padded_segments(values, offsets, max_sequence_length)


def jagged_1d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int, padding_value: int) -> Tensor:
    """Return the numbers of each segment as a row; padding where it is shorter."""
    return padded_segments(values, offsets, max_sequence_length, padding_value)


def stacked_jagged_1d_to_dense(
    values: Tensor,
    lengths: Tensor,
    offset_per_key: Sequence[int],
    max_lengths_per_key: Sequence[int],
    padding_value: int = 0,
) -> list[Tensor]:
    """Return jagged_1d_to_dense of each key; `lengths` are [keys, batch]."""
    parts = zip(itertools.pairwise(offset_per_key), lengths, max_lengths_per_key, strict=True)
    return [
        padded_segments(values[low:high], asynchronous_complete_cumsum(own), length, padding_value)
        for (low, high), own, length in parts
    ]


def stacked_jagged_2d_to_dense(
    values: Tensor,
    lengths: Tensor,
    offset_per_key: Sequence[int],
    max_lengths_per_key: Sequence[int],
    padding_value: int = 0,
) -> list[Tensor]:
    """Return jagged_2d_to_dense of each key; `lengths` are [keys, batch]."""
    return stacked_jagged_1d_to_dense(values, lengths, offset_per_key, max_lengths_per_key, padding_value)


def jagged_1d_to_truncated_values(values: Tensor, lengths: Tensor, max_truncated_length: int) -> Tensor:
    """Return the first numbers of each segment, at most so many."""
    kept = lengths.clamp(max=max_truncated_length)
    return values[taken_segments(asynchronous_exclusive_cumsum(lengths), kept, _total(kept))]


def masked_select_jagged_1d(
    values: Tensor, lengths: Tensor, mask: Tensor, check_length: bool | None = False
) -> tuple[Tensor, Tensor]:
    """Return the values where a mask holds, and how many of each segment these are."""
    del check_length  # it is always checked
    require(mask.shape == values.shape, "S014", "masked_select_jagged_1d: a flag for each value", mask=mask)
    before = asynchronous_complete_cumsum(mask.to(lengths.dtype))
    return values[mask], lengths_of(before[asynchronous_complete_cumsum(lengths)])


def dense_to_jagged(
    dense: Tensor, x_offsets: Sequence[Tensor], total_L: int | None = None
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return the rows of segments and their offsets; the inverse of jagged_to_padded_dense."""
    counts = [ends.shape[0] - 1 for ends in x_offsets[1:]]
    for ends, count in zip(x_offsets, [*counts, total_L], strict=True):
        dense = unpadded_segments(dense, ends, int(ends[-1]) if count is None else count)
    return dense, x_offsets


def pack_segments(t_in: Tensor, lengths: Tensor, max_length: int) -> Tensor:
    """Return the rows of segments of these lengths as a dim; zeros where one is shorter."""
    return padded_segments(t_in, asynchronous_complete_cumsum(lengths), max_length)


def jagged_index_select(
    values: Tensor, lengths: Tensor, indices: Tensor, num_dense_output_rows: int | None = None
) -> list[Tensor]:
    """Return the rows of chosen segments, and their lengths."""
    permuted, rows, _ = permute_1D_sparse_data(indices, lengths, values, None, num_dense_output_rows)
    return [rows, permuted]


def keyed_jagged_index_select_dim1(
    values: Tensor,
    lengths: Tensor,
    offsets: Tensor,
    indices: Tensor,
    batch_size: int,
    weights: Tensor | None = None,
    selected_lengths_sum: int | None = None,
) -> list[Tensor]:
    """Return values, lengths and weights of chosen examples, of each key; `lengths` are flat, key by key."""
    del offsets  # the sums of the lengths
    firsts = rl.arange(0, lengths.shape[0], batch_size)
    each = (firsts.unsqueeze(1) + indices.long()).reshape(-1)
    permuted, chosen, own = permute_1D_sparse_data(each, lengths, values, weights, selected_lengths_sum)
    return [chosen, permuted, *([] if own is None else [own])]


def _as_dense(values: Tensor, offsets: Sequence[Tensor], y: Tensor) -> Tensor:
    return jagged_to_padded_dense(values, offsets, y.shape[1 : 1 + len(offsets)])


def jagged_dense_elementwise_add(x_values: Tensor, x_offsets: Sequence[Tensor], y: Tensor) -> Tensor:
    """Return the sum of a dense tensor and a jagged one, dense."""
    return _as_dense(x_values, x_offsets, y) + y


def jagged_dense_elementwise_add_jagged_output(
    x_values: Tensor, x_offsets: Sequence[Tensor], y: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return the sum of a dense tensor and a jagged one, jagged."""
    return x_values + dense_to_jagged(y, x_offsets, x_values.shape[0])[0], x_offsets


def jagged_dense_dense_elementwise_add_jagged_output(
    x_values: Tensor, x_offsets: Sequence[Tensor], y_0: Tensor, y_1: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return the sum of two dense tensors and a jagged one, jagged."""
    return jagged_dense_elementwise_add_jagged_output(x_values, x_offsets, y_0 + y_1)


def jagged_dense_elementwise_mul(
    x_values: Tensor, x_offsets: Sequence[Tensor], y: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
    """Return the product of a dense tensor and a jagged one, number by number, jagged."""
    return x_values * dense_to_jagged(y, x_offsets, x_values.shape[0])[0], x_offsets


def batched_dense_vec_jagged_2d_mul(v: Tensor, a_values: Tensor, a_offsets: Tensor) -> Tensor:
    """Return the product of each vector [batch * heads, length] with its segment's matrix of a head."""
    batch = a_offsets.shape[0] - 1
    heads = v.shape[0] // max(batch, 1)
    matrices = padded_segments(a_values, a_offsets, v.shape[1]).reshape(batch, v.shape[1], heads, -1)
    vectors = v.reshape(batch, heads, 1, v.shape[1])
    return (vectors @ matrices.transpose(1, 2)).reshape(batch * heads, -1)


def jagged_softmax(values: Tensor, x_offsets: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    """Return the softmax over each segment, column by column."""
    dense = padded_segments(values, x_offsets, max_L, float("-inf"))
    return unpadded_segments(dense.softmax(1), x_offsets, values.shape[0]), x_offsets


def jagged_jagged_bmm(x_values: Tensor, y_values: Tensor, x_offsets: Tensor, max_L: int) -> Tensor:
    """Return, for each segment, the product of the first rows, transposed, with the second."""
    x, y = (padded_segments(values, x_offsets, max_L) for values in (x_values, y_values))
    return x.transpose(1, 2) @ y


def jagged_dense_bmm(x_values: Tensor, x_offsets: Tensor, y: Tensor, max_L: int) -> tuple[Tensor, Tensor]:
    """Return the rows of each segment times its matrix."""
    product = padded_segments(x_values, x_offsets, max_L) @ y
    return unpadded_segments(product, x_offsets, x_values.shape[0]), x_offsets


def index_select_dim0(
    input: Tensor,
    indices: Tensor,
    consecutive_range_start: int | None = 0,
    consecutive_range_length: int | None = 0,
    skip_indices_sorting_fwd: bool | None = None,
) -> Tensor:
    """Return rows; the other arguments are hints."""
    del consecutive_range_start, consecutive_range_length, skip_indices_sorting_fwd
    return input.index_select(0, indices)


def group_index_select_dim0(input_group: Sequence[Tensor], indices_group: Sequence[Tensor]) -> list[Tensor]:
    """Return rows of each of several tensors."""
    return [rows.index_select(0, indices) for rows, indices in zip(input_group, indices_group, strict=True)]


def permute_pooled_embs_auto_grad(
    pooled_embs: Tensor,
    offset_dim_list: Tensor,
    permute_list: Tensor,
    inv_offset_dim_list: Tensor,
    inv_permute_list: Tensor,
) -> Tensor:
    """Return blocks of columns in another order; the inverse lists follow from the others."""
    del inv_offset_dim_list, inv_permute_list
    blocks = list(itertools.pairwise(offset_dim_list.tolist()))
    chosen = [blocks[place] for place in permute_list.tolist()]
    return rl.cat([pooled_embs[:, low:high] for low, high in chosen], 1)


def block_bucketize_sparse_features(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return what each of `my_size` ranks gets of ids whose rows are divided in blocks, by feature.

    These are lengths [ranks, features, batch], ids within blocks, weights, with `bucketize_pos` their places in bags,
    and with `sequence` where each id has gone. Ids beyond all blocks are spread by their remainder.
    """
    count, bags = indices.shape[0], lengths.shape[0]
    offsets = asynchronous_complete_cumsum(lengths.long())
    bag = segment_numbers(offsets, count)
    block = block_sizes.long()[bag // max(bags // block_sizes.shape[0], 1)]
    ids = indices.long()
    inside = ids < block * my_size
    rank = rl.where(inside, ids // block, ids % my_size)
    own = rl.where(inside, ids % block, ids // my_size).to(indices.dtype)
    place = rank * bags + bag
    order = place.argsort(stable=True)
    new_lengths = rl.zeros(my_size * bags, dtype=lengths.dtype).index_add_(
        0, place, rl.ones_like(place).to(lengths.dtype)
    )
    at = (rl.arange(count) - offsets[bag]).to(indices.dtype)[order] if bucketize_pos else None
    gone = invert_permute(order).to(indices.dtype) if sequence else None
    return new_lengths, own[order], None if weights is None else weights[order], at, gone


def _total(lengths: Tensor) -> int:
    return int(lengths.sum())
