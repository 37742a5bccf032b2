"""Flows: programs whose native code is run in branches and loops, by one entry.

All sizes are known when a flow begins. So each buffer has one descriptor, written once; loops change addresses alone.
"""

from __future__ import annotations

from rushlight.ir.plan import ArenaSlot, Assertion, SymbolSource
from rushlight.ir.scalar import Buffer
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr

MOVING = "moving"
"""The scope of buffers whose addresses a loop changes."""


@frozen(eq=False)
class NativeRun:
    """Runs native code, by its number, on buffers: what it reads, then what it writes."""

    number: int
    buffers: tuple[Buffer, ...]


@frozen(eq=False)
class BufferCopy:
    """Copies a dense buffer."""

    source: Buffer
    target: Buffer


@frozen(eq=False)
class Branches:
    """Runs the first frame where a bool is true, else the second."""

    predicate: Buffer
    frames: tuple[Frame, Frame]


@frozen(eq=False)
class Carry:
    """A value that a loop carries: `now` at first lies in `initial`, then in the `spares` in turn.

    The body writes `following`, which is `now` of the next step. `last` gets the value after the last step.
    """

    initial: Buffer
    now: Buffer
    following: Buffer
    spares: tuple[Buffer, Buffer]
    last: Buffer


@frozen(eq=False)
class WhileLoop:
    """Runs the body for as long as `condition` writes True to `flag`."""

    carries: tuple[Carry, ...]
    flag: Buffer
    condition: Frame
    body: Frame


@frozen(eq=False)
class ScanLoop:
    """Runs the body `length` times. Each of `slices` is a buffer and its part at the index of the step."""

    carries: tuple[Carry, ...]
    slices: tuple[tuple[Buffer, Buffer], ...]
    length: Size
    reverse: bool
    body: Frame


FlowStep = NativeRun | BufferCopy | Branches | WhileLoop | ScanLoop


@frozen(eq=False)
class Frame:
    """Steps in order, after `checks`. `slots` are its buffers in the arena, behind those of the frame around it.

    What a step needs of the arena lies behind all slots.
    """

    checks: tuple[Assertion, ...]
    slots: tuple[ArenaSlot, ...]
    steps: tuple[FlowStep, ...]

    @property
    def inner(self) -> tuple[Frame, ...]:
        """The frames of its steps."""
        return tuple([frame for step in self.steps for frame in frames_of(step)])


def frames_of(step: FlowStep) -> tuple[Frame, ...]:
    """The frames that a step runs."""
    if isinstance(step, Branches):
        return step.frames
    if isinstance(step, WhileLoop):
        return (step.condition, step.body)
    return (step.body,) if isinstance(step, ScanLoop) else ()


@frozen(eq=False)
class Flow:
    """A program: its inputs and outputs in the order of descriptors, where sizes are found, and the frame that it runs.

    `equal` are symbols of graphs inside, with the sizes that they are, in an order in which they can be computed.
    `numbers` are buffers that hold a number.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    symbols: tuple[SymbolSource, ...]
    equal: tuple[tuple[SizeExpr, Size], ...]
    numbers: tuple[tuple[Buffer, complex], ...]
    frame: Frame
