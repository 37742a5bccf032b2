"""RUSHLIGHT_DUMP and RUSHLIGHT_EDIT: the stages of a compilation as files, one folder per graph.

A dumped folder holds every stage. To change one, copy its file alone to the same place under the folder of edits: the
next compilation of that graph goes on from there. Stages that lie there are taken over even when an earlier one is too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rushlight.ir.graph import Graph
from rushlight.ir.text import format_graph
from rushlight.support import settings
from rushlight.support.errors import error
from rushlight.term import structural_digest


class Stages:
    """Where the stages of one graph are written to and read from, if anywhere."""

    def __init__(self, dumped: Path | None, edits: Path | None) -> None:
        self._dumped = dumped
        self._edits = edits

    @property
    def any_edited(self) -> bool:
        """Whether a stage of this graph was edited, so that no cache knows the result."""
        return self._edits is not None

    @property
    def lacking(self) -> bool:
        """Whether the stages must be dumped and are not yet: code from a cache has no stages."""
        return self._dumped is not None and not self._dumped.exists()

    def edited(self, name: str) -> str | None:
        """The text that a stage was given by hand. Errors: C009 where it cannot be read."""
        path = None if self._edits is None else self._edits / name
        if path is None or not path.is_file():
            return None
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as cause:
            raise error("C009", "edit: the stage cannot be read", file=str(path)) from cause

    def dump(self, name: str, text: Callable[[], str]) -> None:
        """Writes a stage where that was asked for."""
        if self._dumped is not None:
            self._dumped.mkdir(parents=True, exist_ok=True)
            (self._dumped / name).write_text(text(), encoding="utf-8")


NO_STAGES = Stages(None, None)


def stages_of(graph: Graph) -> Stages:
    """The stages of a graph by the settings in force; folders are named by a digest of its text."""
    wanted = settings.get()
    if not wanted.dump and not wanted.edit:
        return NO_STAGES
    name = structural_digest([format_graph(graph)])[:12]
    edits = Path(wanted.edit) / name if wanted.edit else None
    return Stages(
        Path(wanted.dump) / name if wanted.dump else None, edits if edits is not None and edits.is_dir() else None
    )
