"""The file `rates`: whoever may write in the results may have written it."""

from pathlib import Path

import pytest

from iosweep.results import current_rates
from iosweep.results.current_rates import CurrentRates, NodeRates

RATES = CurrentRates(
    allocation="2-nodes",
    point="fio.x",
    repetition=2,
    phases="seq_write",
    began=100.0,
    at=110.0,
    expected=2,
    nodes={"n1": NodeRates("tool", 0.0, 5.0, 2.0)},
)


def test_it_is_read_back(tmp_path: Path) -> None:
    assert current_rates.read(tmp_path) is None
    (tmp_path / current_rates.NAME).write_bytes(current_rates.encode(RATES))
    assert current_rates.read(tmp_path) == RATES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"repetition":2', b'"repetition":-2'),
        (b'"at":110.0', b'"at":1e300'),
        (b'"fio.x"', b'"../x"'),
        (b'"tool"', b'"rumor"'),
        (b'"written_bytes_per_s":5.0', b'"written_bytes_per_s":1e400'),
        (b'"expected":2', b'"expected":' + b"[" * 100_000),
        (b"}", b""),
        (b"{", b"\xff{"),
    ],
)
def test_what_is_no_such_file(old: bytes, new: bytes) -> None:
    text = current_rates.encode(RATES)
    assert old in text
    assert current_rates.decode(text.replace(old, new)) is None


def test_no_link_is_followed_and_no_large_file_read(tmp_path: Path) -> None:
    file = tmp_path / current_rates.NAME
    (tmp_path / "other").write_bytes(current_rates.encode(RATES))
    file.symlink_to("other")
    assert current_rates.read(tmp_path) is None
    file.unlink()
    file.write_bytes(current_rates.encode(RATES) + b" " * (9 << 20))
    assert current_rates.read(tmp_path) is None


def test_how_long_rates_are_those_of_now() -> None:
    assert [current_rates.longest_s(over_s) for over_s in (1.0, 2.0, 10.0)] == [6.0, 6.0, 30.0]
