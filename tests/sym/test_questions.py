"""Engines ask about sizes by the questions that `sym` exports, and never for hints behind their back."""

import ast
from pathlib import Path

import rushlight.sym as sym

SOURCE = Path(sym.__file__).parent.parent
ENGINES = ("ops", "ir", "autodiff", "build", "schedule", "codegen", "eager", "capture")
PRIVATE = {"hint_or_none", "hints", "known", "facts_changed", "knowledge"}


def asked_privately(text):
    """(Line, name) of attributes of scopes and symbols that are no questions."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute):
            continue
        owner = ast.unparse(node.value)
        if (node.attr in PRIVATE and "scope" in owner) or (node.attr == "hint" and owner.endswith("facts")):
            found.append((node.lineno, f"{owner}.{node.attr}"))
    return found


def test_engines_ask_about_sizes_by_the_questions_alone():
    files = [path for floor in ENGINES for path in (SOURCE / floor).rglob("*.py")]
    assert len(files) > 100
    found = [(path.name, *item) for path in files for item in asked_privately(path.read_text(encoding="utf-8"))]
    assert not found


def test_a_hint_taken_behind_the_questions_is_found():
    assert asked_privately("if size.facts.hint == 1: pass") == [(1, "size.facts.hint")]
    assert asked_privately("x = scope.hint_or_none(size)") == [(1, "scope.hint_or_none")]
    assert not asked_privately("x = optimization_hint(size)")
