"""Scripts: what they hold, how they are written and read, and what they do when they are run."""

from __future__ import annotations

import ast
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.text import format_graph
from rushlight.ops.record import OPERATORS
from rushlight.repro.given import Drawn, Given
from rushlight.repro.running import outcome
from rushlight.support import settings
from rushlight.support.errors import error

_TEXT = '''"""A graph that Rushlight compiled: run this file to compile it again and to compare its results.

`rushlight shrink`, `rushlight bisect` and `rushlight diff` take it too.
"""

GRAPH = """
{graph}
"""

# dtype, sizes, strides in elements, then the elements (row-major, zlib, base85), or what they are drawn like:
# mean, standard deviation, least, most, seed
INPUTS = [
{inputs}]

# of outputs, then of inputs that the graph overwrites; an error's code where the call fails
DIGEST = {digest!r}

SETTINGS = {settings!r}
VERSIONS = {versions!r}

if __name__ == "__main__":
    from rushlight.repro import check

    raise SystemExit(check(__file__))
'''


class Script(NamedTuple):
    """What a script holds."""

    graph: str
    inputs: tuple[Given, ...]
    digest: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]

    @property
    def parsed(self) -> Graph:
        """The graph."""
        return parse_graph(self.graph, OPERATORS)

    def text(self) -> str:
        """The script."""
        inputs = "".join([f"    {tuple(_plain(given))!r},\n" for given in self.inputs])
        graph = self.graph.strip().replace("\\", "\\\\").replace('"""', r"\"\"\"")
        given = {"digest": self.digest, "settings": dict(self.settings), "versions": dict(self.versions)}
        return _TEXT.format(graph=graph, inputs=inputs, **given)


def _plain(given: Given) -> tuple[object, ...]:
    return (*given[:4], None if given.drawn is None else tuple(given.drawn))


def _given(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], data: str, drawn: Sequence[float] | None
) -> Given:
    if drawn is None:
        return Given(dtype, shape, strides, data)
    mean, deviation, low, high, seed = drawn
    return Given(dtype, shape, strides, data, Drawn(mean, deviation, low, high, int(seed)))


def script_of(graph: Graph, inputs: Sequence[Given], found: str) -> Script:
    """The script of a graph, with the settings in force."""
    now = settings.get()
    changed = {
        name: getattr(now, name)
        for name, row in settings.SETTINGS.items()
        if row.in_key and getattr(now, name) != row.default
    }
    return Script(format_graph(graph, facts=True), tuple(inputs), found, changed, versions())


def versions() -> dict[str, str]:
    """The versions that results may depend on, and the machine."""
    found = {name: version(name) for name in ("rushlight", "llvmlite", "numpy")}
    return {**found, "python": platform.python_version(), "machine": platform.machine()}


def read(path: Path) -> Script:
    """Read a script without running it. Errors: C009 for a file that is none."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            target.id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        inputs = [_given(*each) for each in named["INPUTS"]]
        return Script(named["GRAPH"], tuple(inputs), named["DIGEST"], named["SETTINGS"], named["VERSIONS"])
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, IndexError) as cause:
        raise error("C009", "repro: this is no script of a graph", file=str(path), cause=str(cause)) from cause


def check(path: str) -> int:
    """Compile and run the graph of a script, print whether results are as recorded, return a status."""
    script = read(Path(path))
    with settings.override(**dict(script.settings)):
        found = outcome(script.parsed, script.inputs)
    if found == script.digest:
        sys.stdout.write(f"as recorded: {found[:16]}\n")
        return 0
    sys.stdout.write(f"different: {found[:16]}, recorded was {script.digest[:16]}\n")
    for name, value in versions().items():
        if script.versions.get(name) != value:
            sys.stdout.write(f"  {name} {value}, recorded with {script.versions.get(name)}\n")
    return 1
