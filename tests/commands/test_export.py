"""`iosweep export`: what is in the archive, that it can be read again, and that no name is left in an anonymous one."""

import base64
import errno
import gzip
import io
import os
import signal
import subprocess
import sys
import zipfile
from array import array
from pathlib import Path

import msgspec
import orjson
import pyarrow.parquet
import pytest

import campaign
from iosweep.commands import campaigns, cli
from iosweep.files import documents, embedded, tar_archive
from iosweep.node import monitor, node_facts
from iosweep.results import anonymous_check, merge, merged_tables
from iosweep.results.anonymous_store import without_free_text
from iosweep.results.campaign_documents import DataSet

HOSTS = ("acme-node1", "acme-node12", "vm")
DIRECTORY = "/lustre/acme corp/me"
MOUNT = "29 1 0:50 / /lustre rw,addr=10.77.0.9 - lustre mds7@tcp:/acmefs rw,user=grace"
#: Names that must not be left. `vm` and `data` are common words.
SECRET = ("acme", "mds7", "10.77.", "=grace", "/grace", "frank", "heidi", "xsolve", "corp", "Project Zeus", "zeus")

Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> campaign.Made:
    """A campaign of three nodes with names everywhere, with tables and a report."""
    monkeypatch.chdir(tmp_path)
    known = campaign.document(**campaign.FOUR_AND_EIGHT)
    known |= {"campaign": "acme-zeus", "description": "Project Zeus", "target": {"directory": DIRECTORY}}
    text = f"# of heidi, Project Zeus\n{campaign.yaml.safe_dump(known)}"
    plan = campaign.make(tmp_path, text)
    made = campaign.Made(tmp_path, plan)
    campaign.keep_plan(plan, made.results)
    facts = node_facts.NodeFacts(host=HOSTS[0], kernel="6.1.0", fstype="lustre", mount=MOUNT, memory_bytes=1 << 30)
    key = node_facts.key(facts)
    made.store.put("nodes", key, facts)
    made.store.put("sets", "s", DataSet(hosts=("acme-node12.acme.com",)))
    head = {"host": HOSTS[2], "interval_s": 1.0, "begin_s": 0.0, "count": 2, "names": ["dirty_bytes"]}
    watched = orjson.dumps(head) + b"\n" + array("f", [1.0, 2.0]).tobytes()
    assert monitor.is_whole(watched)
    files = {"role": "read", "files": 2, "file_size_bytes": 1 << 20, "set_bytes": 2 << 20, "wrong": [], "holes": "none"}
    top = [{"name": "xsolve", "user": "frank", "share": 0.4}]
    for index in (0, 1):
        for number in (1, 2):
            streams = {
                "stderr": b"vm: /home/grace/x of /home/heidi on acme-node12.acme.com: 10.77.0.9 \xff\xfe",
                "monitor": watched,
            }
            point = plan.points[index]
            made.measured(
                index,
                number,
                streams=streams,
                record={
                    "host": HOSTS[0],
                    "hosts": [HOSTS[0]],
                    "node": key,
                    "nodes": {HOSTS[0]: key},
                    "target": {
                        "directory": DIRECTORY, "source": "mds7@tcp:/acmefs", "fstype": "lustre", "mount": MOUNT,
                        "layout_is": "none", "volume": "lustre /acmefs", "trusted_writers": ["frank"],
                    },
                    "environment": {"PATH": "/home/grace/bin:/opt/acme/bin:/usr/bin", "TZ": "Europe/Zurich"},
                },
                argv=[f"--directory={DIRECTORY}/iosweep-acme-zeus/sets/{point.id}"],
                files=files,
                load={"other": 0.4, "steal": 0.0, "host": HOSTS[0], "top": top},
                ran_on={HOSTS[0]: 2},
                moved={HOSTS[0]: {}},
                reasons=["other processes used 40% of the CPU time (xsolve of frank)"],
            )  # fmt: skip
    merge.merge(plan, made.results)
    (made.results / merged_tables.REPORT).write_bytes(merged_tables.sealed(b"<p>acme-zeus</p>\n"))
    for name in ("lock", "rates"):  # as after a kill
        (made.results / name).write_text("{}")
    return made


