"""A page of threads or of rows lists each that a test is marked with, and each that it lists has its tests."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LINE = re.compile(r"^\| ([\w-]+#\d+|\d+\.\d+) \| (.+) \|(.*)\|$", re.MULTILINE)


def listed(page: str) -> dict[str, set[str]]:
    """The tests of each entry, by the table of a page."""
    lines = LINE.findall(page)
    found = {entry: set(re.findall(r"`(test_\w+)`", tests)) for entry, _, tests in lines}
    assert len(found) == len(lines), "an entry has two lines"
    return found


def marked(sources: list[str], marker: str) -> dict[str, set[str]]:
    """The tests of each entry, by the markers in the text of test modules."""
    found: dict[str, set[str]] = {}
    for tree in map(ast.parse, sources):
        for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
            for call in [item for item in function.decorator_list if isinstance(item, ast.Call)]:
                if ast.unparse(call.func) == f"pytest.mark.{marker}":
                    (entry,) = [ast.literal_eval(item) for item in call.args]
                    found.setdefault(entry, set()).add(function.name)
    return found


@pytest.mark.parametrize(
    ("marker", "page", "some"),
    [
        ("thread", "threads.md", {"pytorch#106067", "jax#23437", "array-api#834"}),
        ("row", "systems.md", {"1.8", "2.1", "11.9"}),
    ],
)
def test_pages_and_markers_are_the_same(marker, page, some):
    wanted = listed((ROOT / "docs" / page).read_text(encoding="utf-8"))
    found = marked([path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")], marker)
    assert some <= set(found)
    differing = [entry for entry in sorted(wanted | found) if wanted.get(entry) != found.get(entry)]
    assert not differing, f"docs/{page} and markers of tests differ about {differing}"


def test_lines_and_markers_are_read():
    source = '@pytest.mark.thread("jax#1")\n@pytest.mark.thread("jax#2")\ndef test_one():\n    pass\n'
    assert marked([source], "thread") == {"jax#1": {"test_one"}, "jax#2": {"test_one"}}
    assert marked(['@pytest.mark.row("2.1")\ndef test_one():\n    pass\n'], "row") == {"2.1": {"test_one"}}
    page = "| jax#1 | a | `test_one`, `test_two` |\n| 2.1 | b | |\n"
    assert listed(page) == {"jax#1": {"test_one", "test_two"}, "2.1": set()}
