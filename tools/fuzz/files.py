"""Mutated files: weights in five formats, programs, the tuner's records, entries of the object cache, settings.

What is read of one is what it holds, a registered error, or a warning. The child's memory is bounded, and where it
reads weights, so is what each file may take; what Python executes then is a finding (`tools/fuzz/reading_weights.py`).
"""

from __future__ import annotations

import random
from collections import Counter

from rushlight.support.frozen import frozen
from tools.fuzz.child import Child
from tools.fuzz.finding import Finding

WEIGHTS = ("archive", "safetensors", "arrays", "folder", "pickle")
KINDS = (*WEIGHTS, "export", "records", "cache", "settings")


@frozen(eq=False)
class Mutant:
    """How one file is changed: `changes` are drawn again by the child from the seed and number."""

    seed: int
    number: int
    kind: str

    def script(self) -> str:
        """How to make the file and read it."""
        question = {"seed": self.seed, "number": self.number, "kind": self.kind}
        return f"from tools.fuzz.reading import answer\n\nprint(answer({question}))"


def generate(seed: int, number: int) -> Mutant:
    """The mutant of a seed and number: the kinds take turns."""
    return Mutant(seed, number, KINDS[number % len(KINDS)])


_child = Child("tools.fuzz.reading")


def close() -> None:
    """Ends the process that reads; the next question starts another."""
    _child.close()


def judge(mutant: Mutant, skipped: Counter[str]) -> Finding | None:
    """What is wrong with how a mutant is read."""
    outcome = _child.ask({"seed": mutant.seed, "number": mutant.number, "kind": mutant.kind})
    if outcome["kind"] in ("value", "coded"):
        skipped[f"{mutant.kind}: {outcome['kind']}"] += 1
        return None
    return Finding(f"{mutant.kind}: {outcome['kind']}", mutant, outcome["detail"])


WORDS = (
    *(
        b"1e999",
        b"-1",
        b"0",
        b"99999999999999999999",
        b"null",
        b"true",
        b"NaN",
        b"x",
        b"",
        b'"',
        b"[",
        b"{",
        b"]",
        b"}",
    ),
    *(b"(", b")", b" ", b"\x00", b"\xff", b"%0", b"%9", b"s0", b"f32", b"i64", b"add", b"matmul", b"size", b"given"),
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Some bytes with one to three changes: a word, a cut, a repetition, a flipped byte, two parts exchanged."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        at, end = sorted([draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)])
        end = min(end, at + draw.choice((1, 3, 8, 40)))
        kind = draw.randrange(6)
        if kind == 0:
            data = data[:at] + draw.choice(WORDS) + data[end:]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:end] + data[at:]
        elif kind == 3 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        elif kind == 4:
            data = data[:at]
        else:
            data = data[:at] + draw.choice(WORDS) + data[at:]
    return data
