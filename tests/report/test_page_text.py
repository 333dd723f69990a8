"""The whole text of a report, as a reader sees it. A change of it is a decision: make the file again with
`MAKE_PAGE_TEXT=1 python -m pytest tests/report/test_page_text.py` and read the difference."""

import html
import os
import re
from pathlib import Path

import pytest

import results_factory as factory
from iosweep.report import figure_files, page

EXPECTED = Path(__file__).with_name("page.txt")


def text_of(document: str) -> list[str]:
    """The lines of text of an HTML document, without scripts, styles and drawings."""
    bare = re.sub(r"<(script|style|svg)\b.*?</\1>", "", document, flags=re.DOTALL)
    lines = html.unescape(re.sub(r"<[^>]+>", "\n", bare)).split("\n")
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_the_text_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    sweeps = [*factory.DEMO, factory.ior(), factory.mdtest(), *factory.weka(), *factory.node_check()]
    found = text_of(page.render(factory.make(tmp_path, sweeps=sweeps, spoil=factory.spoil_some)))
    if os.environ.get("MAKE_PAGE_TEXT"):
        EXPECTED.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == EXPECTED.read_text(encoding="utf-8").splitlines()
