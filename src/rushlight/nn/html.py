"""Modules as HTML, for notebooks: a tree to unfold, with the number of parameters below each module."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from rushlight.nn.parameter import is_lazy

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor
    from rushlight.nn.modules.module import Module


def module_html(module: Module, name: str = "", is_open: bool = True) -> str:
    """A module with its arguments, parameters, buffers and children, folded but for the first level.

    A parameter that several modules share counts once.
    """
    extra = f"({module.extra_repr()})"
    title = f"{f'({name}): ' if name else ''}{type(module).__name__}{extra}"
    count = sum([parameter.numel() for parameter in module.parameters() if not is_lazy(parameter)])
    summary = f"{html.escape(title)} <small>{count:,} parameters</small>"
    inside = _own_tensors(module) + "".join(
        [f"<li>{module_html(child, child_name, False)}</li>" for child_name, child in module.named_children()]
    )
    if not inside:
        return summary
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary><ul>{inside}</ul></details>"


def _own_tensors(module: Module) -> str:
    found = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return "".join([f"<li>{html.escape(name)} <small>{_kind(one)}</small></li>" for name, one in found])


def _kind(one: Tensor) -> str:
    return "not initialised" if is_lazy(one) else f"{one.dtype.name} {list(one.shape)}"
