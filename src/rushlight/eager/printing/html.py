"""Tensors as HTML, for notebooks: elements of a vector or matrix as a table, with numbers of rows and columns."""

from __future__ import annotations

import html

from rushlight.eager.handle import Handle
from rushlight.eager.printing.text import format_elements, print_options, suffixes_of

_GAP = "…"


def tensor_html(tensor: Handle, title: str) -> str:
    """A caption with dtype and sizes, and a table; the text of `repr` if there is no table of it."""
    form = tensor.form
    if tensor.backing is None or not form.numel or len(form.shape) > 2:
        return f"<pre>{html.escape(repr(tensor))}</pre>"
    others = [text for text in suffixes_of(tensor) if not text.startswith("dtype=")]
    caption = ", ".join([f"{title} of {form.dtype.name} {list(form.shape)}", *others])
    return f"<div>{html.escape(caption)}</div>{_table(tensor, len(form.shape))}"


def _table(tensor: Handle, dims: int) -> str:
    options = print_options()
    array, texts = format_elements(tensor, options)
    height, width = array.shape if dims == 2 else (1, array.size)
    summarise = array.size > options.threshold
    rows, columns = (_places(size, summarise, options.edgeitems) for size in (height, width))
    left = iter(texts)
    lines = [f"<th></th>{''.join([f'<th>{_label(place)}</th>' for place in columns])}"] if dims else []
    for row in rows:
        values = [_GAP if row is None or column is None else next(left) for column in columns]
        head = f"<th>{_label(row) if dims == 2 else ''}</th>" if dims else ""
        lines.append(head + "".join([f"<td>{html.escape(value)}</td>" for value in values]))
    return f"<table>{''.join([f'<tr>{line}</tr>' for line in lines])}</table>"


def _places(size: int, summarise: bool, edge: int) -> list[int | None]:
    """The indices that are shown, with None for those that are not."""
    if not summarise or size <= 2 * edge:
        return list(range(size))
    return [*range(edge), None, *range(size - edge, size)]


def _label(place: int | None) -> str:
    return _GAP if place is None else str(place)
