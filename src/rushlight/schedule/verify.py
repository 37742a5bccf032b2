"""Checks of the schedule's stages: what each pass relies on. Tests check all; `RUSHLIGHT_VERIFY=1` does so anywhere.

The plan that the last pass makes is checked by `ir.verify_kernel` and `ir.verify_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.ir.loops import Definition
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.verify import broken
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.row_blocks import groups_of
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import free_axes, loads
from rushlight.schedule.record import Schedule
from rushlight.sym import SizeExpr


def verify_lowered(schedule: Schedule) -> None:
    """Checks definitions: they read inputs and earlier values, at their own axes, and yield their buffer's dtype.

    Errors: C015.
    """
    defined = set(schedule.inputs)
    for definition in schedule.definitions:
        if isinstance(definition, Definition):
            _verify_body(definition.buffer, definition.body, definition.axes, defined)
        else:
            scatter = definition.scatter
            _verify_body(definition.buffer, scatter.initial, definition.axes, defined)
            for part in (scatter.value, *scatter.index):
                if isinstance(part, Scalar):
                    _verify_loads(definition.buffer, part, scatter.axes, defined)
        _define(definition.buffer, defined)
    _verify_outputs(schedule, defined)


def verify_folded(schedule: Schedule) -> None:
    """Checks nodes: they read inputs and earlier nodes, and every output has a node.

    Errors: C015.
    """
    defined = set(schedule.inputs)
    for node in (*schedule.once_nodes, *schedule.nodes):
        over = node.overwrite
        if len(node.index() if over is None else over.index) != len(node.buffer.type.shape):
            broken(node.buffer.name, "a node's index has another number of dims than its buffer")
        _verify_body(node.buffer, node.body, node.axes, defined)
        if over is not None:
            _verify_body(node.buffer, over.initial, over.axes, defined)
            for position in over.index:
                _verify_loads(node.buffer, position, node.axes, defined)
        _define(node.buffer, defined)
    _verify_outputs(schedule, defined)


def verify_fused(schedule: Schedule) -> None:
    """Checks groups: each node is in one group, no group needs itself, and values that others read are stored.

    Errors: C015.
    """
    _verify_groups(schedule.nodes, schedule.groups)
    _verify_groups(schedule.once_nodes, schedule.once_groups)
    groups = (*schedule.once_groups, *schedule.groups)
    stored = {node.buffer for group in groups for node in group.nodes if node.stored}
    _verify_stored(groups, stored.union(schedule.inputs))


def verify_ordered(schedule: Schedule) -> None:
    """Checks the order: groups run after those that they read, and after the last reader of what they overwrite.

    Errors: C015.
    """
    defined = set(schedule.inputs)
    order = [*schedule.once_parts, *groups_of(schedule.parts)]
    if {id(group) for group in order} != {id(group) for group in (*schedule.once_groups, *schedule.groups)}:
        broken("order", "the groups that run are not those that were fused")
    overwritten: dict[Buffer, Buffer] = {}
    for group in order:
        defined.update([node.buffer for node in group.nodes])
        for buffer in group.read_buffers():
            if buffer not in defined:
                broken(f"group {group.number}", "a value is read before it is computed", value=buffer.name)
            if buffer in overwritten:
                writer = overwritten[buffer].name
                broken(
                    f"group {group.number}",
                    "an old value is read after it is overwritten",
                    value=buffer.name,
                    by=writer,
                )
        overwritten.update(
            {old: new for new, old in schedule.aliases.items() if new in defined and old in schedule.inputs}
        )


def _define(buffer: Buffer, defined: set[Buffer]) -> None:
    if buffer in defined:
        broken(buffer.name, "a value is defined twice")
    defined.add(buffer)


def _verify_body(buffer: Buffer, body: Scalar, axes: Sequence[SizeExpr], defined: set[Buffer]) -> None:
    if body.type is not buffer.type.dtype:
        broken(buffer.name, "a body is of another dtype than its buffer", body=body.type.name, buffer=buffer.type)
    _verify_loads(buffer, body, axes, defined)


def _verify_loads(buffer: Buffer, body: Scalar, axes: Sequence[SizeExpr], defined: set[Buffer]) -> None:
    if not free_axes(body).issubset(axes):
        broken(buffer.name, "a body depends on an axis that nothing runs over")
    for load in loads(body):
        read: Buffer = load.attr("buffer")
        if read not in defined:
            broken(buffer.name, "a value is read before it is defined", value=read.name)
        if len(load.operands) != len(read.type.shape):
            broken(buffer.name, "a load has another number of indices than its buffer has dims", value=read.name)


def _verify_outputs(schedule: Schedule, defined: set[Buffer]) -> None:
    for buffer in schedule.outputs:
        if buffer not in defined:
            broken(buffer.name, "an output is not computed")


def _verify_groups(nodes: Sequence[Node], groups: Sequence[Group]) -> None:
    home: dict[Buffer, Group] = {}
    for group in groups:
        for node in group.nodes:
            if node.buffer in home:
                broken(f"group {group.number}", "a value is in two groups", value=node.buffer.name)
            home[node.buffer] = group
    if home.keys() != {node.buffer for node in nodes}:
        broken("groups", "the values of the groups are not those of the nodes")
    for group in groups:
        producers = {home[buffer].number for buffer in group.read_buffers() if buffer in home} - {group.number}
        needed = sum([1 << number for number in producers])
        if needed & ~group.ancestors or group.ancestors >> group.number & 1:
            broken(f"group {group.number}", "a group needs itself, or one that is not among its ancestors")


def _verify_stored(groups: Iterable[Group], stored: set[Buffer]) -> None:
    for group in groups:
        made = {node.buffer for node in group.nodes}
        for buffer in group.read_buffers():
            if buffer not in made and buffer not in stored:
                broken(f"group {group.number}", "a value of another group is not stored", value=buffer.name)
