"""einsum: any sum of products, as a series of products of two, each by reordering dims and one batched matmul."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.dims import Array, compute_array, normal, same_size
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.promote import is_one
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.part import diagonal
from rushlight.ops.view.reorder import permute, squeeze, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import fail, require
from rushlight.sym import Size, product

einsum = define(
    "einsum(str equation, Tensor[] operands) -> Tensor",
    "A sum of products over the letters that the result lacks, in Einstein's notation.",
    dtypes="number",
    autocast="lower",
    variants="function",
)

_SPARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Labelled:
    """A value with a letter for each dim."""

    __slots__ = ("labels", "value")

    def __init__(self, value: Value, labels: str) -> None:
        self.value = value
        self.labels = labels

    def size(self, label: str) -> Size:
        """The size of the dim with a letter."""
        return self.value.shape[self.labels.index(label)]

    def ordered(self, labels: Sequence[str]) -> Value:
        """The value with its dims in the order of the letters."""
        order = tuple([self.labels.index(label) for label in labels])
        return self.value if order == tuple(range(len(order))) else permute(self.value, order)

    def summed(self, labels: Sequence[str]) -> Labelled:
        """Summed over the dims with these letters."""
        dims = tuple([dim for dim, label in enumerate(self.labels) if label in labels])
        kept = "".join([label for label in self.labels if label not in labels])
        return Labelled(sum_(self.value, dims), kept) if dims else self


def parsed(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with `...` spelled out in letters that are not used."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    require(len(parts) == len(ranks), "A004", f"einsum: {equation!r} is for {len(parts)} operands, {len(ranks)} given")
    spare = [letter for letter in _SPARE if letter not in text]
    widest = 0
    spelled: list[str] = []
    for part, rank in zip(parts, ranks, strict=True):
        named = part.replace("...", "")
        hidden = rank - len(named) if "..." in part else 0
        valid = named.isalpha() or not named
        require(
            valid and len(named) + hidden == rank >= hidden >= 0, "S002", f"einsum: {part!r} does not fit {rank} dims"
        )
        widest = max(widest, hidden)
        spelled.append(part.replace("...", "".join(spare[len(spare) - hidden :])))
    ellipsis = "".join(spare[len(spare) - widest :])
    if arrow:
        return spelled, output.replace("...", ellipsis)
    once = sorted({label for part in parts for label in part.replace("...", "") if inputs.count(label) == 1})
    return spelled, ellipsis + "".join(once)


def _without_repeats(operand: Labelled) -> Labelled:
    """Dims with the same letter as their diagonal."""
    for label in sorted(set(operand.labels)):
        while operand.labels.count(label) > 1:
            first = operand.labels.index(label)
            second = operand.labels.index(label, first + 1)
            kept = operand.labels[:first] + operand.labels[first + 1 : second] + operand.labels[second + 1 :]
            operand = Labelled(diagonal(operand.value, 0, first, second), kept + label)
    return operand


def _product(a: Labelled, b: Labelled, kept: set[str]) -> Labelled:
    """The product of two operands, summed over the letters that nothing else needs."""
    a = a.summed([label for label in a.labels if label not in b.labels and label not in kept])
    b = b.summed([label for label in b.labels if label not in a.labels and label not in kept])
    a, b = _matched(a, b), _matched(b, a)
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in kept]
    inner = [label for label in shared if label not in kept]
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    labels = "".join([*batch, *rows, *columns])
    if not inner:
        left, right = a.ordered([*batch, *rows]), b.ordered([*batch, *columns])
        for _ in columns:
            left = unsqueeze(left, -1)
        for _ in rows:
            right = unsqueeze(right, len(batch))
        return Labelled(left * right, labels)
    outer = tuple([a.size(label) for label in batch])
    m, n = product([a.size(label) for label in rows]), product([b.size(label) for label in columns])
    k = product([a.size(label) for label in inner])
    left = reshape(a.ordered([*batch, *rows, *inner]), (*outer, m, k))
    right = reshape(b.ordered([*batch, *inner, *columns]), (*outer, k, n))
    shape = (*outer, *[a.size(label) for label in rows], *[b.size(label) for label in columns])
    return Labelled(reshape(matmul(left, right), shape), labels)


def _matched(a: Labelled, b: Labelled) -> Labelled:
    """`a` without the dims of size 1 that broadcast against `b`; other shared sizes must agree."""
    for label in a.labels:
        if label not in b.labels:
            continue
        if is_one(a.size(label)) and not is_one(b.size(label)):
            a = Labelled(squeeze(a.value, a.labels.index(label)), a.labels.replace(label, ""))
        elif not is_one(b.size(label)) and not same_size(a.size(label), b.size(label)):
            # Symbols, then, of which one may be 1.
            if same_size(a.size(label), 1):
                a = Labelled(squeeze(a.value, a.labels.index(label)), a.labels.replace(label, ""))
            elif not same_size(b.size(label), 1):
                fail("S001", f"einsum: sizes of {label!r} differ", a=a.value.shape, b=b.value.shape)
    return a


@einsum.decompose
def einsum_decompose(equation: str, operands: tuple[Value, ...]) -> Value:
    spelled, output = parsed(equation, [operand.ndim for operand in operands])
    for label in output:
        is_letter = any(label in part for part in spelled) and output.count(label) == 1
        require(is_letter, "A002", f"einsum: {label!r} of the result must be one of the operands' letters, once")
    left = [_without_repeats(Labelled(*pair)) for pair in zip(operands, spelled, strict=True)]
    for chosen in _path(left, output):
        picked = [left.pop(position) for position in sorted(chosen, reverse=True)]
        kept = set(output).union(*[operand.labels for operand in left])
        joined = picked.pop()
        while picked:
            joined = _product(joined, picked.pop(), kept)
        left.append(joined)
    joined = left[0].summed([label for label in left[0].labels if label not in output])
    return joined.ordered(output)


_ANY_SIZE = 64


def _path(operands: Sequence[Labelled], output: str) -> Any:
    if len(operands) <= 2:
        return [tuple(range(len(operands)))]
    # Which products come first decides bits, so it is a function of the equation alone, as if all sizes were equal.
    shapes = [(_ANY_SIZE,) * len(operand.labels) for operand in operands]
    equation = ",".join([operand.labels for operand in operands]) + "->" + output
    # Loaded here, at its one door: it takes as long to import as half of all operators.
    find_path = import_module("opt_einsum").contract_path
    return find_path(equation, *shapes, shapes=True, optimize="auto")[0]


@einsum.ref
def einsum_ref(equation: str, operands: tuple[Array, ...]) -> Array:
    result = np.einsum(equation, *[compute_array(operand) for operand in operands])
    # A sum over labels of one operand is one of `sum`, which widens integers.
    type_ = einsum.infer((tuple([array_type(operand) for operand in operands]),), {"equation": equation})
    return np.asarray(result).astype(type_.dtype.numpy)


@einsum.samples
def einsum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample("ij,jk->ik", [normal(rng, 2, 3), normal(rng, 3, 4)])
    yield Sample("bhid,bhjd->bhij", [normal(rng, 2, 3, 4, 5), normal(rng, 2, 3, 6, 5)])
    yield Sample("ii->i", [normal(rng, 3, 3)])
    yield Sample("ij->", [normal(rng, 2, 3)])
    yield Sample("i,j", [normal(rng, 2), normal(rng, 3)])
    yield Sample("...ij,...jk", [normal(rng, 5, 2, 3), normal(rng, 3, 4)])
    yield Sample("ab,bc,cd->ad", [normal(rng, 2, 3), normal(rng, 3, 4), normal(rng, 4, 2)])
    yield Sample("ijk,ij->ki", [normal(rng, 2, 3, 4), normal(rng, 2, 3)])
    yield Sample("ij,kj->ki", [normal(rng, 2, 1), normal(rng, 4, 3)])
