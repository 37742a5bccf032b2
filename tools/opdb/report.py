"""What the check found: a summary that can be kept, its tables, and the failures."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.json")
"""The summary that `docs/coverage.md` shows."""

COLUMNS = ("agree", "deviation", "missing", "refused", "value", "shape", "dtype", "raw", "accepted")
WRONG = ("value", "shape", "dtype", "kind", "raw", "accepted")
ABSENT = ("arguments that are missing", "complex operators", "dtypes that are missing")
"""Deviations of what is not written yet, which are counted as `missing`."""

PARTS = (
    "forward",
    "gradient",
    "method",
    "inplace",
    "inplace refused",
    "compiled",
    "out",
    "out refused",
    "error inputs",
    "process",
)
ERRORS = "error inputs"


def read(path: Path) -> dict[str, Any]:
    """The results of an operator."""
    return json.loads(path.read_text(encoding="utf-8"))


def summary_of(results: list[dict[str, Any]], command: str) -> dict[str, Any]:
    """Counts by part, by dtype and by entry, of each category; entries without a function here; deviations by name."""
    parts: dict[str, Counter[str]] = {}
    dtypes: dict[str, Counter[str]] = {}
    differing: dict[str, Counter[str]] = {}
    deviations = Counter[str]()
    for result in results:
        for dtype, part, category, rule, count in _counts(result):
            parts.setdefault(part, Counter())[category] += count
            if part not in (ERRORS, "process"):
                dtypes.setdefault(dtype, Counter())[category] += count
            if category not in ("agree", "deviation"):
                differing.setdefault(result["operator"], Counter())[f"{part}, {category}"] += count
            if category == "deviation":
                deviations[rule] += count
    return {
        "command": command,
        "asked": dict(sorted(Counter([one["asked"] for one in results if "asked" in one]).items())),
        "here": sum(not result.get("missing") for result in results),
        "internal": [one["operator"] for one in results if one.get("missing") == "internal"],
        "missing": [one["operator"] for one in results if one.get("missing") == "public"],
        "parts": {part: dict(sorted(parts[part].items())) for part in PARTS if part in parts},
        "dtypes": {dtype: dict(sorted(counts.items())) for dtype, counts in dtypes.items()},
        "differing": {name: dict(sorted(counts.items())) for name, counts in sorted(differing.items())},
        "deviations": dict(sorted(deviations.items())),
    }


def _counts(result: dict[str, Any]) -> Iterator[tuple[str, str, str, str, int]]:
    """Each (dtype, part, category, name of a deviation, count) of what both libraries could answer."""
    for dtype, counts in result["dtypes"].items():
        for key, count in counts.items():
            part, category = key.split("/", 1)
            category, _, rule = category.partition(" ")
            if rule.endswith("by PyTorch"):
                continue
            if category == "deviation" and rule in ABSENT:
                category = "missing"
            yield dtype, part, "dtype" if category == "kind" else category, rule, count


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """The summary as Markdown."""
    exists, missing, internal = summary["here"], summary["missing"], summary["internal"]
    share = 100 * exists / max(1, exists + len(missing))
    yield f"`{summary['command']}`: of {exists + len(missing)} entries {exists} exist here ({share:.1f} %)."
    yield f"{len(internal)} more are internal: PyTorch documents nothing of these names."
    portions = [f"{asked} ({count} entries)" for asked, count in summary["asked"].items()]
    yield from textwrap.wrap(f"At most so many samples of a dtype: {'; '.join(portions)}.", 119)
    yield ""
    yield from _table("part", summary["parts"])
    yield ""
    yield from _table("dtype", summary["dtypes"])
    yield ""
    deviations = [f"{name} ({count:,})" for name, count in summary["deviations"].items()]
    yield from _listed("Missing", [f"`{name}`" for name in missing])
    yield from _listed("Deviations", deviations)
    yield from _listed("Wrong", [_differing(*pair) for pair in summary["differing"].items() if _is_wrong(pair[1])])


def _table(first: str, rows: dict[str, dict[str, int]]) -> Iterator[str]:
    """A row for each key, a column for each category, and how many agree or deviate on purpose."""
    yield f"| {first} | {' | '.join(COLUMNS)} | agree, or deviate |"
    yield f"|---|{'---:|' * (len(COLUMNS) + 1)}"
    for name, counts in rows.items():
        good = 100 * (counts.get("agree", 0) + counts.get("deviation", 0)) / max(1, sum(counts.values()))
        yield f"| {name} | {' | '.join(f'{counts.get(column, 0):,}' for column in COLUMNS)} | {good:.2f} % |"


def _is_wrong(counts: dict[str, int]) -> bool:
    return any(key.rpartition(", ")[2] in WRONG for key in counts)


def _differing(name: str, counts: dict[str, int]) -> str:
    return f"`{name}` ({'; '.join([f'{key} {count}' for key, count in counts.items() if _is_wrong({key: count})])})"


def _listed(title: str, entries: list[str]) -> Iterator[str]:
    if entries:
        text = f"{title}: {', '.join(entries)}."
        yield from textwrap.wrap(text, 119, break_long_words=False, break_on_hyphens=False)
        yield ""


def wrong(results: list[dict[str, Any]], every: bool = False) -> Iterator[str]:
    """A line for each kept failure that is no registered error, nor agreement to refuse."""
    for result in results:
        for failure in result["failures"]:
            if every or failure["category"] in WRONG:
                yield (
                    f"{result['operator']} {failure['dtype']} #{failure['sample']} {failure['part']} "
                    f"{failure['category']}: {failure['detail']}\n    ({failure['call']})"
                )
