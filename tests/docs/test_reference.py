"""Reference pages: every public name has an entry, entries say how a thing is called, and links lead to entries."""

import re
import subprocess
import sys
from types import ModuleType

import pytest

import rushlight as rl
from rushlight.ops.record import OPERATORS
from tools import reference
from tools.reference import ReferenceError, modules, unlisted
from tools.site import ROOT


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def entry(page: str, path: str) -> str:
    """The text of one name."""
    return page.partition(f"{{ #{path} }}\n")[2].split("\n### ", 1)[0]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A public module with one name."""
    module = ModuleType("rushlight.planted", "Planted.")
    module.__all__ = ["thing"]
    monkeypatch.setattr(rl, "planted", module, raising=False)
    monkeypatch.setattr(rl, "__all__", [*rl.__all__, "planted"])
    return module


def test_every_public_name_has_an_entry(pages: dict[str, str]):
    assert unlisted(pages) == []
    listed = [name for name in rl.__all__ if not isinstance(getattr(rl, name), ModuleType)]
    assert len(listed) > 600 and all(f"{{ #rushlight.{name} }}" in pages["reference/rushlight.md"] for name in listed)
    assert {"rushlight.nn.functional", "rushlight.recsys.planner", "rushlight.models", "rushlight.cuda"} <= set(
        modules()
    )
    assert not any(name.startswith(("rushlight.eager", "rushlight.compat", "rushlight.ir")) for name in modules())


def test_what_is_no_part_of_the_reference_is_not_imported():
    """The extra `docs` has no pytest, which plug-ins of it need."""
    script = "import sys; sys.modules['pytest'] = None\nfrom tools import reference\nprint(len(reference.modules()))"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and int(ended.stdout) > 50, ended.stderr


def test_a_name_without_an_entry_is_found(pages: dict[str, str], planted: ModuleType):
    planted.thing = lambda: None
    assert unlisted(pages) == ["rushlight.planted.thing"]
    page = "### `thing` { #rushlight.planted.thing }\n\n### `other` { #rushlight.planted.other }\n\nText.\n"
    assert unlisted(pages | {"reference/rushlight.planted.md": page}) == ["rushlight.planted.thing"]
    assert unlisted(pages | {"reference/rushlight.planted.md": page.replace("}\n", "}\n\nText.\n", 1)}) == []


def test_a_name_without_a_docstring_is_an_error(planted: ModuleType):
    planted.thing = lambda: None
    with pytest.raises(ReferenceError, match=r"rushlight\.planted\.thing has no docstring"):
        reference.pages()


def test_entries_say_how_things_are_called_and_computed(pages: dict[str, str]):
    add = entry(pages["reference/rushlight.md"], "rushlight.add")
    assert "add(input, other, *, alpha=None, out=None)" in add and "input + alpha \\* other." in add
    assert "(operators.md#operator.add): computed by loops, with a derivative of its own" in add
    linear = entry(pages["reference/rushlight.nn.md"], "rushlight.nn.Linear")
    assert "Linear(in_features, out_features, bias=True" in linear and "- `forward(input)`" in linear
    assert "state_dict" not in linear and "[`rushlight.nn.Module`](rushlight.nn.md#rushlight.nn.Module)" in linear
    assert "Tensor.add_(other, *, alpha=None)" in pages["reference/rushlight.Tensor.md"]
    assert "The same as [`rushlight.abs`]" in entry(pages["reference/rushlight.md"], "rushlight.absolute")
    assert "`None`." in entry(pages["reference/rushlight.md"], "rushlight.newaxis")


def test_every_operator_is_in_the_table(pages: dict[str, str]):
    missing = [name for name in OPERATORS if f"{{ #operator.{name} }}" not in pages["reference/operators.md"]]
    assert missing == []


def test_links_lead_to_entries(pages: dict[str, str]):
    links = {
        (place, target, anchor)
        for place, text in pages.items()
        for target, anchor in re.findall(r"\]\(([\w.]+\.md)(?:#([\w.]+))?\)", text)
    }
    broken = [
        link
        for link in links
        if (page := pages.get(f"reference/{link[1]}")) is None or (link[2] and f"{{ #{link[2]} }}" not in page)
    ]
    assert len(links) > 500 and broken == []


def test_what_is_no_code_is_no_markup(pages: dict[str, str]):
    for text in pages.values():
        prose = re.sub(r"```.*?^```$|^    .*$|`[^`\n]*`", "", text, flags=re.S | re.M)
        assert not re.search(r"(?<!\\)<\w", prose)


def test_no_page_holds_an_address(pages: dict[str, str]):
    assert not [line for page in pages.values() for line in page.splitlines() if re.search(r"0x[0-9a-f]{6}", line)]
