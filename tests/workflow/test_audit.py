"""The audit of the statistics still fits the functions that it audits. No figure is asserted."""

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit


def test_each_table_judges_campaigns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    audit = importlib.import_module("audit")
    for name, table in audit.TABLES.items():
        assert all(text for text, _ in audit.judge(1, next(table()))), name
