"""`local_map`: a function of plain tensors, called on the parts of divided ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.spec import is_evenly_sharded, normalized, text_of
from rushlight.eager.dispatch import STATE
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.eager.tensor import Tensor
from rushlight.eager.tracing.mapped import traced_map
from rushlight.ir.placement import Placement
from rushlight.support.errors import fail, require

Placements = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any],
    out_placements: object,
    in_placements: Sequence[Placements] | None = None,
    in_grad_placements: Sequence[Placements] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function of divided tensors that calls `func` on this rank's parts.

    `in_placements` has an entry for each argument, None for what is no divided tensor; those that lie otherwise are an
    error, or redistributed. `in_grad_placements` say how the gradients of the parts lie. `out_placements` are those of
    the one result, or a tuple of them; None leaves a result as it is.

        rows = local_map(lambda x: x.cumsum(1), [Shard(0)], ([Shard(0)],))

    Errors: W027 for another number of arguments or results, W024 where parts are of different shapes.
    """

    @functools.wraps(func)
    def call(*args: object, **kwargs: object) -> Any:
        flat, structure = flatten_tree(args)
        for placements, what in ((in_placements, "in_placements"), (in_grad_placements, "in_grad_placements")):
            if placements is not None and len(placements) != len(flat):
                _fail_count(func, "inputs", len(placements), flat, what)
        mesh = device_mesh or next((one.device_mesh for one in flat if isinstance(one, DTensor)), None)
        parts = [
            _part(func, one, at, in_placements, in_grad_placements, redistribute_inputs) for at, one in enumerate(flat)
        ]

        def on_parts() -> object:
            return func(*unflatten_tree(structure, parts), **kwargs)

        tensors = [part for part in parts if isinstance(part, Tensor)]
        if STATE.tracer is None or mesh is None:
            result = on_parts()
        else:
            lies = [text_of(one.placements) for one in flat if isinstance(one, DTensor)]
            result = traced_map(on_parts, tensors, (_name(func), " ".join(lies), str(out_placements)))
        return result if mesh is None else _put_together(func, result, out_placements, mesh)

    return call


def _part(
    func: Callable[..., Any],
    value: object,
    at: int,
    in_placements: Sequence[Placements] | None,
    in_grad_placements: Sequence[Placements] | None,
    redistributes: bool,
) -> object:
    wanted = None if in_placements is None else in_placements[at]
    if not isinstance(value, DTensor):
        plain = wanted is None or not isinstance(value, Tensor)
        message = f"local_map: argument {at} of {_name(func)} has placements, and is a plain tensor"
        require(plain, "W020", message, tensor=value)
        return value
    if wanted is not None:
        chosen = normalized(wanted, value.device_mesh, value.dim(), "local_map")
        if chosen != value.placements:
            if not redistributes:
                before, after = text_of(value.placements), text_of(chosen)
                hint = f"redistribute_inputs=True, or x.redistribute(placements={list(chosen)}) before the call"
                fail("W022", f"local_map: argument {at} of {_name(func)} lies {before}, not {after}", hint=hint)
            value = value.redistribute(placements=chosen)
    shape = tuple(value.shape)
    if not is_evenly_sharded(shape, value.device_mesh, value.placements):
        lies = text_of(value.placements)
        fail(
            "W024", f"local_map: parts of argument {at} of {_name(func)} have different shapes", tensor=shape, lies=lies
        )
    return value.to_local(grad_placements=None if in_grad_placements is None else in_grad_placements[at])


def _put_together(func: Callable[..., Any], result: Any, out_placements: Any, mesh: DeviceMesh) -> Any:
    flat, structure = flatten_tree(result)
    single = out_placements is None or not out_placements or isinstance(out_placements[0], Placement)
    several: Any = out_placements
    if single:
        several = [out_placements] * len(flat)
    if len(several) != len(flat):
        _fail_count(func, "results", len(several), flat, "out_placements")
    made = [_whole(one, placements, mesh) for one, placements in zip(flat, several, strict=True)]
    return unflatten_tree(structure, made)


def _whole(value: object, placements: Any, mesh: DeviceMesh) -> object:
    if placements is None or not isinstance(value, Tensor):
        return value
    return DTensor.from_local(value, mesh, placements)


def _fail_count(func: Callable[..., Any], kind: str, expected: int, found: Sequence[object], argument: str) -> None:
    kinds = ", ".join([type(one).__name__ for one in found])
    message = f"Expecting {expected} {kind} to local_map function based on placements, but found {len(found)}"
    hint = f"{argument} has one entry for each tensor or other value, in lists and tuples too"
    fail("W027", f"local_map: {message}", function=_name(func), found=kinds, hint=hint)


def _name(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__name__", func))
