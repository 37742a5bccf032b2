"""Making a program that fails smaller: statements, inputs, dims, layouts and values go while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tools.fuzz.program import NAME, Array, Input, Program, dense_input, operands, row_major, targets

_ROUNDS = 4


def reduced(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found by single steps for which `fails` is true; it is for the given one."""
    for _ in range(_ROUNDS):
        before = program
        for steps in (_without_statements, _without_results, _without_inputs, _smaller, _plainer):
            program = _descended(program, steps, fails)
        if program is before:
            break
    return program


def _descended(
    program: Program, steps: Callable[[Program], Iterator[Program]], fails: Callable[[Program], bool]
) -> Program:
    """Takes the first step that still fails, again and again."""
    while True:
        smaller = next((step for step in steps(program) if fails(step)), None)
        if smaller is None:
            return program
        program = smaller


def _without_statements(program: Program) -> Iterator[Program]:
    for index in reversed(range(len(program.statements))):
        yield _dropped(program, index)


def _dropped(program: Program, index: int) -> Program:
    """Drops a statement, and what reads the values that it assigned."""
    lost = set(targets(program.statements[index]))
    kept = list(program.statements[:index])
    for statement in program.statements[index + 1 :]:
        if lost.isdisjoint(operands(statement)):
            kept.append(statement)
        else:
            lost.update(targets(statement))
    return _with(program, statements=tuple(kept), results=tuple([name for name in program.results if name not in lost]))


def _without_results(program: Program) -> Iterator[Program]:
    for name in program.results:
        yield _with(program, results=tuple([other for other in program.results if other != name]))


def _without_inputs(program: Program) -> Iterator[Program]:
    """Drops an input that nothing reads; what follows is renamed."""
    read = {name for statement in program.statements for name in operands(statement)} | set(program.results)
    for index, name in enumerate(program.parameters):
        if name not in read and len(program.inputs) > 1:
            yield _renamed(program, index)


def _renamed(program: Program, index: int) -> Program:
    def moved(text: str) -> str:
        return NAME.sub(lambda name: _earlier(name[0], index), text)

    inputs = (*program.inputs[:index], *program.inputs[index + 1 :])
    statements, results = tuple(map(moved, program.statements)), tuple(map(moved, program.results))
    return Program(program.seed, program.number, inputs, statements, results)


def _earlier(name: str, index: int) -> str:
    number = int(name[1:])
    return f"v{number - 1}" if number > index else name


def _smaller(program: Program) -> Iterator[Program]:
    """Cuts a size, in all inputs that have it or in one."""
    sizes = sorted({size for given in program.inputs for size in given.shape if size > 1}, reverse=True)
    for size in sizes:
        for cut in sorted({1, 2, size // 2, size - 1} & set(range(size))):
            everywhere = tuple([_cut(given, None, size, cut) for given in program.inputs])
            yield _with(program, inputs=everywhere)
            for index, given in enumerate(program.inputs):
                for dim, own in enumerate(given.shape):
                    if own == size:
                        yield _replaced(program, index, _cut(given, dim, size, cut))


def _cut(given: Input, dim: int | None, size: int, cut: int) -> Input:
    shape = tuple([cut if own == size and dim in (None, at) else own for at, own in enumerate(given.shape)])
    return Input(given.dtype, shape, given.strides, given.offset, given.values, given.requires_grad)


def _plainer(program: Program) -> Iterator[Program]:
    """Makes an input dense, its dtype usual, or its values small integers."""
    for index, given in enumerate(program.inputs):
        if given.requires_grad:
            plain = Input(given.dtype, given.shape, given.strides, given.offset, given.values)
            yield _replaced(program, index, plain)
        if given.strides != row_major(given.shape) or given.offset or given.values.size != given.array.size:
            yield _replaced(program, index, dense_input(given.array, given.dtype, given.requires_grad))
        for values in _plainer_values(given.values):
            changed = Input(given.dtype, given.shape, given.strides, given.offset, values, given.requires_grad)
            yield _replaced(program, index, changed)


def _plainer_values(values: Array) -> Iterator[Array]:
    if values.size == 0 or values.dtype.kind == "b":
        return
    small = (np.arange(values.size) % 5 + 1).astype(values.dtype)
    if values.tobytes() != small.tobytes():
        yield small
        for at in range(min(values.size, 16)):
            if values[at] != small[at]:
                one = values.copy()
                one[at] = small[at]
                yield one


def _replaced(program: Program, index: int, given: Input) -> Program:
    return _with(program, inputs=(*program.inputs[:index], given, *program.inputs[index + 1 :]))


def _with(
    program: Program,
    inputs: tuple[Input, ...] | None = None,
    statements: tuple[str, ...] | None = None,
    results: tuple[str, ...] | None = None,
) -> Program:
    return Program(
        program.seed,
        program.number,
        program.inputs if inputs is None else inputs,
        program.statements if statements is None else statements,
        program.results if results is None else results,
    )