def every_text(root: Path) -> str:
    """All bytes of an unpacked archive, decompressed, as text."""
    texts = []
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        texts.append(str(file.relative_to(root)))
        if file.suffix != ".parquet":  # the schema in it is base64, which may have any four letters
            texts.append(file.read_bytes().decode("latin-1"))
        if file.name == merged_tables.REPORT:
            texts.append(embedded.data(file.read_text()).decode("latin-1"))
        if file.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
                texts += [archive.read(name).decode("latin-1") for name in archive.namelist()]
        elif file.suffix == ".parquet":
            texts.append(str(pyarrow.parquet.read_table(file).to_pylist()))
    return "\n".join(texts)


def unpacked(archive: Path, into: Path) -> Path:
    into.mkdir()
    return tar_archive.unpack(archive, into)


def figures(results: Path) -> list[dict[str, object]]:
    columns = ["point", "repetition", "phase", "verdict", "ops_per_s", "latency_p99_s", "checks_passed"]
    return pyarrow.parquet.read_table(results / "results.parquet", columns=columns).to_pylist()


def test_an_archive_is_read_like_a_campaign(made: campaign.Made, capsys: Capture, tmp_path: Path) -> None:
    assert run("export", "acme-zeus") == 0
    assert "unpacks to acme-zeus/" in capsys.readouterr().out
    whole = run("check", "acme-zeus"), capsys.readouterr().out
    assert (run("check", "acme-zeus.tar.zst"), capsys.readouterr().out) == whole
    assert "not checked" not in whole[1]
    top = unpacked(tmp_path / "acme-zeus.tar.zst", tmp_path / "into")
    assert not {"lock", "target.json", "logs", "rates", "judged"} & {file.name for file in top.iterdir()}
    before = figures(top)
    for file in top.glob("*.parquet"):
        file.unlink()
    merge.merge(made.plan, top)
    assert figures(top) == before == figures(made.results)


def test_commands_that_write_refuse_an_archive(made: campaign.Made, capsys: Capture) -> None:
    assert run("export", "acme-zeus", "--output", "x.tar.gz") == 0
    for command in ("report", "clean", "export"):
        assert run(command, "x.tar.gz") == 1
        assert "unpack it first" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"x" * 10_000])
def test_what_is_no_archive_is_an_error(content: bytes, tmp_path: Path, capsys: Capture) -> None:
    (file := tmp_path / "x.tar.zst").write_bytes(content)
    assert run("show", str(file)) == 1
    assert "x.tar.zst" in capsys.readouterr().err
    assert campaigns.is_unpacked(Path("/tmp/iosweep-archive-1/x"))


def test_no_name_is_left(made: campaign.Made, capsys: Capture, tmp_path: Path) -> None:
    assert run("export", "acme-zeus", "--anonymize", "--hide", "corp", "--key", "key.json") == 0
    out = capsys.readouterr().out
    assert "none is left" in out
    assert "host `vm`" in out
    top = unpacked(tmp_path / "campaign.tar.zst", tmp_path / "into")
    text = every_text(top)
    for secret in SECRET:
        at = text.lower().find(secret.lower())
        assert at < 0, (secret, text[max(0, at - 80) : at + 80])
    assert '"host":"vm"' not in text.replace(" ", "")
    assert b"\xff\xfe" in text.encode("latin-1")
    # the same name by the same replacement, in documents, archives and tables
    key = {row["name"]: row["replaced_by"] for row in orjson.loads(Path("key.json").read_bytes())}
    assert Path("key.json").stat().st_mode & 0o777 == 0o600
    rows = pyarrow.parquet.read_table(top / "results.parquet").to_pylist()
    assert {row["host"] for row in rows} == {key["acme-node1"]}
    assert f"{key['acme-node12']}.{key['acme.com']}: 198.18.0." in text
    assert f"{key['xsolve']} of {key['frank']}" in text
    assert f'"hosts":["{key["acme-node1"]}"]' in text


def test_an_anonymous_campaign_is_merged_again(made: campaign.Made, tmp_path: Path) -> None:
    assert run("export", "acme-zeus", "--anonymize") == 0
    top = unpacked(tmp_path / "campaign.tar.zst", tmp_path / "into")
    assert figures(top) == figures(made.results)
    before = pyarrow.parquet.read_table(top / "results.parquet")
    assert run("report", str(top)) == 0
    assert pyarrow.parquet.read_table(top / "results.parquet").equals(before)
    assert not merged_tables.about(top).damaged


