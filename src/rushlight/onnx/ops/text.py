"""Texts, which are numpy arrays of objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rushlight import Tensor
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Value, to_tensor


def _texts(array: Numbers) -> Numbers:
    return np.asarray(array, dtype=object)


@operator("StringConcat")
def concat(a: Numbers, b: Numbers) -> Numbers:
    """Texts one after the other."""
    return np.asarray(_texts(a) + _texts(b), dtype=object)


@operator("RegexFullMatch")
def full_match(x: Numbers, *, pattern: str) -> Tensor:
    """Whether texts are wholly of a pattern."""
    expression = re.compile(pattern)
    found = [expression.fullmatch(str(text)) is not None for text in x.reshape(-1)]
    return to_tensor(np.asarray(found, dtype=bool).reshape(x.shape))


@operator("StringSplit")
def split(x: Numbers, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Numbers, Tensor]:
    """The parts of texts, filled up with empty ones, and how many there are."""
    most = -1 if maxsplit is None else maxsplit
    parts = [str(text).split(delimiter or None, most) for text in x.reshape(-1)]
    longest = max(map(len, parts), default=0)
    rows = np.full((len(parts), longest), "", dtype=object)
    for place, row in enumerate(parts):
        rows[place, : len(row)] = row
    counts = np.asarray(list(map(len, parts)), dtype=np.int64).reshape(x.shape)
    return rows.reshape(*x.shape, longest), to_tensor(counts)


@operator("StringNormalizer")
def normalize(
    x: Numbers,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Numbers:
    """Texts without some words, in upper or lower case."""
    stops = set(stopwords) if is_case_sensitive else {word.lower() for word in stopwords}
    words = [str(text) for text in x.reshape(-1)]
    kept = [word for word in words if (word if is_case_sensitive else word.lower()) not in stops]
    changed = [{"UPPER": word.upper(), "LOWER": word.lower()}.get(case_change_action, word) for word in kept]
    result = np.asarray(changed or [""], dtype=object)
    return result.reshape(1, -1) if x.ndim == 2 else result


@operator("TfIdfVectorizer", host=(0,))
def tf_idf(
    x: Numbers,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Tensor:
    """How often n-grams occur in each row, or whether they do, weighted."""
    pool: Sequence[Value] = pool_strings or pool_int64s
    grams = _grams(pool, ngram_counts)
    width = max(ngram_indexes, default=-1) + 1
    factors = np.ones(len(grams)) if not weights else np.asarray(weights)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    result = np.zeros((rows.shape[0], width), np.float32)
    for place, row in enumerate(rows.tolist()):
        counts = _counted(row, min_gram_length, max_gram_length, max_skip_count)
        for gram, index, factor in zip(grams, ngram_indexes, factors, strict=True):
            count = counts[gram]
            result[place, index] = {"TF": count, "IDF": factor * (count > 0)}.get(mode, count * factor)
    return to_tensor(result[0] if x.ndim < 2 else result)


def _grams(pool: Sequence[Value], starts: Sequence[int]) -> list[tuple[Value, ...]]:
    grams: list[tuple[Value, ...]] = []
    ends = [*starts[1:], len(pool)]
    for size, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        grams += [tuple(pool[place : place + size]) for place in range(start, end, size)]
    return grams


def _counted(row: list[Value], shortest: int, longest: int, skips: int) -> Counter[tuple[Value, ...]]:
    counts: Counter[tuple[Value, ...]] = Counter()
    for size in range(shortest, longest + 1):
        # Skips mean nothing for single words.
        for step in range(1, (skips if size > 1 else 0) + 2):
            for start in range(len(row) - (size - 1) * step):
                counts[tuple(row[start : start + size * step : step])] += 1
    return counts
