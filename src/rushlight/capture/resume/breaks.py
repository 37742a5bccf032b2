"""Where a graph ends before its function does."""

from __future__ import annotations


class Break(BaseException):
    """Ends a trace at the instruction that raises it. `clean` where the instruction has done nothing yet."""

    def __init__(self, reason: str, clean: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.clean = clean


class Retrace(BaseException):
    """Asks for the trace again, which is to end after so many instructions."""

    def __init__(self, limit: int, reason: str) -> None:
        super().__init__(limit, reason)
        self.limit = limit
        self.reason = reason
