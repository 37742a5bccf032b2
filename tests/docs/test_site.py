"""The pages of the site: links lead somewhere, posts say what they are, the feed is Atom."""

import shutil
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.site import ATOM, NEWEST, ROOT, SiteError, feed, foreign, gathered, pages, posts

TOPICS = {"dispatcher", "dynamic shapes", "capture", "autograd", "lowering", "GEMM", "distributed", "export", "tuning"}
TOPICS |= {"recommender embeddings", "automation"}
HEAD = "---\ntitle: T\ndate: 2026-11-01\ntopics: a, b\nsummary: S.\n---\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree of documentation."""
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("# Page\n\n[docs](docs/a.md#second-part) [code](src/x.py)\n")
    for name, text in {
        "docs/a.md": "# A\n\n## Second part\n\n[up](../README.md), [post](../devlog/one.md), `[no](link.md)`\n",
        "devlog/one.md": HEAD + "# T\n\n[a](../docs/a.md) [there](https://example.org)\n",
        "src/x.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_link_of_the_documentation_leads_somewhere():
    found = gathered()
    assert {"index.md", "architecture.md", "errors.md", "devlog/index.md", "devlog/topics.md"} <= set(found)
    assert len(found) == len(pages()) + 3


def test_links_go_to_the_places_of_pages(tree: Path):
    found = gathered(tree)
    assert "[docs](a.md#second-part)" in found["index.md"] and "code (`src/x.py`)" in found["index.md"]
    assert "[up](index.md), [post](devlog/one.md), `[no](link.md)`" in found["a.md"]
    assert "[a](../a.md) [there](https://example.org)" in found["devlog/one.md"]


@pytest.mark.parametrize(
    ("page", "text", "why"),
    [
        ("docs/a.md", "## Second part\n\n[b](b.md)", "leads nowhere: b.md"),
        ("README.md", "[a](docs/a.md#third-part)", "no heading docs/a.md#third-part"),
        ("README.md", "[a](#nothing)", "no heading #nothing"),
        ("devlog/one.md", "# no front matter", "front matter between"),
        ("devlog/one.md", HEAD.replace("summary: S.\n", ""), "lacks summary"),
        ("devlog/one.md", HEAD.replace("2026-11-01", "yesterday"), "yesterday"),
    ],
)
def test_what_is_wrong_with_a_page_is_said(tree: Path, page: str, text: str, why: str):
    (tree / page).write_text(text)
    with pytest.raises(SiteError, match="(?i)" + why.replace(".", r"\.")):
        gathered(tree)


def test_the_devlog_has_front_index_topics_and_feed():
    entries = posts()
    assert not TOPICS - {topic for post in entries for topic in post.topics}
    assert len(entries) >= 10 and entries == sorted(entries, key=lambda post: (post.date, post.slug), reverse=True)
    found = gathered()
    for post in entries:
        assert post.date <= date.today() and 20 < len(post.summary) < 300
        assert (f"({post.slug}.md)" in found["devlog/index.md"]) is (post in entries[:NEWEST])
        assert all(f"## {topic}" in found["devlog/topics.md"] for topic in post.topics)
    root = ElementTree.fromstring(feed(entries))
    assert root.tag == f"{{{ATOM}}}feed"
    assert [child.findtext(f"{{{ATOM}}}title") for child in root.iter(f"{{{ATOM}}}entry")] == [
        post.title for post in entries
    ]
    for element in [root, *root.iter(f"{{{ATOM}}}entry")]:
        assert element.findtext(f"{{{ATOM}}}id") and element.findtext(f"{{{ATOM}}}updated").endswith("Z")
    assert feed(entries) == feed(entries)


def test_posts_have_a_decision_a_number_and_a_command():
    for post in posts():
        text = (ROOT / "devlog" / f"{post.slug}.md").read_text(encoding="utf-8")
        for part in ("**What was built.**", "**A decision.**", "**What went wrong.**", "**The number.**"):
            assert part in text, f"{post.slug} lacks {part}"
        assert "```python" in text or "```console" in text


def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text('<script src="/x.js"></script><a href="https://example.org">')
    assert not list(foreign(tmp_path))
    for bad in (
        '<script src="https://x/y.js">',
        '<link rel="stylesheet" href="//x/y.css">',
        "<img src=http://x/y.png>",
    ):
        (tmp_path / "a.html").write_text(bad)
        assert list(foreign(tmp_path)), bad
    shutil.rmtree(tmp_path)
