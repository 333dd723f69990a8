"""Whether what tables and report have written is whole, and the data of a page."""

import base64
import contextlib
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet


def page_data(page: str) -> bytes:
    """The data that a page carries for its scripts."""
    found = re.search('id="report-data">([0-9A-Za-z+/=]*)</script>', page)
    return zlib.decompress(base64.b64decode(found[1])) if found else b""


def damaged(results: Path) -> list[Path]:
    """The files of these that are there, and not whole."""
    found = []
    for pattern, look in LOOKS.items():
        for file in sorted(results.glob(pattern)):
            whole = False
            with contextlib.suppress(ValueError, OSError):  # those of Arrow and JSON are ValueErrors
                whole = look(file)
            found += [] if whole else [file]
    return found


def _table(file: Path) -> bool:
    """One with series, own rates or latencies may be empty: not every tool has them."""
    asides = ("series.parquet", "node_rates.parquet", "histograms.parquet")
    return len(pyarrow.parquet.read_table(file)) > 0 or file.name in asides


def _csv(file: Path) -> bool:
    return file.read_bytes().endswith(b"\n") and len(pyarrow.csv.read_csv(file)) > 0


#: Files of the results -> whether one is whole.
LOOKS: dict[str, Callable[[Path], bool]] = {
    "*.parquet": _table,
    "results.csv": _csv,
    "campaign.json": lambda file: bool(json.loads(file.read_bytes())),
    "report.html": lambda file: file.read_bytes().rstrip().endswith(b"</html>"),
    "figures/*.svg": lambda file: file.read_bytes().rstrip().endswith(b"</svg>"),
    "figures/*.png": lambda file: file.read_bytes()[-8:-4] == b"IEND",
}
