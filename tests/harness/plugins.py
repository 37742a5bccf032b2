"""Packages of devices, as an installer leaves them: what `importlib.metadata` reads, and where their modules are."""

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rushlight as rl

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(folder: Path, package: Path) -> list[str]:
    """Write the metadata of a package to a folder; what belongs on sys.path."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(text, encoding="utf-8")
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join([f"{name} = {value}\n" for name, value in rows.items()]) for group, rows in groups
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return [str(folder), str(package / "src")]


@contextmanager
def installed(folder: Path, *packages: Path) -> Iterator[None]:
    """Packages of devices for a while; afterwards nothing of them is left."""
    before, modules = list(sys.path), set(sys.modules)
    for package in packages:
        sys.path[:0] = install(folder / package.name, package)
    try:
        yield
    finally:
        sys.path[:] = before
        for name in {package.name for package in packages}:
            rl.backends.unregister(name)
            for module in [module for module in sys.modules if module.partition(".")[0] == name]:
                if module not in modules:
                    del sys.modules[module]
        rl.backends.reset_fallbacks()
