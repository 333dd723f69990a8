"""Secrets in the environment are in no file that a campaign leaves."""

import base64
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from campaign import SWEEP, Allocation, Campaign
from iosweep.files import embedded
from iosweep.report import page

pytestmark = pytest.mark.local

MARK = "planted-5f0c2d8e71b94a36"
#: As others name them, in an address, in variables that say nothing, and below a prefix that is passed.
PLANTED = {
    name: f"{MARK}-{name.lower()}"
    for name in (
        *("AWS_SECRET_ACCESS_KEY", "SLURM_JWT", "GITHUB_TOKEN", "PGPASSWORD", "MYSQL_PWD", "SMTP_PASS", "RESTIC_KEY"),
        *("UNSUSPICIOUS", "ASKED_FOR", "UCX_AUTH_KEY"),
    )
} | dict.fromkeys(("https_proxy", "HTTP_PROXY", "IOR_PROXY", "FI_ADDRESS"), f"http://me:{MARK}-proxy@proxy:8080")


class Planted(Allocation):
    """An allocation in an environment with secrets."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | PLANTED


def contents(directory: Path) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of every file in a directory, links' targets and what is packed in archives and tables included."""
    for path in sorted(directory.rglob("*")):
        yield f"name of {path}", os.fsencode(path)
        if path.is_symlink():
            yield f"link {path}", os.fsencode(path.readlink())
        elif path.is_file():
            data = path.read_bytes()
            yield str(path), data
            if path.suffix == ".zip":
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    yield from ((f"{path}: {name}", archive.read(name)) for name in archive.namelist())
            if path.suffix == ".html":
                yield f"{path}: its data", embedded.opened(data.decode()).encode()
            if path.suffix == ".parquet":
                yield f"{path}: its rows", repr(pyarrow.parquet.read_table(path).to_pylist()).encode()


def holders(directory: Path) -> list[str]:
    """What holds a planted secret, as it is or as base64."""
    packed = [base64.b64encode(MARK.encode()[shift:])[:-4] for shift in range(3)]
    return [name for name, data in contents(directory) if any(form in data for form in (MARK.encode(), *packed))]


def test_the_search_finds(tmp_path: Path) -> None:
    """What the other tests rest on."""
    (tmp_path / "plain").write_text(f"x{MARK}")
    (tmp_path / "packed").write_bytes(base64.b64encode(f"a{MARK}-jwt".encode()))
    (tmp_path / "link").symlink_to(MARK)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("stdout", 3 * MARK)
    (tmp_path / "r.html").write_text(embedded.element(2 * MARK.encode()))
    table = pyarrow.table({"a": [None, MARK]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
    (tmp_path / "innocent").write_text("planted")
    names = {name.removeprefix(f"{tmp_path}/") for name in holders(tmp_path)}
    assert {
        "plain",
        "packed",
        f"link {tmp_path}/link",
        "a.zip: stdout",
        "r.html: its data",
        "t.parquet: its rows",
    } <= names
    assert not [name for name in names if "innocent" in name]


def test_a_campaign_leaves_no_secret(tmp_path: Path, fio: Path) -> None:
    """Through Snakemake: results, logs, plans, tables, report, Snakemake's own records, and the target."""
    campaign = Campaign(tmp_path, phases=["rand_read"], repetitions=1)
    campaign.run(env=campaign.environment | PLANTED)
    assert (campaign.results / "report.html").exists()
    assert len(list(contents(tmp_path))) > 20
    assert holders(tmp_path) == []


def test_a_tool_that_prints_its_environment(tmp_path: Path, fio: Path) -> None:
    """What it prints is stored as it is; so it gets only what it needs, and what the configuration names."""
    sweep = SWEEP | {"axes": {"threads_per_node": [1]}}
    allocation = Planted(tmp_path, sweep, tools={"variables": ["ASKED_FOR", "IOR_PROXY", "NOT_THERE"]})
    allocation.fake("""
case "$*" in *--name=*) echo "innocent $ASKED_FOR" >&2; env | grep -v ASKED_FOR | tee -a /dev/stderr;; esac
case "$*" in *--name=rand_read*) exit 7;; esac
exec "$fio" "$@" """)
    output = allocation.measure()
    rows = {row["phase"]: row for row in allocation.rows()}
    page.write(allocation.results)
    told = f"the tool ended with exit code 7: innocent {PLANTED['ASKED_FOR']}"
    assert rows["rand_read"]["reasons"].startswith(told)
    assert rows["seq_write"]["ops_per_s"] > 0
    assert told in output
    assert output.count("note: tools.variables: ") == 2
    assert "note: tools.variables: IOR_PROXY is withheld, its value holds an address with a user" in output
    assert "note: tools.variables: NOT_THERE is not set" in output
    assert [name for name in holders(tmp_path) if name.endswith(("rand_read.stderr", "report.html"))]
    named = [value.encode() for name, value in PLANTED.items() if name != "ASKED_FOR"]
    assert [name for name, data in contents(tmp_path) if any(value in data for value in named)] == []
