"""`iosweep measure` as a process: which program is started, and secrets in the environment."""

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import scripted
from campaign import SWEEP, Allocation, Campaign
from page_data import page_data
from records import plain_records_of

pytestmark = pytest.mark.local
ONE = SWEEP | {"axes": {}}


def test_the_program_that_is_started_is_the_one_whose_hash_is_stored(allocation: Allocation) -> None:
    """Also where PATH has a relative directory; and each finds an empty directory, which goes with what it leaves."""
    allocation.path = f"{scripted.install(allocation.place / 'scripted')}{os.pathsep}{allocation.path}"
    allocation.configure(ONE)
    allocation.fake('case "$*" in *--name=*) ls -A >&2; echo x > left.behind;; esac; exec "$fio" "$@"')
    allocation.path = os.pathsep.join(["bin", *allocation.path.split(os.pathsep)[1:]])
    allocation.measure()
    [record] = plain_records_of(allocation.store, allocation.plan.points[0].id)
    assert record["tool"]["sha256"] == hashlib.sha256((allocation.place / "bin" / "fio").read_bytes()).hexdigest()
    assert [(run["exit_code"], run["stderr"]) for run in record["phases"]] == [(0, "")] * 2
    assert not (allocation.results / "scratch").exists()
    assert not list(allocation.place.rglob("left.behind"))


# Secrets

MARK = "planted-5f0c2d8e71b94a36"
#: As others name them, in variables that say nothing, and below a prefix that is passed.
PLANTED = {
    name: f"{MARK}-{name.lower()}"
    for name in (
        *("AWS_SECRET_ACCESS_KEY", "SLURM_JWT", "GITHUB_TOKEN", "PGPASSWORD", "MYSQL_PWD", "SMTP_PASS", "RESTIC_KEY"),
        *("UNSUSPICIOUS", "UCX_AUTH_KEY", "https_proxy"),
    )
}


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
                yield f"{path}: its data", page_data(data.decode())
            if path.suffix == ".parquet":
                yield f"{path}: its rows", repr(pyarrow.parquet.read_table(path).to_pylist()).encode()


def holders(directory: Path, *secrets: str) -> list[str]:
    """What holds one of these secrets, as it is or as base64."""
    forms = [form for one in map(str.encode, secrets) for form in (one, *_packed(one))]
    return [name for name, data in contents(directory) if any(form in data for form in forms)]


def _packed(secret: bytes) -> list[bytes]:
    return [base64.b64encode(secret[shift:])[:-4] for shift in range(3)]


def test_no_secret_of_the_environment_is_in_any_file_that_a_campaign_leaves(tmp_path: Path) -> None:
    """Through Snakemake, with a tool that prints its environment, which is stored as it is. It gets only what it needs,
    and what the configuration names: that is found in all that is packed, or the search would find nothing."""
    campaign = Campaign(tmp_path)
    asked, variables = f"{MARK}-asked-for", ["ASKED_FOR", "NOT_THERE"]
    Allocation.configure(campaign, ONE, tools={"provider": "path", "variables": variables})
    campaign.fake("""
case "$*" in *--name=*) echo "innocent $ASKED_FOR" >&2; env | grep -v ASKED_FOR | tee -a /dev/stderr;; esac
case "$*" in *--name=rand_read*) exit 7;; esac
exec "$fio" "$@" """)
    said = campaign.run(env=campaign.environment | PLANTED | {"ASKED_FOR": asked})
    rows = {row["phase"]: row for row in campaign.rows()}
    assert rows["rand_read"]["verdict"] == "invalid" and asked in rows["rand_read"]["reasons"]
    assert rows["seq_write"]["ops_per_s"] > 0
    assert "tools.variables: NOT_THERE" in said
    held = holders(tmp_path, asked)
    assert all(any(word in name for name in held) for word in (".zip: ", "report.html: ", ".parquet: "))
    assert holders(tmp_path, *set(PLANTED.values())) == []
