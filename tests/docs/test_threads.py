"""The page of threads lists each thread that a test is marked with, and each that it lists has its tests."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"^\| ([\w-]+#\d+) \| (.+) \|(.*)\|$", re.MULTILINE)


def listed(page: str) -> dict[str, set[str]]:
    """The tests of each thread, by the table of a page."""
    rows = ROW.findall(page)
    found = {thread: set(re.findall(r"`(test_\w+)`", tests)) for thread, _, tests in rows}
    assert len(found) == len(rows), "a thread has two rows"
    return found


def marked(sources: list[str]) -> dict[str, set[str]]:
    """The tests of each thread, by the markers in the text of test modules."""
    found: dict[str, set[str]] = {}
    for tree in map(ast.parse, sources):
        for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
            for call in [item for item in function.decorator_list if isinstance(item, ast.Call)]:
                if ast.unparse(call.func) == "pytest.mark.thread":
                    (thread,) = [ast.literal_eval(item) for item in call.args]
                    found.setdefault(thread, set()).add(function.name)
    return found


def test_threads_and_markers_are_the_same():
    page = (ROOT / "docs" / "threads.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    found, wanted = marked(sources), listed(page)
    assert {"pytorch#106067", "jax#23437", "array-api#834"} <= set(found)
    differing = [thread for thread in sorted(wanted | found) if wanted.get(thread) != found.get(thread)]
    assert not differing, f"rows of docs/threads.md and markers of tests differ about {differing}"


def test_rows_and_markers_are_read():
    source = '@pytest.mark.thread("jax#1")\n@pytest.mark.thread("jax#2")\ndef test_one():\n    pass\n'
    assert marked([source]) == {"jax#1": {"test_one"}, "jax#2": {"test_one"}}
    page = "| jax#1 | a | `test_one`, `test_two` |\n| jax#3 | b | |\n"
    assert listed(page) == {"jax#1": {"test_one", "test_two"}, "jax#3": set()}
