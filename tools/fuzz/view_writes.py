"""Random writes to values, in words; None where a kind of write does not suit a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tools.fuzz.view_values import Fitting, Shown, replaced


def _constant(random: Random, value: Shown) -> str:
    if value.dtype == "bool":
        return random.choice(("True", "False"))
    return str(random.randrange(0 if value.dtype == "uint8" else -3, 4))


def _other(random: Random, value: Shown, fitting: Fitting, shape: Sequence[int] | None = None) -> str:
    other = fitting(value.shape if shape is None else tuple(shape), value.dtype)
    return _constant(random, value) if other is None or random.random() < 0.3 else other.name


def _arithmetic(random: Random, value: Shown, fitting: Fitting) -> str | None:
    if value.dtype == "bool":
        return None
    operand = _other(random, value, fitting)
    if random.random() < 0.3:
        return f"{value.name} {random.choice(('+=', '-=', '*='))} {operand}"
    return f"{value.name}.{random.choice(('add_', 'sub_', 'mul_'))}({operand})"


def _single(random: Random, value: Shown, fitting: Fitting) -> str | None:
    if random.random() < 0.4:
        return f"{value.name}.{random.choice(('zero_()', f'fill_({_constant(random, value)})'))}"
    if value.dtype in ("bool", "uint8"):
        return None
    return f"{value.name}.{random.choice(('neg_()', 'clamp_(min=0)', 'abs_()', 'square_()'))}"


def _copy(random: Random, value: Shown, fitting: Fitting) -> str | None:
    other = fitting(value.shape, None if random.random() < 0.2 and not value.is_float else value.dtype)
    return None if other is None else f"{value.name}.copy_({other.name})"


def _assign(random: Random, value: Shown, fitting: Fitting) -> str | None:
    """`v[...] = w` with integers, slices, None and an ellipsis."""
    parts: list[str] = []
    shape: list[int] = []
    for size in value.shape:
        kind = random.choice(("whole", "whole", "integer", "slice"))
        if kind == "integer" and size:
            parts.append(str(random.randrange(-size, size)))
        elif kind == "slice":
            start, step = random.randrange(max(size, 1)), random.choice((1, 2))
            parts.append(f"{start}::{step}")
            shape.append(len(range(size)[start::step]))
        else:
            parts.append(":")
            shape.append(size)
    if random.random() < 0.15:
        parts.insert(0, "None")
        shape.insert(0, 1)
    if random.random() < 0.2:
        parts.append("...")
    operand = _other(random, value, fitting, shape)
    return f"{value.name}[{', '.join(parts) or '...'}] = {operand}"


def _masked(random: Random, value: Shown, fitting: Fitting) -> str | None:
    mask = fitting(value.shape, "bool")
    compared = f"({value.name}.detach() > 0)" if value.dtype != "bool" else value.name
    shown = mask.name if mask is not None and mask.shape == value.shape else compared
    constant = _constant(random, value)
    if mask is not None and random.random() < 0.4:
        return f"{value.name}.masked_fill_({mask.name}, {constant})"
    return random.choice((f"{value.name}.masked_fill_({shown}, {constant})", f"{value.name}[{shown}] = {constant}"))


def _listed(random: Random, value: Shown, fitting: Fitting) -> str | None:
    """`index_put_` and assignments at places of the first dim, or of two."""
    if not value.shape or 0 in value.shape[:2]:
        return None
    size = value.shape[0]
    places = random.sample(range(size), random.randrange(1, size + 1))
    shape = (len(places), *value.shape[1:])
    operand = _other(random, value, fitting, shape)
    index = f"torch.tensor({places})"
    if random.random() < 0.5:
        return f"{value.name}[{index}] = {operand}"
    if not operand.startswith("v"):
        operand = f"torch.tensor({operand}, dtype=torch.{value.dtype})"
    if random.random() < 0.3 and value.dtype != "bool":
        places = [random.randrange(size) for _ in places]
        return f"{value.name}.index_put_((torch.tensor({places}),), {operand}, accumulate=True)"
    return f"{value.name}.index_put_(({index},), {operand})"


def _along(random: Random, value: Shown, fitting: Fitting) -> str | None:
    if not value.shape or 0 in value.shape:
        return None
    dim = random.randrange(len(value.shape))
    places = random.sample(range(value.shape[dim]), random.randrange(1, value.shape[dim] + 1))
    index = f"torch.tensor({places})"
    source = f"torch.ones({replaced(value.shape, dim, len(places))}, dtype=torch.{value.dtype})"
    return None if value.dtype == "bool" else f"{value.name}.index_add_({dim}, {index}, {source})"


def _out(random: Random, value: Shown, fitting: Fitting) -> str | None:
    other = fitting(value.shape, value.dtype)
    if other is None or other.shape != value.shape or value.dtype == "bool":
        return None
    return f"torch.mul({other.name}.detach(), 2, out={value.name})" if not value.is_float else None


WRITES: tuple[Callable[[Random, Shown, Fitting], str | None], ...] = (
    _arithmetic,
    _arithmetic,
    _single,
    _copy,
    _assign,
    _assign,
    _assign,
    _masked,
    _listed,
    _along,
    _out,
)
"""Kinds of writes."""
