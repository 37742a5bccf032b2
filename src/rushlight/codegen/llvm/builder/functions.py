"""The functions of a module: those whose texts differ in nothing but their own name are one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_SELF = "SELF"

KERNEL_PARAMETERS = "ptr noalias %args, i64 %begin, i64 %end"
"""Those of every kernel's function."""
_SIZES = re.compile(r"^(  %v\d+ = (?:mul|add|sub|icmp \w+|(udiv|urem)) i64 )(\S+), (\S+)$", re.MULTILINE)
_LOOPS = re.compile(r"^b\d+:$", re.MULTILINE)
_FEW_LINES = 24  # of a function: to compile as many again takes no longer than to call another with numbers
_ALIKE = (-1, 0, 1)  # numbers that say what is computed rather than for which sizes


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """The names of a kernel's function, and of that which counts the tiles of a matrix product."""

    name: str
    tiles: str = ""


class Functions:
    """Functions in the order in which they were added.

    LLVM takes by far the longest of a first call, and models have many kernels whose names and buffers differ, but
    whose code does not.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._names: dict[str, str] = {}

    def add(self, stem: str, emit: Callable[[str], str]) -> str:
        """The name of the function that `emit` gives the text of; it is told the name, and may add others.

        Names that begin with the function's own are its own too.
        """
        text = emit(_SELF)
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"{stem}_{len(self._names)}"
            self.texts.append(text.replace(f"@{_SELF}", f"@{name}"))
        return name

    def shared(self) -> list[str]:
        """The texts, where kernels that differ in numbers alone share their code.

        These are numbers of index arithmetic, as the sizes and strides of a network's layers: loops lose nothing when
        they are loaded before, but divide faster by what LLVM knows.
        """
        alike: dict[str, list[_Kernel]] = {}
        for text, name in self._names.items():
            kernel = _Kernel.of(name, text)
            alike.setdefault(kernel.form if kernel.numbers else text, []).append(kernel)
        return [text for kernels in alike.values() for text in _joined(kernels)]


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel's function: its name, its text, the text without the numbers that differ in others, and these."""

    name: str
    text: str
    form: str
    numbers: tuple[int, ...]

    @staticmethod
    def of(name: str, text: str) -> _Kernel:
        """The kernel of a text; without numbers unless it is worth being shared."""
        numbers: list[int] = []
        form = text
        if text.startswith(f"define void @{_SELF}({KERNEL_PARAMETERS})") and text.count("\n") > _FEW_LINES:

            def hole(number: int) -> str:
                numbers.append(number)
                return "#"

            form = _with_numbers(text, hole)
        return _Kernel(name, text, form, tuple(numbers))


def _with_numbers(text: str, replaced: Callable[[int], str]) -> str:
    """A kernel's text with other operands in place of its numbers; a loop divides by those that it did."""

    def operand(operand: str) -> str:
        is_number = operand.removeprefix("-").isdecimal() and int(operand) not in _ALIKE
        return replaced(int(operand)) if is_number else operand

    def line(found: re.Match[str]) -> str:
        is_kept = found[2] and found.start() > end
        return found[0] if is_kept else f"{found[1]}{operand(found[3])}, {operand(found[4])}"

    loops = _LOOPS.search(text)
    end = len(text) if loops is None else loops.start()
    return _SIZES.sub(line, text)


def _joined(kernels: Sequence[_Kernel]) -> Iterator[str]:
    """The functions of kernels of one form: if they are several, one for all, and for each a call with its numbers."""
    if len(kernels) == 1:
        yield kernels[0].text.replace(f"@{_SELF}", f"@{kernels[0].name}")
        return
    columns = list(zip(*[kernel.numbers for kernel in kernels], strict=True))
    differing = [column for column in dict.fromkeys(columns) if len(set(column)) > 1]
    following = iter(columns)

    def operand(number: int) -> str:
        column = next(following)
        return f"%n{differing.index(column)}" if column in differing else str(number)

    name = f"{kernels[0].name}_any"
    code = _with_numbers(kernels[0].text, operand).replace(f"@{_SELF}", f"@{name}")
    loads: list[str] = []
    for index in range(len(differing)):
        loads.append(f"  %n{index}_at = getelementptr i64, ptr %numbers, i64 {index}")
        loads.append(f"  %n{index} = load i64, ptr %n{index}_at, align 8")
    code = code.replace("\nstart:\n", "\n".join(["", "start:", *loads, ""]), 1)
    yield code.replace(KERNEL_PARAMETERS, f"{KERNEL_PARAMETERS}, ptr noalias readonly %numbers", 1)
    for index, kernel in enumerate(kernels):
        numbers = ", ".join([f"i64 {column[index]}" for column in differing])
        header = kernel.text.partition("\n")[0].replace(f"@{_SELF}", f"@{kernel.name}")
        yield f"""@{kernel.name}_numbers = private unnamed_addr constant [{len(differing)} x i64] [{numbers}], align 8
{header}
  tail call void @{name}(ptr %args, i64 %begin, i64 %end, ptr @{kernel.name}_numbers)
  ret void
}}
"""


def function_text(header: str, allocations: Sequence[str], lines: Sequence[str]) -> str:
    """The text of a function: its scratch memory, then a scope's lines, which begin in the block `start` and return."""
    return "\n".join([f"{header} {{", *allocations, "  br label %start", "start:", *lines, "}", ""])
