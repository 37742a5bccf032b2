"""The documentation as a site: `python -m tools.site [--out build/site]`.

It gathers README, ARCHITECTURE, CONTRIBUTING, `docs` and `devlog` into one folder, turns links between them into
links between pages, adds the reference (`tools/reference.py`), the DevLog's index, its topics and an Atom feed, and has
mkdocs-material build the site (`pip install -e '.[docs]'`). Nothing is loaded from elsewhere, neither here nor by a
reader's browser. `--check` does all but the build. `--browse` looks at the built site with a headless Chromium. A link
that leads nowhere, a public name without an entry, or a post without its front matter, ends it with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from xml.etree import ElementTree

from tools import reference
from tools.browser import Browser, BrowserError, serving

ROOT = Path(__file__).resolve().parent.parent
NEWEST = 10
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]+`", re.M | re.S)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.M)
FRONT_MATTER = re.compile(r"\A---\n(.*?)^---\n", re.S | re.M)
RESULT = ".md-search-result__item"
CODE_BLOCK = ".highlight pre code"
LOOKED_AT = {
    "compiler/micro-kernel/": CODE_BLOCK,
    "reference/rushlight.nn/#rushlight.nn.Linear": "h3[id='rushlight.nn.Linear']",
}
TYPED = """(() => {
    document.querySelector('[data-md-toggle=search]').click();
    const field = document.querySelector('input.md-search__input');
    field.focus();
    field.value = '%(text)s';
    for (const kind of ['input', 'keyup']) field.dispatchEvent(new Event(kind, {bubbles: true}));
})()"""
ATOM = "http://www.w3.org/2005/Atom"


@dataclass(frozen=True)
class Post:
    """A post of the DevLog: the front matter of its page."""

    slug: str
    title: str
    date: date
    topics: tuple[str, ...]
    summary: str


class SiteError(Exception):
    """What is wrong with pages: links that lead nowhere, front matter that is missing."""


def pages(root: Path = ROOT) -> dict[str, str]:
    """Return the place in the site of each page, by its path in the tree."""
    found = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md"}
    found |= {f"docs/{path}": path for path in _markdown(root / "docs")}
    return found | {f"devlog/{path}": f"devlog/{path}" for path in _markdown(root / "devlog")}


def _markdown(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


def posts(root: Path = ROOT) -> list[Post]:
    """Return the posts of the DevLog, newest first."""
    found = [_post(path) for path in sorted((root / "devlog").glob("*.md"))]
    return sorted(found, key=lambda post: (post.date, post.slug), reverse=True)


def _post(path: Path) -> Post:
    matter = FRONT_MATTER.match(path.read_text(encoding="utf-8"))
    if matter is None:
        raise SiteError(f"devlog/{path.name}: a post begins with front matter between two lines of ---")
    fields = dict(line.split(": ", 1) for line in matter[1].splitlines() if ": " in line)
    missing = [name for name in ("title", "date", "topics", "summary") if not fields.get(name, "").strip()]
    if missing:
        raise SiteError(f"devlog/{path.name}: the front matter lacks {', '.join(missing)}")
    try:
        day = date.fromisoformat(fields["date"].strip())
    except ValueError as problem:
        raise SiteError(f"devlog/{path.name}: {problem}") from problem
    topics = tuple(topic.strip() for topic in fields["topics"].split(","))
    return Post(path.stem, fields["title"].strip(), day, topics, fields["summary"].strip())


def gathered(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each page of the site, by its place."""
    places = pages(root)
    found = {place: _linked(root, path, place, places) for path, place in places.items()}
    entries = posts(root)
    return found | {
        "devlog/index.md": _index(entries),
        "devlog/topics.md": _topics(entries),
        "devlog/feed.xml": feed(entries),
    }


def _linked(root: Path, path: str, place: str, places: Mapping[str, str]) -> str:
    """The text of a page with links to other pages at their places; links to other files become their names."""
    text = (root / path).read_text(encoding="utf-8")
    code = [found.span() for found in CODE.finditer(text)]

    def replaced(link: re.Match[str]) -> str:
        label, target = link[1], link[2]
        if re.match(r"[a-z]+:", target) or any(start <= link.start() < end for start, end in code):
            return link[0]
        name, mark, fragment = target.partition("#")
        wanted = normpath(join(dirname(path), name)) if name else path
        if not (root / wanted).exists():
            raise SiteError(f"{path}: a link leads nowhere: {target}")
        if wanted not in places:
            return f"{label} (`{wanted}`)"
        if mark and fragment not in _anchors((root / wanted).read_text(encoding="utf-8")):
            raise SiteError(f"{path}: there is no heading {target}")
        return f"[{label}]({relpath(places[wanted], dirname(place) or '.')}{mark}{fragment})"

    return LINK.sub(replaced, text)


def _anchors(text: str) -> set[str]:
    """The names of the headings of a page, as mkdocs and forges make them."""
    plain = re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.M | re.S)
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in HEADING.findall(plain)
    }


