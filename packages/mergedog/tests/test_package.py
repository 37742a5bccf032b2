"""Row 12.5: the package stands alone, its modules are short, and no line of it merges a pull request."""

import ast
import re
from pathlib import Path

import pytest

import mergedog
from mergedog import cli

SOURCE = Path(mergedog.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.row("12.5")
def test_it_imports_nothing_of_rushlight():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "rushlight" for name in names), path


@pytest.mark.row("12.5")
def test_modules_and_functions_are_short():
    for path in MODULES:
        text = path.read_text()
        assert text.count("\n") <= 350, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 50, (path, node.name)


@pytest.mark.row("12.1")
def test_nothing_asks_a_forge_to_merge():
    for path in MODULES:
        text = path.read_text()
        assert not re.search(r"/merges?\b|mergePullRequest|enablePullRequestAutoMerge", text), path


@pytest.mark.row("12.2")
def test_text_is_revealed_in_few_places():
    callers = {path.relative_to(SOURCE).as_posix() for path in MODULES if "reveal(" in path.read_text()}
    assert callers == {"untrusted.py", "sanitise.py", "prompt.py", "codec.py", "phases/prompts.py"}


@pytest.mark.row("12.5")
def test_servers_bind_to_this_machine_alone():
    for path in MODULES:
        for line in path.read_text().splitlines():
            assert "Server((" not in line or '"127.0.0.1"' in line, path


@pytest.mark.row("12.4")
def test_commands_of_the_readme_exist():
    readme = Path(__file__).parent.parent / "README.md"
    blocks = re.findall(r"```console\n(.*?)```", readme.read_text(), re.DOTALL)
    named = {word for block in blocks for word in re.findall(r"mergedog (\w+)", block)}
    commands = {command.name or command.callback.__name__ for command in cli.app.registered_commands}
    assert named and named <= commands
    scripts = {word for block in blocks for word in re.findall(r"tests/\w+\.py", block)}
    assert scripts == {"tests/interleavings.py"} and all((readme.parent / script).exists() for script in scripts)
