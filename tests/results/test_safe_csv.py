"""CSV that is safe to open in a spreadsheet."""

import csv
import io

import pyarrow as pa
import pytest

from iosweep.results import safe_csv

#: What a spreadsheet drops in front of a formula.
HIDDEN = [f"{blank}=1" for blank in ("  ", "\xa0", "\v", "\f", "\x00", "\ufeff", "\u200b", "\u3000", " \ufeff ")] + [
    " -5"
]


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "＝1", "－x", *HIDDEN]
)
def test_text_like_a_formula_is_escaped(text: str) -> None:
    assert safe_csv.harmless(text) == f"'{text}"
    assert safe_csv.harmless_array(pa.array(["a", text, None])).to_pylist() == ["a", f"'{text}", None]


@pytest.mark.parametrize(
    "cell", ["-5", "+1.5e-3", "-.5", "a=b", "", "fio --name=x", " a=b", "\xa0", -5, 1.5, None, True]
)
def test_other_cells_are_unchanged(cell: object) -> None:
    assert safe_csv.harmless(cell) == cell
    assert safe_csv.harmless_array(pa.array([cell])).to_pylist() == [cell]


def test_written_table_has_escaped_cells() -> None:
    to = io.StringIO()
    safe_csv.write(to, ["a", "b"], [{"a": "=1", "b": -1}])
    assert list(csv.reader(io.StringIO(to.getvalue()))) == [["a", "b"], ["'=1", "-1"]]
