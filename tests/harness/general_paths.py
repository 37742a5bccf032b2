"""Where Rushlight asks about sizes that nobody may know: the sites in the code, and which of them a run leaves open.

A site is a call of `guard_or_false`, `guard_or_true` or `required`. `watched()` notes those whose question has no
answer, so that the general path is taken, or the requirement asserted; `plain(site)` makes one site a plain guard.
"""

import ast
import contextlib
import functools
import sys
from pathlib import Path
from typing import NamedTuple

from rushlight.support.errors import error
from rushlight.sym import Scope
from rushlight.sym import required as _required
from rushlight.sym import scope as scope_module

SOURCE = Path(scope_module.__file__).parent.parent
QUESTIONS = ("guard_or_false", "guard_or_true", "required")
_ENGINE = {Path(scope_module.__file__).name, "required.py"}


class Site(NamedTuple):
    """A call in the code: file under src/rushlight, function, the text of what it asks, and whether it says why."""

    where: str
    function: str
    question: str
    explained: bool

    def __str__(self):
        return f"{self.where}: {self.function} asks {self.question}"


@functools.cache
def sites():
    """All sites by (file, first line, last line)."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        if where.startswith("sym/"):
            continue
        text = path.read_text(encoding="utf-8")
        if any(question in text for question in QUESTIONS):
            _Finder(where, found).visit(ast.parse(text))
    return found


class _Finder(ast.NodeVisitor):
    def __init__(self, where, found):
        self.where, self.found, self.function = where, found, ""

    def visit_FunctionDef(self, node):
        outer, self.function = self.function, node.name
        self.generic_visit(node)
        self.function = outer

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in QUESTIONS and node.args:
            text = f"{name}({ast.unparse(node.args[0])})"
            self.found[self.where, node.lineno, node.end_lineno] = Site(
                self.where, self.function, text, len(node.args) > 1
            )
        self.generic_visit(node)


def _asking(known):
    """The site whose call is being answered."""
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if SOURCE in path.parents and path.parent != SOURCE / "sym":
            where, line = path.relative_to(SOURCE).as_posix(), frame.f_lineno
            for (file, first, last), site in known.items():
                if file == where and first <= line <= last:
                    return site
            return None
        frame = frame.f_back
    return None


@contextlib.contextmanager
def _replaced(note):
    """Calls `note` when a question has no answer and when a requirement is asserted."""
    known = sites()
    ask, check = scope_module._guard_or, Scope.check

    def asked(condition, otherwise, reason):
        if not isinstance(condition, bool):
            scope = scope_module.scope_of(condition.expr)
            if scope is not None and scope.known(condition) is None and scope.hint_or_none(condition.expr) is None:
                note(_asking(known))
        return ask(condition, otherwise, reason)

    def checked(self, condition, message=""):
        if sys._getframe(1).f_code is _required.__code__:
            note(_asking(known))
        return check(self, condition, message)

    scope_module._guard_or, Scope.check = asked, checked
    try:
        yield
    finally:
        scope_module._guard_or, Scope.check = ask, check


@contextlib.contextmanager
def watched():
    """The sites that were left open so far, in a set that grows."""
    found = set()
    with _replaced(lambda site: site is None or found.add(site)):
        yield found


@contextlib.contextmanager
def plain(site):
    """As if the site asked `guard`: C002 where nobody knows."""

    def refuse(asking):
        if asking == site:
            raise error("C002", f"{site} is known only when the program runs")

    with _replaced(refuse):
        yield
