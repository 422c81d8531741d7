"""The site: built strictly, every link leads somewhere, nothing is loaded from elsewhere, generated parts are fresh."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
NO_ASSETS = {"canonical", "next", "prev"}


class Page(HTMLParser):
    """What a page loads, where it leads, and what can be led to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the references of one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            if (tag, name) in LOADS and given.get("rel") not in NO_ASSETS:
                self.loads.append(value)
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    """Every page; the one for missing addresses is served from anywhere and has absolute links."""
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            yield path, Page(path)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and images are files of the site itself."""
    for path, page in pages(site):
        assert page.loads
        for reference in page.loads:
            assert "//" not in reference, f"{path.name} loads {reference}"
            assert (path.parent / reference.partition("?")[0]).resolve().exists(), reference
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_link_leads_somewhere(site: Path) -> None:
    """Links within the site have a page and an anchor."""
    known = {path.resolve(): page.anchors for path, page in pages(site)}
    for path, page in pages(site):
        for link in page.leads:
            target, _, anchor = link.partition("#")
            if re.match(r"\w+:", target) or not link:
                continue
            where = (path.parent / target).resolve() if target else path.resolve()
            where = where / "index.html" if where.is_dir() else where
            if where not in known:
                assert where.is_file() and not anchor, f"{path.name} leads to {link}"
                continue
            assert not anchor or anchor in known[where], f"{path.name} leads to {link}"


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """Each document is a page of the site, and the start page leads to it."""
    start = {link.partition("#")[0] for link in Page(site / "index.html").leads}
    for document in (ROOT / "docs").glob("*.md"):
        if document.stem != "index":
            assert f"{document.stem}.html" in start


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script that writes the generated parts."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts/reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_fresh(generator: ModuleType) -> None:
    """What the documents say about the code is what the code says: else run `python scripts/reference.py`."""
    assert generator.stale() == []


def test_a_stale_part_is_noticed(generator: ModuleType) -> None:
    """A part that the code no longer says is rewritten."""
    stale = "a\n<!-- begin stdin_modes -->\nold\n<!-- end -->\nb"
    written = generator.fresh(stale)
    assert "old" not in written and "`payload`" in written and written.startswith("a\n") and written.endswith("\nb")


def test_every_generated_part_is_used(generator: ModuleType) -> None:
    """Nothing is generated for nobody."""
    text = "".join(path.read_text(encoding="utf-8") for path in generator.documents())
    assert not [name for name in generator.PARTS if f"<!-- begin {name} -->" not in text]