def test_a_name_that_is_left_refuses(
    made: campaign.Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("iosweep.results.anonymous_store._output", lambda names, member, data: data)
    assert run("export", "acme-zeus", "--anonymize") == 1
    error = capsys.readouterr().err
    assert "names are left" in error or "other figures" in error
    assert not (tmp_path / "campaign.tar.zst").exists()


def test_a_name_in_the_data_of_the_report_is_found(tmp_path: Path) -> None:
    """The data is compressed: its bytes have no name, or one by chance."""
    name = merged_tables.REPORT
    (tmp_path / name).write_text(f"<p>host01</p>{embedded.element(b'on zeus07')}")

    def left_in(*names: str) -> dict[str, str]:
        return anonymous_check.names_left(
            tmp_path, [name], lambda text: next((n for n in names if n in text), None), ()
        )

    packed = (tmp_path / name).read_text().partition('data-bytes="9">')[2][:4]
    assert left_in("zeus07") == {name: "zeus07"}
    assert left_in(packed) == {}


_SECRET = b"it is on acme-node1"


@pytest.mark.parametrize(
    "packed",
    [
        b"xacme-node1x",
        gzip.compress(_SECRET),
        base64.b64encode(_SECRET),
        b"".join(b"\\u%04x" % byte for byte in _SECRET),
    ],
    ids=["joined", "gzip", "base64", "json"],
)
def test_a_name_that_is_packed_refuses(
    made: campaign.Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: bytes
) -> None:
    def plant(page: Path) -> None:
        (page / merged_tables.REPORT).write_bytes(merged_tables.sealed(b"<p>x</p>"))
        (page / "figures").mkdir()
        (page / "figures" / "x.svg").write_bytes(packed)

    monkeypatch.setattr("iosweep.commands.report.make_page", plant)
    assert run("export", "acme-zeus", "--anonymize", "--key", "key.json") == 1
    assert "nothing was exported: names are left: `acme-node1` in figures/x.svg" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "x.yaml"]


def test_a_key_is_not_overwritten(made: campaign.Made, capsys: Capture) -> None:
    Path("key.json").write_text("of another archive")
    assert run("export", "acme-zeus", "--anonymize", "--key", "key.json") == 1
    assert "--key key.json exists" in capsys.readouterr().err
    assert Path("key.json").read_text() == "of another archive"


def test_what_cannot_be_hidden_is_an_error(made: campaign.Made, capsys: Capture) -> None:
    for name, why in (("hp", "characters"), ("node", "is a word that tools or iosweep itself use")):
        assert run("export", "acme-zeus", "--anonymize", "--hide", name) == 1
        assert f"--hide {name}: it " in (said := capsys.readouterr().err)
        assert why in said


def test_the_environment_does_not_tell_the_site(made: campaign.Made, tmp_path: Path, capsys: Capture) -> None:
    assert run("export", "acme-zeus", "--anonymize") == 0
    top = unpacked(tmp_path / "campaign.tar.zst", tmp_path / "into")
    text = next(top.glob("points/*/r001-1.json")).read_text()
    assert '"PATH":"/path1:/path2:/usr/bin"' in text
    assert "Europe" not in text
    assert run("replay", made.plan.points[0].id, "campaign.tar.zst") == 0
    assert "PATH=/path1:/path2:/usr/bin" in capsys.readouterr().out


#: Runs an export that gets a signal while it does something.
STOPS = """
import os, sys
from iosweep.commands import cli, report
from iosweep.files import tar_archive
module, name = {"pack": (tar_archive, "_add"), "merge": (report, "make_page")}[sys.argv[1]]
real, number = getattr(module, name), int(sys.argv[2])
def stopped(*arguments):
    real(*arguments)
    os.kill(os.getpid(), number)
setattr(module, name, stopped)
sys.exit(cli.main(sys.argv[3:]))
"""


