"""The code in the documentation runs, in the order of the page, and prints what the page says."""

import re
from pathlib import Path

import pytest

import rushlight as rl
from opcheck import check_all_gradients, check_rules
from rushlight.ops.record import OPERATORS, undefine
from rushlight.support import settings

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """Return language, text and line of the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in BLOCK.finditer(text)]


PAGES = [
    path
    for path in (
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "devlog").glob("*.md")),
    )
    if any(language == "python" for language, _, _ in blocks(path))
]


# Pages whose code needs a library that the base installation leaves out.
EXTRAS = {"onnx.md": "onnx", "recsys-serving.md": "uvicorn"}


@pytest.fixture
def fresh():
    """Operators and graphs as before."""
    known = set(OPERATORS)
    rl.compiler.reset()
    yield
    for name in set(OPERATORS) - known:
        undefine(name)


@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_the_code_of_a_page_runs(path: Path, fresh: None, capsys: pytest.CaptureFixture[str]):
    if path.name in EXTRAS:
        pytest.importorskip(EXTRAS[path.name], reason=f"the library of {path.name} is not installed")
    space = {"__name__": path.stem}
    printed = ""
    for language, text, line in blocks(path):
        if language == "python":
            # Lines of errors, and lines that the program itself sees, are the page's.
            exec(compile("\n" * line + text, str(path), "exec"), space)
            printed += capsys.readouterr().out
        elif language == "text":
            assert printed == text, f"{path.name}:{line} says otherwise"
            printed = ""
    assert not printed, "the page does not show what this prints"


def test_the_pages_with_code_are_found():
    assert {"README.md", "ARCHITECTURE.md", "adding-an-operator.md"} <= {path.name for path in PAGES}


def test_the_worked_example_passes_what_operators_have_to_pass(fresh: None):
    space = {}
    for language, text, _ in blocks(ROOT / "docs" / "adding-an-operator.md"):
        if language == "python":
            exec(text, space)
    check_rules("energy")
    check_all_gradients("energy")


@pytest.mark.parametrize("stage", ["00-captured.ir", "04-folded.ir", "05-fused.ir", "07-tiled.ir"])
def test_the_stages_that_architecture_shows_are_those_of_its_example(stage: str, tmp_path: Path):
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (example,) = [text for language, text, _ in blocks(ROOT / "ARCHITECTURE.md") if language == "python"]
    with settings.override(dump=str(tmp_path)):
        rl.compiler.reset()
        exec(example, {})
    (folder,) = [path.parent for path in tmp_path.glob("*/00-captured.ir") if path.read_text().startswith("step(")]
    lines = (folder / stage).read_text().splitlines()
    shown = [
        line for line in lines if not line.startswith(("# ", "gemm GemmTile", "from ("))
    ]  # tiles are this machine's
    assert "\n".join(shown).strip() in page