def _index(entries: Sequence[Post]) -> str:
    lines = [
        "# DevLog",
        "",
        "What was built, why so, and what went wrong. [By topic](topics.md), [as a feed](feed.xml).",
        "",
    ]
    for post in entries[:NEWEST]:
        lines += [
            f"## [{post.title}]({post.slug}.md)",
            "",
            f"*{post.date}, {', '.join(post.topics)}.* {post.summary}",
            "",
        ]
    return "\n".join(lines)


def _topics(entries: Sequence[Post]) -> str:
    lines = ["# DevLog by topic", ""]
    for topic in sorted({topic for post in entries for topic in post.topics}):
        lines += [f"## {topic}", ""]
        lines += [f"- [{post.title}]({post.slug}.md), {post.date}" for post in entries if topic in post.topics]
        lines.append("")
    return "\n".join(lines)


def feed(entries: Sequence[Post]) -> str:
    """Return the DevLog as an Atom feed (RFC 4287). Links are relative, since the site has no address of its own."""
    ElementTree.register_namespace("", ATOM)
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    newest = max((post.date for post in entries), default=date(2026, 1, 1))
    _field(root, "title", "Rushlight DevLog")
    _field(root, "id", "urn:rushlight:devlog")
    _field(root, "updated", f"{newest}T00:00:00Z")
    _field(_field(root, "author"), "name", "The Rushlight authors")
    _field(root, "link", rel="self", href="feed.xml")
    for post in entries:
        entry = _field(root, "entry")
        _field(entry, "title", post.title)
        _field(entry, "id", f"urn:rushlight:devlog:{post.slug}")
        _field(entry, "updated", f"{post.date}T00:00:00Z")
        _field(entry, "link", href=f"{post.slug}/")
        for topic in post.topics:
            _field(entry, "category", term=topic)
        _field(entry, "summary", post.summary)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _field(parent: ElementTree.Element, name: str, text: str | None = None, **attrs: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}", attrs)
    element.text = text
    return element


def foreign(site: Path) -> Iterator[str]:
    """Yield what pages of a built site would load from elsewhere: scripts, styles, images, fonts."""
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?(https?:)?//|<link[^>]+rel=\"?(?:stylesheet|preload)[^>]+//", re.I
    )
    for page in sorted(site.rglob("*.html")):
        for found in loaded.finditer(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(site)}: {found[0]}"


def everything(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each page of the site, those of the reference too."""
    names = reference.pages()
    if missing := reference.unlisted(names):
        raise SiteError("names without an entry: " + ", ".join(missing))
    return gathered(root) | names


def build(out: Path, texts: Mapping[str, str], root: Path = ROOT) -> None:
    """Build the site into a folder, which is emptied first."""
    source = out.parent / f"{out.name}-pages"
    shutil.rmtree(source, ignore_errors=True)
    for place, text in texts.items():
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(text, encoding="utf-8")
    settings = (root / "mkdocs.yml").read_text(encoding="utf-8")
    (out.parent / f"{out.name}.yml").write_text(f"{settings}docs_dir: {source}\nsite_dir: {out}\n", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement of another program
    subprocess.run([*command, "--config-file", str(out.parent / f"{out.name}.yml")], check=True, env=quiet)
    if loaded := list(foreign(out)):
        raise SiteError("pages load what lies elsewhere: " + "; ".join(loaded[:5]))


def browse(site: Path) -> list[str]:
    """Open the front page, search for something, follow the first result, and look at a page with code and at an entry.

    Returns what was seen; whatever a page complains of is an error.
    """
    with serving(site) as address, Browser() as browser:
        browser.open(address)
        seen = [f"front page: {browser.evaluate('document.title')}"]
        browser.evaluate(TYPED % {"text": "unbacked sizes"})
        browser.wait_for(f"document.querySelectorAll('{RESULT}').length > 0")
        seen.append(f"search: {browser.evaluate(f'document.querySelectorAll({RESULT!r}).length')} results")
        browser.open(str(browser.evaluate(f"document.querySelector('{RESULT} a').href")))
        seen.append(f"first result: {browser.evaluate('document.title')}")
        for path, wanted in LOOKED_AT.items():
            browser.open(address + path)
            browser.wait_for(f"document.querySelector({json.dumps(wanted)}) !== null")
            seen.append(
                f"{path}: {browser.evaluate(f'document.querySelectorAll({CODE_BLOCK!r}).length')} blocks of code"
            )
        if browser.problems:
            raise SiteError("\n".join(browser.problems))
    return seen


def main(arguments: Sequence[str] | None = None) -> int:
    """Build or check the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--check", action="store_true", help="gather pages and check links, without a build")
    parser.add_argument("--browse", action="store_true", help="open the built site in a headless Chromium")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.browse:
            print(*browse(chosen.out.resolve()), sep="\n")
            return 0
        texts = everything()
        if not chosen.check:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            build(chosen.out.resolve(), texts)
    except (SiteError, reference.ReferenceError, BrowserError) as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{len(texts)} pages" + ("" if chosen.check else f" in {chosen.out}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
