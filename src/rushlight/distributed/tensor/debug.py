"""What ranks tell each other, counted: PyTorch's `torch.distributed.tensor.debug`."""

from __future__ import annotations

import os
from collections import Counter
from types import TracebackType

from rushlight.distributed.engine.call import Call, Verb
from rushlight.distributed.group import WATCHERS
from rushlight.support import lazy

__all__ = ["CommDebugMode"]

# PyTorch's names of functional collectives; others are those of the verbs.
_NAMES = {
    Verb.ALL_GATHER: "all_gather_into_tensor",
    Verb.REDUCE_SCATTER: "reduce_scatter_tensor",
    Verb.ALL_TO_ALL: "all_to_all_single",
}


class CommDebugMode:
    """A scope that counts the collectives of this rank: those of divided tensors, of `torch.distributed`, and others.

    Counts are by names of functional collectives, whoever has called. Messages between two ranks are not counted. What
    is sent from where to where, in which module, `comm_report` tells.

    >>> with CommDebugMode() as comm:
    ...     model(x).sum().backward()
    >>> comm.get_comm_counts()
    {'all_reduce': 2}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lines: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> CommDebugMode:
        self._counts.clear()
        self._lines.clear()
        WATCHERS.known.append(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        WATCHERS.known.remove(self._note)

    def _note(self, call: Call) -> None:
        if not call.verb.is_message and call.verb is not Verb.BARRIER:
            name = _NAMES.get(call.verb, call.verb.value)
            self._counts[name] += 1
            self._lines[str(call.frame or "?"), name] += 1

    def get_total_counts(self) -> int:
        """Return how many collectives there were."""
        return self._counts.total()

    def get_comm_counts(self) -> Counter[str]:
        """Return how often each collective was called, by its name."""
        return Counter(self._counts)

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """Return a text of the counts; above level 0 also those of each line of the program."""
        rows = [f"{name}: {count}" for name, count in sorted(self._counts.items())]
        if noise_level > 0:
            rows += [f"  {line}\n    {name}: {count}" for (line, name), count in self._lines.most_common()]
        return "\n".join(rows)

    def log_comm_debug_tracing_table_to_file(self, file_name: str = "comm_mode_log.txt", noise_level: int = 3) -> None:
        """Write the text of the counts to a file."""
        with open(os.fspath(file_name), "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level) + "\n")

    def generate_json_dump(self, file_name: str = "comm_mode_log.json", noise_level: int = 3) -> None:
        """Write the counts, and those of each line, to a file of JSON."""
        lines = [{"line": line, "collective": name, "count": count} for (line, name), count in self._lines.items()]
        with open(os.fspath(file_name), "w", encoding="utf-8") as file:
            file.write(lazy.json.dumps({"counts": dict(self._counts), "lines": lines if noise_level > 0 else []}))

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
