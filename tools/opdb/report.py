"""What the check found, as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COLUMNS = ("agree", "deviation", "value", "shape", "dtype", "raw", "refused", "accepted")
WRONG = ("value", "shape", "dtype", "kind", "raw", "accepted")


def read(path: Path) -> dict[str, Any]:
    """The results of an operator."""
    return json.loads(path.read_text(encoding="utf-8"))


def totals(results: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Counts by part, of each category."""
    found: dict[str, Counter[str]] = {}
    for result in results:
        for counts in result["dtypes"].values():
            for key, count in counts.items():
                part, category = key.split("/", 1)
                category = category.split(" ", 1)[0]
                found.setdefault(part, Counter())["dtype" if category == "kind" else category] += count
    return found


def table(results: list[dict[str, Any]]) -> str:
    """A Markdown table: a row for each part, a column for each category."""
    rows = [f"| part | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for part, counts in totals(results).items():
        rows.append(f"| {part} | {' | '.join(f'{counts[column]:,}' for column in COLUMNS)} |")
    asked = sum(not result.get("missing") for result in results)
    head = f"{asked} entries of PyTorch's operator database exist here, {len(results) - asked} do not."
    return "\n".join([head, "", *rows])


def wrong(results: list[dict[str, Any]], every: bool = False) -> Iterator[str]:
    """A line for each kept failure that is no registered error, nor agreement to refuse."""
    for result in results:
        for failure in result["failures"]:
            if every or failure["category"] in WRONG:
                yield (
                    f"{result['operator']} {failure['dtype']} #{failure['sample']} {failure['part']} "
                    f"{failure['category']}: {failure['detail']}\n    ({failure['call']})"
                )
