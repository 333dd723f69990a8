"""CSV that is safe to open in a spreadsheet."""

import pyarrow as pa
import pytest

from iosweep.results.table_writer import harmless, harmless_array

#: What a spreadsheet drops in front of a formula.
HIDDEN = [f"{blank}=1" for blank in ("  ", "\xa0", "\v", "\f", "\x00", "\ufeff", "\u200b", "\u3000", " \ufeff ")] + [
    " -5"
]


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "＝1", "－x", *HIDDEN]
)
def test_text_like_a_formula_is_escaped(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert harmless_array(pa.array(["a", text, None])).to_pylist() == ["a", f"'{text}", None]


@pytest.mark.parametrize(
    "cell", ["-5", "+1.5e-3", "-.5", "a=b", "", "fio --name=x", " a=b", "\xa0", -5, 1.5, None, True]
)
def test_other_cells_are_unchanged(cell: object) -> None:
    assert harmless(cell) == cell
    assert harmless_array(pa.array([cell])).to_pylist() == [cell]
