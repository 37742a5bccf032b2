"""No module outside a device names one, and devices that are installed cost a program nothing until it asks for one."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import plugins
import rushlight as rl
from rushlight.cli.app import app

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
@pytest.mark.row("1.9")
def test_no_module_outside_a_device_names_one():
    assert NAMES == ["flint", "mica", "simt"]
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


@pytest.mark.row("1.10")
def test_an_import_is_not_slower_where_devices_are_installed(tmp_path: Path):
    """It makes the calls that it makes without them, and no more than a hundredth on top: some ms."""
    new = CliRunner().invoke(app, ["device", "new", "slate", "--into", str(tmp_path)])
    assert new.exit_code == 0
    folders = [*[plugins.EXAMPLES / name for name in NAMES], tmp_path / "rushlight-slate"]
    paths = list(dict.fromkeys([path for folder in folders for path in plugins.install(tmp_path / "site", folder)]))
    counted = (
        "import sys; count = [0]; sys.path += {}\n"
        "def called(frame, event, what): count[0] += event in ('call', 'c_call')\n"
        "sys.setprofile(called); import rushlight as rl; sys.setprofile(None); print(count[0])\n"
        "print(*[name for name in rl.backends.installed() if name in ('flint', 'mica', 'simt', 'slate')])"
    )
    (without, nothing), (beside, names) = (run(counted.format(more), []).splitlines() for more in ([], paths))
    assert int(without) <= int(beside) < int(without) * 1.01
    assert (nothing, names) == ("", "flint mica simt slate")


def test_a_new_device_passes_the_first_tier(tmp_path: Path):
    """What `rushlight device new` writes, as it is; and its kernel runs."""
    new = CliRunner().invoke(app, ["device", "new", "slate", "--into", str(tmp_path)])
    assert new.exit_code == 0
    package = tmp_path / "rushlight-slate"
    paths = plugins.install(tmp_path / "site", package)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *sys.path])}
    asked = ["-m", "pytest", "-p", "rushlight.testing.device", "-p", "no:cacheprovider", "-q", "--device", "slate"]
    made = subprocess.run(
        [sys.executable, *asked, "--tier", "memory"], cwd=package, env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert " passed" in made.stdout
    used = "import rushlight as rl\nwith rl.strict(): print((-rl.ones(2).to('slate')).tolist())"
    assert run(used, paths).strip() == "[-1.0, -1.0]"


@pytest.mark.parametrize("name", ["cpu", "Slate", "a-b", "class"])
def test_a_new_device_needs_a_name_of_its_own(tmp_path: Path, name: str):
    with pytest.raises(rl.RushlightError) as caught:
        CliRunner().invoke(app, ["device", "new", name, "--into", str(tmp_path)], catch_exceptions=False)
    assert caught.value.code == "A002"
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("devices")
def test_devices_are_listed_with_what_computes_on_them():
    rows = CliRunner().invoke(app, ["device", "list"]).output
    for name, ways in (("cpu", "its code generator"), ("flint", "10 kernels"), ("mica", "its code generator")):
        assert any(name in line and ways in line and "works" in line for line in rows.splitlines())


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


@pytest.mark.row("1.10")
def test_the_doctor_names_the_kernels_that_a_device_lacks(tmp_path: Path):
    new = CliRunner().invoke(app, ["device", "new", "slate", "--into", str(tmp_path)])
    assert new.exit_code == 0
    folders = [plugins.EXAMPLES / "mica", tmp_path / "rushlight-slate"]
    paths = [path for folder in folders for path in plugins.install(tmp_path / "site" / folder.name, folder)]
    asked = (
        "import rushlight as rl; from rushlight.cli import checks\n"
        "from rushlight.eager.execution.device import without_kernel\n"
        "print(checks.CHECKS['devices']().text)\n"
        "slate, mica = rl.backends.get('slate'), rl.backends.get('mica')\n"
        "print(*without_kernel(slate)); print(*without_kernel(mica))\n"
        "del slate.kernels['neg']; print('neg' in without_kernel(slate))"
    )
    text, slate, mica, planted = run(asked, paths).splitlines()
    lacks = slate.split()
    assert "add" in lacks and not {"neg", "transpose", "softmax"} & set(lacks)
    assert f"slate ({len(lacks)} operators without a kernel" in text
    assert "rushlight ops coverage --device slate --missing" in text
    assert "add" not in mica.split() and set(mica.split()) < set(lacks)
    assert planted == "True"
