"""The pages for maintainers name files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "rushlight"
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "docs" / "glossary.md", *sorted((ROOT / "docs" / "compiler").glob("*.md"))]
MODULE = re.compile(r"`((?:\w+/)+\w+\.py)`")
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| (?P<files>[^|]+) \| (?P<names>[^|]+) \|$", re.M)


def defined(path: Path) -> set[str]:
    """Return the names that a module defines."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def rows() -> list[tuple[str, list[str], list[str]]]:
    """Return question, files and names of each row."""
    text = (ROOT / "docs" / "compiler" / "find-your-way.md").read_text(encoding="utf-8")
    return [
        (found["question"], re.findall(r"`(.+?)`", found["files"]), re.findall(r"`(.+?)`", found["names"]))
        for found in ROW.finditer(text)
    ]


@pytest.mark.parametrize(("question", "files", "names"), rows(), ids=lambda value: str(value)[:40])
def test_the_answer_to_a_question_exists(question: str, files: list[str], names: list[str]):
    assert len(files) == len(names) >= 1, question
    for file, name in zip(files, names, strict=True):
        assert name in defined(PACKAGE / file), f"{question} {file} defines no {name}"


def test_there_are_at_least_ten_questions():
    assert len(rows()) >= 10


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_modules_that_a_page_names_exist(page: Path):
    named = MODULE.findall(page.read_text(encoding="utf-8"))
    missing = [name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()]
    assert not missing, f"{page.name} names {missing}"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_of_a_page_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{page.name} links to {missing}"