@pytest.mark.local
@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("pack", signal.SIGTERM),
        ("pack", signal.SIGKILL),
        ("merge", signal.SIGINT),
        ("merge", signal.SIGKILL),
    ],
)
def test_a_stopped_export_leaves_nothing_half(
    made: campaign.Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, when: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(place := tmp_path / "tmp"))
    place.mkdir()
    (archive := tmp_path / "campaign.tar.zst").write_bytes(b"the one before")
    command = ["export", "acme-zeus", "--anonymize", "--key", "key.json"]
    arguments = [sys.executable, "-c", STOPS, when, str(number.value), *command]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert archive.read_bytes() == b"the one before"
    if number == signal.SIGKILL:
        assert done.returncode == -number
        left = [*place.iterdir(), *tmp_path.glob(".campaign.tar.zst.*")]
        assert left
        for each in left:
            os.utime(each, (1, 1))
        (tmp_path / "key.json").unlink(missing_ok=True)
    else:
        assert done.returncode == 130
        assert f"stopped by {number.name}: campaign.tar.zst is not written" in done.stderr
        assert "Traceback" not in done.stderr
        assert not [*place.iterdir(), *tmp_path.glob("key*")]
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run(*command) == 0
    assert not [*place.iterdir(), *tmp_path.glob(".campaign*")]
    assert len(archive.read_bytes()) > 1000


def test_a_full_disk_leaves_nothing_half(
    made: campaign.Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tar_archive._Writer, "write", full)
    assert run("export", "acme-zeus", "--anonymize", "--key", "key.json") == 1
    assert "campaign.tar.zst is not written: " in (said := capsys.readouterr().err)
    assert "No space left on device; make room" in said
    assert sorted(tmp_path.iterdir()) == before


def test_an_archive_gives_the_figures_of_its_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = campaign.make(tmp_path, campaign.document(**campaign.FOUR_AND_EIGHT))
    made = campaign.Made(tmp_path, plan)
    campaign.keep_plan(plan, made.results)
    for index, number in ((0, 1), (0, 2), (1, 1), (1, 2)):
        made.measured(index, number)
    merge.merge(plan, made.results)
    (made.results / merged_tables.REPORT).write_bytes(merged_tables.sealed(b"<p>quick</p>\n"))
    assert run("export", "quick") == 0
    assert run("export", "quick", "--anonymize") == 0
    capsys.readouterr()

    def said(*arguments: str) -> str:
        run(*arguments)
        printed = capsys.readouterr()
        assert not printed.err
        return printed.out

    def rows_of(name: str) -> list[dict[str, object]]:
        """The rows without reasons, which have paths."""
        return [row | {"reasons": []} for row in orjson.loads(said("show", name, "--json"))["results"]]

    rows = rows_of("quick")
    counts = said("check", "quick").split("\n")[0].partition(":")[2]
    assert len(rows) == 2
    for archive in ("quick.tar.zst", "campaign.tar.zst"):
        assert rows_of(archive) == rows
        assert said("check", archive).split("\n")[0].partition(":")[2] == counts
        (compared,) = orjson.loads(said("compare", "quick", archive, "--json"))["comparisons"]
        assert compared["compared"] >= 1
        assert {one["change_share"] for one in compared["results"]} == {0.0}


def test_a_campaign_that_is_not_whole_is_not_exported(made: campaign.Made, capsys: Capture) -> None:
    file = next(made.results.glob("points/*/r001-1.json"))
    data = file.read_bytes()
    file.write_bytes(data[:-20])
    assert run("export", "acme-zeus") == 1
    file.write_bytes(data)
    (made.results / merged_tables.REPORT).unlink()
    assert run("export", "acme-zeus") == 1
    assert "no report yet" in capsys.readouterr().err


def test_the_free_text_of_a_configuration() -> None:
    text = (
        "# secret\ncampaign: x # secret\ndescription: secret one\nsweeps:\n  - name: 'a # b'\n"
        "    description: >\n      secret\n      more\n    tool: fio\n    axes: {a: [1, 2]} # secret\n"
    )
    left = without_free_text(text)
    assert "secret" not in left
    assert left.splitlines()[1] == "campaign: x"
    assert "name: 'a # b'" in left
    assert "axes: {a: [1, 2]}" in left
    assert msgspec.json.encode(campaign.yaml.safe_load(left))


def test_documents_of_the_copy_are_sealed(made: campaign.Made, tmp_path: Path) -> None:
    assert run("export", "acme-zeus", "--anonymize") == 0
    top = unpacked(tmp_path / "campaign.tar.zst", tmp_path / "into")
    found = [file for file in top.rglob("*.json") if "figures" not in file.parts]
    assert len(found) > 5
    for file in found:
        documents.read(file)
