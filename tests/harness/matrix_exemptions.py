"""Cells of the matrix that may fail, each with its reason. A row whose cells all pass has to be deleted."""

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class Exemption:
    """Patterns of operator, question and case, and why their cells may fail."""

    op: str
    question: str
    case: str
    reason: str

    def covers(self, question, case) -> bool:
        return (
            fnmatch.fnmatchcase(case.op, self.op)
            and fnmatch.fnmatchcase(question, self.question)
            and fnmatch.fnmatchcase(str(case), self.case)
        )


EXEMPTIONS: tuple[Exemption, ...] = ()


def exemption_for(question: str, case) -> Exemption | None:
    """The row that covers a cell, if one does."""
    return next((row for row in EXEMPTIONS if row.covers(question, case)), None)
