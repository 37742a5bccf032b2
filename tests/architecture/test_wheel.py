"""The wheel: one for all Pythons that are supported and all systems, whole, and it runs from where it is unpacked."""

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return Path(made)


@pytest.mark.row("9.7")
def test_the_wheel_is_for_all_systems_and_names_the_pythons_it_takes(wheel: Path):
    name, version, *tags = wheel.stem.split("-")
    assert (name, tags) == ("rushlight", ["py3", "none", "any"])
    with zipfile.ZipFile(wheel) as file:
        folder = f"{name}-{version}.dist-info"
        said = email.message_from_bytes(file.read(f"{folder}/METADATA"))
        tag = email.message_from_bytes(file.read(f"{folder}/WHEEL"))
        scripts = file.read(f"{folder}/entry_points.txt").decode()
        packed = {entry for entry in file.namelist() if not entry.startswith(folder)}
    assert said["Requires-Python"] == ">=3.11" and tag["Root-Is-Purelib"] == "true"
    versions = [one.rpartition(" ")[2] for one in said.get_all("Classifier") if "Python :: 3." in one]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert {"serve", "dist", "onnx"} <= set(
        said.get_all("Provides-Extra")
    ) and "rushlight = rushlight.cli:main" in scripts
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so")]
    assert len(files) > 500 and {path.relative_to(ROOT / "src").as_posix() for path in files} <= packed
    assert not [entry for entry in packed if not entry.startswith("rushlight/") or "__pycache__" in entry]


@pytest.mark.row("9.7")
def test_the_wheel_runs_from_where_it_is_unpacked(wheel: Path, tmp_path: Path):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    code = "import rushlight, runpy, sys; print(rushlight.__file__); sys.argv = ['rushlight', 'doctor']; "
    code += "runpy.run_module('rushlight', run_name='__main__')"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "site")) and "Everything works." in done.stdout
