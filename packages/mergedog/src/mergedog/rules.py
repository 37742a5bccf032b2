"""What a failed job's log says: a table of rules, of which the first that matches wins."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import cast

from mergedog.errors import PolicyError
from mergedog.untrusted import Untrusted

LINE_CHARACTERS = 2000
LINES = 20_000


class Cure(Enum):
    """What is done about a failure."""

    RERUN = "rerun"
    SPURIOUS = "spurious"
    FIX = "fix"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern of a log line, or conclusions of a job, and what they mean."""

    name: str
    cure: Cure
    reason: str
    pattern: re.Pattern[str] | None = None
    conclusions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The rule that won, and the last line that it matches."""

    rule: str
    cure: Cure
    reason: str
    line: Untrusted


UNKNOWN = Rule("unknown", Cure.FIX, "no rule knows this failure")


def rule_from(table: dict[str, object]) -> Rule:
    """Return the rule of a `[[rule]]` table."""
    name = str(table.get("name", "?"))
    unknown = set(table) - {"name", "pattern", "conclusions", "verdict", "reason"}
    if unknown or "verdict" not in table or not ({"pattern", "conclusions"} & set(table)):
        raise PolicyError(f"rule {name}: name, verdict, reason and a pattern or conclusions are wanted")
    try:
        cure = Cure(table["verdict"])
        pattern = re.compile(str(table["pattern"])) if "pattern" in table else None
    except (ValueError, re.error) as error:
        raise PolicyError(f"rule {name}: {error}") from None
    conclusions = tuple(cast("list[str]", table.get("conclusions", [])))
    return Rule(name, cure, str(table.get("reason", name)), pattern, conclusions)


def diagnose(rules: Iterable[Rule], conclusion: str, log: Untrusted) -> Diagnosis:
    """Return what the first matching rule says of a job.

    Lines are cut at 2,000 characters and only the last 20,000 are read, so that no log keeps a pattern busy for long.
    """
    lines = [line[:LINE_CHARACTERS] for line in log.lines()[-LINES:]]
    for rule in rules:
        if conclusion in rule.conclusions:
            return Diagnosis(rule.name, rule.cure, rule.reason, Untrusted("", "log"))
        pattern = rule.pattern
        if pattern is None:
            continue
        line = next((line for line in reversed(lines) if line.matches(pattern)), None)
        if line is not None:
            return Diagnosis(rule.name, rule.cure, rule.reason, line)
    return Diagnosis(UNKNOWN.name, UNKNOWN.cure, UNKNOWN.reason, lines[-1] if lines else Untrusted("", "log"))
