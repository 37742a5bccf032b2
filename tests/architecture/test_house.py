"""The house stands: import contracts, budgets, one door each to LLVM and to the environment, fresh generated files."""

import ast
import logging
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from rushlight.support.errors import CODES
from rushlight.support.settings import SETTINGS
from tools import budgets, generate, prose, unused

ROOT = Path(__file__).parent.parent.parent
FLOORS = "cli bench nn optim amp data export capture eager tune build autodiff schedule codegen runtime ops ir sym term"


@pytest.fixture(autouse=True)
def _loggers():
    """Import-linter sets up logging for itself, which silences the loggers that exist."""
    yield
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("rushlight") and isinstance(logger, logging.Logger):
            logger.disabled = False


def contract(text: str) -> str:
    """Return the part of pyproject.toml that lists the floors."""
    return text[text.index('id = "floors"') : text.index('id = "no-cycles"')]


def test_every_folder_of_tests_is_collected(pytestconfig: pytest.Config):
    folders = {name for path in (ROOT / "tests").rglob("test_*.py") for name in path.relative_to(ROOT).parts[:-1]}
    left_out = pytestconfig.getini("norecursedirs")
    assert not [name for name in folders if any(fnmatch(name, pattern) for pattern in left_out)]


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(ROOT)
    status = lint_imports(no_logo=True, no_cache=True)
    said = capsys.readouterr().out
    assert status == 0, said
    assert " 0 broken" in said
    floors = contract((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert all(re.search(rf"[\"(]{floor}[\")]", floors) for floor in [*FLOORS.split(), "support"])


def test_an_upward_import_breaks_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The same contracts on a package where `term` imports `ir` inside a function."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace('"rushlight', '"upward')
    (tmp_path / "pyproject.toml").write_text(text[text.index("[tool.importlinter]") :], encoding="utf-8")
    named = re.findall(r'"upward\.([\w.]+)"', text)  # what the contracts name has to exist
    for floor in ("support", "term", "ir", *named):
        folder = tmp_path / "upward" / floor.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for package in (folder, *folder.parents):
            if package.is_relative_to(tmp_path / "upward"):
                (package / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert lint_imports(no_logo=True, no_cache=True) == 0
    (tmp_path / "upward" / "term" / "__init__.py").write_text("def f():\n    import upward.ir\n")
    assert lint_imports(no_logo=True, no_cache=True) == 1


def _module(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> budgets.Module:
    monkeypatch.setattr(budgets, "ROOT", folder)
    path = folder / "src" / "rushlight" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return budgets.Module(path)


def test_budgets_hold():
    modules = [budgets.Module(path) for path in budgets.source_files()]
    found = budgets.findings(modules)
    assert not found, "\n".join([*found, budgets.summary(modules)])


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("x = 1\n" * 601, "file of 601 lines"),
        ("def f():\n" + "    x = 1\n" * 80, "function f of 81 lines"),
        ("class C:\n" + "    x = 1\n" * 250, "class C of 251 lines"),
        ("def f():\n    import os\n", "os is imported inside a function"),
        ("def f():\n    from rushlight.ir import graph\n", "rushlight.ir.graph is imported inside a function"),
        ("import importlib\nimportlib.import_module('llvmlite')\n", "dynamic import of llvmlite"),
        ("x = 1  # noqa: E501\n", "suppression without a reason"),
        ("import os\nx = os.environ['HOME']\n", "only rushlight.support.settings reads the environment"),
        ("for x in 'ab':\n    globals()[x] = 1\n", "globals() is written"),
    ],
)
def test_each_budget_can_be_broken(source: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = _module(tmp_path, "eager/helpers.py", source, monkeypatch)
    found = [message for rule in budgets.RULES for message in rule(module)]
    assert any(finding in message for message in found), found
    assert any("the module's name says nothing" in message for message in found)


def test_generated_files_are_fresh():
    texts = generate.outputs()
    assert {"docs/errors.md", "docs/settings.md"} <= set(texts)
    stale = [path for path, text in texts.items() if not generate.is_fresh(ROOT / path, text)]
    assert not stale, "run `make generate`"


def test_every_setting_and_code_is_documented():
    settings_page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert all(f"| `{setting.variable}` | " in settings_page for setting in SETTINGS.values())
    errors_page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert all(f"### {code}: {entry.title}\n" in errors_page for code, entry in CODES.items())


RAISING = {"fail", "error", "require", "warn", "fallback"}


def codes_raised(path: Path) -> set[str]:
    """Return the codes that calls of `fail`, `require` and their like name in a file."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    raising = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in RAISING]
    texts = [one.value for call in raising for one in call.args[:2] if isinstance(one, ast.Constant)]
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"[A-Z]\d{3}", text)}


def test_raised_codes_are_registered():
    raised = {code: path.name for path in (ROOT / "src").rglob("*.py") for code in codes_raised(path)}
    assert raised["T001"] == "settings.py"
    unknown = {code: where for code, where in raised.items() if code not in CODES}
    assert not unknown, f"register them in rushlight/support/codes_*.py: {unknown}"


def test_nothing_is_defined_that_nothing_uses():
    found = list(unused.unused([budgets.Module(path) for path in budgets.source_files()], unused.documents()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("def lonely():\n    pass\n", "lonely is used nowhere"),
        ("LONELY = 1\n", "LONELY is used nowhere"),
        ("class Pair:\n    def lonely(self):\n        pass\nPair()\n", "Pair.lonely is used nowhere"),
        ("def used():\n    pass\nused()\n", ""),
        ("__all__ = ['used']\ndef used():\n    pass\n", ""),
        ("@register\ndef used():\n    pass\n", ""),
    ],
)
def test_unused_definitions_are_found(source: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = _module(tmp_path, "module.py", source, monkeypatch)
    found = "\n".join(unused.unused([module], ["a page that names nothing"]))
    assert (finding in found) if finding else not found


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        (f'"""{"long " * 20}end."""\n', "the first sentence has 104 characters"),
        ('"""A sentence that goes on\nhere."""\n', "does not end on the first line"),
        ("def likeness():\n    pass\n", "likeness: say structural_key"),
        ("import rushlight.bands\n", "bands: say row_blocks"),
        (
            '"""Short. And then a second sentence that goes on for as long as a line may go on here."""\n',
            "",
        ),
    ],
)
def test_words_and_sentences_are_checked(source: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = "\n".join(prose.findings([_module(tmp_path, "module.py", source, monkeypatch)]))
    assert (finding in found) if finding else not found


def test_folders_of_many_modules_and_many_anys_are_over_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    modules = [_module(tmp_path, f"many/m{number}.py", "x: Any = 1\n", monkeypatch) for number in range(26)]
    found = "\n".join(budgets.totals(modules))
    assert "src/rushlight/many: 26 modules (budget 25)" in found
    assert "Any 1000.0 times in 1,000 lines" in found
