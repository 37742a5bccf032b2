"""Attention over a sequence of which each rank holds a part: keys and values go round a ring (Liu et al. 2023).

Of 2n equal pieces rank i of n holds pieces i and 2n - 1 - i, so that under a causal mask all ranks have as much to do.
In each of n rounds a rank computes the attention of its queries to the keys that it holds just then, and passes these
on. Sums are kept as flash attention keeps them: with the greatest score so far taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.group import ProcessGroup
from rushlight.eager import functions
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.functions import cat, chunk, exp, maximum, stack, tril, where
from rushlight.eager.override.answering import TorchFunctionMode
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.functional import scaled_dot_product_attention
from rushlight.ops.collective import all_gather_into_tensor, permute_tensor
from rushlight.support.errors import fail, require
from rushlight.sym import eq, guard, mod

_ATTENTION = (scaled_dot_product_attention, functions.scaled_dot_product_attention)
"""What a call of attention is: the function, and that of the operator, which a caller of the operator means."""


class _Sums(NamedTuple):
    """The attention to some keys: weighted values and the sum of weights, both over exp(`greatest`)."""

    values: Any
    weights: Any
    greatest: Any


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: ProcessGroup,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The attention of this rank's queries, [..., pieces, width], to the keys of all ranks of a group.

    Ranks hold pieces as `context_parallel` deals them out. Errors: W024 for pieces that cannot be halved.
    """
    size, rank = group.size, group.rank
    pieces = query.form.shape[-2]
    message = f"ring_attention: {pieces} places on each rank are not two equal pieces"
    require(guard(eq(mod(pieces, 2), 0)), "W024", message, query=query)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    repeats = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    held, found = stack([key, value]), cast("_Sums | None", None)
    onward = tuple([(other + 1) % size for other in range(size)])
    for step in range(size):
        owner = (rank - step) % size
        found = _attended(query * factor, held, owner - rank if is_causal else None, repeats, found)
        if step + 1 < size:
            held = permute_tensor(held, onward, group.name)
    assert found is not None
    return (found.values / found.weights).to(query.dtype)


def _attended(query: Any, held: Any, ahead: int | None, repeats: int, before: _Sums | None) -> _Sums:
    """`before`, and the attention to the keys held: of a rank that is `ahead`, or with None to all of them."""
    key, value = held[0], held[1]
    if repeats > 1:
        key, value = (one.repeat_interleave(repeats, -3) for one in (key, value))
    half = query.shape[-2] // 2
    if ahead is None or ahead == 0:
        return _merged(before, _sums(query, key, value, ahead == 0))
    if ahead < 0:  # its first piece is before both of this rank's, its second one after both
        return _merged(before, _sums(query, key[..., :half, :], value[..., :half, :], False))
    assert before is not None
    late = _Sums(*[one[..., half:, :] for one in before])
    late = _merged(late, _sums(query[..., half:, :], key, value, False))
    return _Sums(*[cat([one[..., :half, :], other], -2) for one, other in zip(before, late, strict=True)])


def _sums(query: Any, key: Any, value: Any, is_causal: bool) -> _Sums:
    scores = query @ key.mT
    if is_causal:
        seen = tril(scores.new_ones(scores.shape[-2:], dtype=scores.dtype)) > 0
        scores = where(seen, scores, float("-inf"))
    greatest = scores.detach().amax(-1, keepdim=True)
    weights = exp(scores - greatest)
    return _Sums(weights @ value, weights.sum(-1, keepdim=True), greatest)


def _merged(one: _Sums | None, other: _Sums) -> _Sums:
    if one is None:
        return other
    greatest = maximum(one.greatest, other.greatest)
    mine, theirs = exp(one.greatest - greatest), exp(other.greatest - greatest)
    values = one.values * mine + other.values * theirs
    return _Sums(values, one.weights * mine + other.weights * theirs, greatest)


# Sequences among ranks.


def _dealt(tensor: Tensor, dim: int, size: int, rank: int) -> Any:
    """The pieces of a rank. Errors: W024."""
    length = tensor.shape[dim]
    if length % (2 * size):
        message = f"context_parallel: {length} places of dim {dim} are not {2 * size} equal pieces for {size} ranks"
        fail("W024", message, tensor=tensor)
    pieces = chunk(tensor, 2 * size, dim)
    return cat([pieces[rank], pieces[2 * size - 1 - rank]], dim)


def context_parallel_unshard(mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int]) -> list[Tensor]:
    """All of sequences of which each rank holds its pieces, along one dim each."""
    group = mesh.get_group()
    whole: list[Tensor] = []
    for buffer, dim in zip(buffers, seq_dims, strict=True):
        gathered: Any = all_gather_into_tensor(buffer.movedim(dim, 0), group.size, group.name)
        pieces = chunk(gathered, 2 * group.size, 0)
        whole.append(cat([*pieces[0::2], *pieces[1::2][::-1]], 0).movedim(0, dim))
    return whole


class _Ring(TorchFunctionMode):
    """Within it attention is ring attention."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if func not in _ATTENTION:
            return func(*args, **(kwargs or {}))
        answer: Any = _answer
        return answer(self._group, *args, **(kwargs or {}))


def _answer(
    group: ProcessGroup,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: object = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> object:
    plain = attn_mask is None and dropout_p == 0.0
    hint = "leave out attn_mask and dropout_p, or attend outside context_parallel"
    require(plain, "A006", "context_parallel: attention takes no mask but is_causal, and no dropout", hint=hint)
    return ring_attention(query, key, value, group, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Tensor] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: Collection[Tensor] | None = None,
) -> Generator[None]:
    """A scope in which `buffers` hold a rank's pieces of sequences, and attention is that of whole ones.

    They hold all again afterwards, but for `no_restore_buffers`. Attention takes no mask but `is_causal`, and no
    dropout (A006). Errors: W024 for a sequence that is not 2n equal pieces for n ranks.

        with context_parallel(mesh, buffers=[x, target], buffer_seq_dims=[1, 1]):
            loss = (model(x) - target).square().mean()
    """
    group = mesh.get_group()
    given, dims = list(buffers or ()), list(buffer_seq_dims or ())
    require(len(given) == len(dims), "A002", "context_parallel: one dim for each buffer is expected", dims=dims)
    kept = {id(one) for one in no_restore_buffers or ()}
    known = kept <= {id(one) for one in given} and not any(isinstance(one, Parameter) for one in given)
    require(known, "A002", "context_parallel: no_restore_buffers are among the buffers, and these no parameters")
    before = [one.data for one in given]
    with no_grad():
        parts = [_dealt(one.data, dim, group.size, group.rank) for one, dim in zip(given, dims, strict=True)]
    for one, own in zip(given, parts, strict=True):
        one.data = own
    try:
        with _Ring(group):
            yield
    finally:
        for one, whole in zip(given, before, strict=True):
            if id(one) not in kept:
                one.data = whole
