"""The registry of error codes: one entry per code, with its class, a title, an explanation and a remedy.

The entries are in tables by family: `codes_calls` (what a call got wrong), `codes_running` (gradients, memory, devices,
run time) and `codes_building` (compilation, cache, checkpoints, settings). `docs/errors.md` is generated from them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from rushlight.support.errors.classes import Report

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "S": "Shapes",
        "D": "Dtypes",
        "I": "Indexing",
        "A": "Arguments",
        "N": "Names",
        "G": "Gradients",
        "M": "Memory",
        "V": "Devices",
        "R": "Run time",
        "W": "Ranks",
        "E": "Embeddings",
        "L": "Tile language",
        "O": "ONNX",
        "C": "Compilation",
        "K": "Cache",
        "P": "Persistence",
        "T": "Settings",
        "X": "Internal",
    }
)


class Code:
    """One code's entry. `remedy` is the hint when the call that raises gives none."""

    __slots__ = ("code", "explanation", "remedy", "report", "title")

    def __init__(self, code: str, report: type[Report], title: str, explanation: str, remedy: str | None) -> None:
        self.code = code
        self.report = report
        self.title = title
        self.explanation = explanation
        self.remedy = remedy

    def __repr__(self) -> str:
        return f"Code({self.code!r}, {self.report.__name__}, {self.title!r})"


_codes: dict[str, Code] = {}
CODES: Mapping[str, Code] = MappingProxyType(_codes)


def register_code(code: str, report: type[Report], title: str, explanation: str, remedy: str | None = None) -> Code:
    """Add `code` (a family's letter and three digits) to the registry and return its entry.

    `title` is one line; `explanation` says in a sentence or two when it happens and why; `remedy` what to do.
    """
    if code[:1] not in FAMILIES or len(code) != 4 or not code[1:].isdigit():
        raise ValueError(f"error code {code!r} is not a family's letter and three digits")
    if code in _codes:
        raise ValueError(f"error code {code} is registered twice")
    return _codes.setdefault(code, Code(code, report, title, explanation, remedy))
