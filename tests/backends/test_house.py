"""No module outside a device names one, and devices that are installed cost a program nothing until it asks for one."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import plugins
import rushlight as rl

ROOT = Path(__file__).parents[2]
NAMES = sorted([folder.name for folder in (ROOT / "examples").iterdir() if (folder / "pyproject.toml").exists()])


def named(tree: ast.AST) -> list[str]:
    """The texts in code, docstrings aside, that are the name of a device, or begin with one and a number."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in texts if id(node) not in documented and node.value.partition(":")[0] in NAMES]


@pytest.mark.row("1.7")
def test_no_module_outside_a_device_names_one():
    assert NAMES == ["flint", "mica"]
    found = {
        str(path.relative_to(ROOT)): texts
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (texts := named(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert not found
    assert named(ast.parse("x.to('mica:0')")) == ["mica:0"]
    assert not named(ast.parse('"""mica"""'))


def test_the_example_is_short():
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "examples" / "mica").rglob("*.py")]
    assert 0 < sum(lines) < 600


def run(program: str, paths: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *sys.path])}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.row("1.10")
def test_an_import_looks_for_no_device(tmp_path: Path):
    paths = [path for name in NAMES for path in plugins.install(tmp_path / name, plugins.EXAMPLES / name)]
    loaded = (
        "import sys, rushlight as rl; rl.ones(3).sum(); rl.ones(2, device='meta')\n"
        "print(sorted({'importlib.metadata', 'mica', 'flint'} & set(sys.modules)))\n"
        "x = rl.ones(3, device='mica'); print(x.device, 'flint' in sys.modules)"
    )
    assert run(loaded, paths).splitlines() == ["[]", "mica:0 False"]


@pytest.mark.usefixtures("devices")
def test_a_device_that_is_gone_leaves_no_trace():
    assert rl.backends.installed() == ("flint", "mica")
    rl.ones(3, device="mica").add_(1)
    for name in NAMES:
        rl.backends.unregister(name)
    sys.path[:] = [path for path in sys.path if "site" not in Path(path).parts or "site-packages" in path]
    assert not {"mica", "flint"} & set(rl.backends.installed())
    with pytest.raises(rl.DeviceError) as caught:
        rl.ones(3, device="mica")
    assert caught.value.hint == "devices: cpu, meta"
