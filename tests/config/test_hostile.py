"""Hostile names and values: each is refused with a sentence that names its place, or carried as text, never obeyed."""

import csv
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from campaign import SWEEP, Allocation, Campaign, said
from campaign import TEXT as QUICK
from iosweep import dag
from iosweep.commands import cli
from iosweep.commands.doctor import this_machine
from iosweep.errors import ConfigError
from iosweep.jobs import submission
from iosweep.report import page
from iosweep.results.raw_output import unpack
from iosweep.target import directory as directories
from records import plain_records_of

pytestmark = pytest.mark.local

#: Text that a person can read, and a path: names of files may be like this.
READABLE = {
    "space": "a b",
    "quotes": "a'b\"c",
    "dollar": "$(touch obeyed)",
    "backtick": "`touch obeyed`",
    "variable": "${HOME}",
    "semicolon": ";touch obeyed",
    "pipe": "|touch obeyed",
    "and": "&& touch obeyed &",
    "redirection": "> obeyed",
    "star": "*",
    "comment": "# a",
    "colon": "a: b",
    "backslash": "a\\nb\\",
    "up": "../up",
    "up and up": "../../../etc/passwd",
    "rf": "-rf",
    "help": "--help",
    "dashes": "--",
    "braces": "{braces}",
    "wildcard": "{wildcards.x}",
    "half a brace": "{{}",
    "percent": "%s%n%(x)s",
    "markup": "[bold]x[/red]",
    "script": "<script>alert(1)</script>",
    "end of script": "</script><img src=x onerror=alert(2)>",
    "formula": "=cmd|' /C calc'!A0",
    "yaml tag": "!!python/object/apply:os.getcwd []",
    "jinja": "{{ 7 * 7 }}",
    "emoji": "\U0001f600\U0001f468",
    "composed and not": "\u00e9e\u0301",
    "255 bytes": "\u00e9" * 127 + "x",
    "256 characters": "x" * 256,
    "5000 characters": "x/" * 2500,
}
#: Text, but not as a person sees it: in a path it would deceive, and tools do not print it as it is.
INVISIBLE = {
    "line feed": "a\nb",
    "tab": "a\tb",
    "right to left": "a\u202eb",
    "byte order mark": "\ufeffa",
    "line separator": "a\u2028b",
    "zero width": "a\u200bb",
}
#: No text at all.
CONTROL = {
    "carriage return": "a\rb",
    "nul": "a\0b",
    "colour": "a\x1b[31mb",
    "title": "\x1b]0;obeyed\x07",
    "bell": "\x07",
    "backspace": "a\x08b",
    "delete": "a\x7fb",
    "c1": "a\x9b2Jb",
    "lone surrogate": "a\udcffb",
}
TEXTS = READABLE | INVISIBLE | CONTROL


def shown(text: str) -> bool:
    """Whether nothing in it steers a terminal."""
    return all(line.isprintable() for line in text.split("\n"))


# Through the runner

#: A name with everything that names may have.
ANY = (
    "a b'\"$(touch obeyed)`touch obeyed`;touch obeyed|&>*#{x} {wildcards.y} %s [red] <script>alert(1)<\u2215script>"
    " =1+1 -rf \\n ~:\u00e9\U0001f600"
)
ONE = SWEEP | {"phases": ["rand_read"], "axes": {}}
#: Names of files that others have on the target.
FOREIGN = [
    *(os.fsencode(t.replace("/", ":")) for t in TEXTS.values() if "\0" not in t and len(os.fsencode(t)) < 256),
    *(b"\xff\xfe", b"\xc3(" * 100, b"iosweep-", b"iosweep-C", b"IOSWEEP-c", b"CON", b".hidden"),
]


def listing(directory: Path) -> dict[bytes, tuple[int, int, int]]:
    """Everything in a directory, by its bytes: (mode, size, mtime)."""
    with os.scandir(os.fsencode(directory)) as entries:
        return {e.name: ((s := e.stat(follow_symlinks=False)).st_mode, s.st_size, s.st_mtime_ns) for e in entries}


@pytest.mark.parametrize(
    "place", [ANY, "\U0001f600" * 63, "/".join(["y" * 250] * 15)], ids=["everything", "252 bytes", "nearly 4096 bytes"]
)
def test_a_path_is_only_a_path(tmp_path: Path, fio: Path, place: str) -> None:
    where = Path(str(tmp_path / place)[:3820])  # with names of 255 bytes below the target of it
    where.mkdir(parents=True)
    allocation = Allocation(where, ONE)
    for name in FOREIGN:
        (allocation.target / os.fsdecode(name)).touch()
    before = listing(allocation.target)
    allocation.measure()
    assert listing(allocation.target) == before  # ours is gone, theirs is as it was
    assert listing(where).keys() == {b"sweep.yaml", b"log", b"results", b"target"}
    [row] = allocation.rows()
    assert said(row) == ""
    assert row["target_directory"] == str(allocation.target)
    assert str(allocation.target) in html.unescape(page.write(allocation.results).read_text())


def test_names_in_our_own_directory(tmp_path: Path, fio: Path) -> None:
    """Foreign entries beside our folders stay, those within a data set go with it; no link is followed."""
    allocation = Allocation(tmp_path, ONE, keep="all")
    allocation.measure()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (allocation.ours / "sets" / os.fsdecode(b"\xff\x1b[31m")).mkdir()
    for folder in allocation.ours, *(allocation.ours / "sets").iterdir():
        for name in FOREIGN:
            (folder / os.fsdecode(name)).touch()
        (folder / "link").symlink_to(tmp_path / "precious")
    allocation.keep = "none"
    allocation.configure(ONE | {"repetitions": 2})
    output = allocation.measure()
    assert shown(output)
    assert [said(row) for row in allocation.rows()] == ["", ""]
    stays = {os.fsencode(path.name) for path in allocation.ours.iterdir()}
    assert stays == {*FOREIGN, b"link", os.fsencode(directories.MARKER)}
    assert f"{len(FOREIGN) + 1} " in output
    assert list((tmp_path / "precious").iterdir()) == [tmp_path / "precious" / "file"]


@pytest.mark.parametrize("directory", ["/" + "x/" * 2500, "y" * 256, "-rf", "../../nothing"])
def test_a_path_that_cannot_be(tmp_path: Path, fio: Path, directory: str) -> None:
    allocation = Allocation(tmp_path, ONE, target={"directory": directory})
    output = allocation.measure(code=3)
    assert re.fullmatch(r"iosweep: .+\n", output)
    assert output[:-1].isprintable()
    assert allocation.files() == []
    assert listing(tmp_path).keys() == {b"sweep.yaml", b"log", b"results", b"target"}


# What tools print

#: Before the real fio: it says what a tool should not, each number of workers something else.
FAKE = r"""
import os, subprocess, sys

fio, *arguments = sys.argv[1:]
EVIL = (
    b"\x1b[31m<script>alert(1)</script>\x1b]0;obeyed\x07\x9b2J =cmd|' /C calc'!A0 {x} %s \xff\xe2\x80\xae"
    b"\x00 | </script><img src=x onerror=alert(2)> \"',;\r\n"
)


def say(what, to=sys.stdout):
    to.buffer.write(what)
    to.buffer.flush()


if "--version" in arguments:
    say(b"fio-3.33<img/src=x/onerror=alert(3)>\x1b[31m,\"\n")
    sys.exit()
if "--name=rand_read" not in arguments:
    os.execv(fio, ["fio", *arguments])
text = subprocess.run([fio, *arguments], stdout=subprocess.PIPE, check=True).stdout
[workers] = [int(a[10:]) for a in arguments if a.startswith("--numjobs=")]
if workers == 1:  # before the JSON, where fio has its notes
    say(3 * EVIL + text)
elif workers == 2:
    say(EVIL, sys.stderr)
    sys.exit(7)
elif workers == 3:
    say(b"<b>" * (10 << 20) + b"\n" + text)
elif workers == 4:
    name = b'"</script><script>alert(4)</script>\\n\\u001b[31m\\u0000"'
    say(text.replace(b'"rand_read"', name).replace(b'"fio-3', b'"<i>=\\n' + 4000 * b"y"))
elif workers == 5:
    say(EVIL + text.replace(b'"error" : 0', b'"error" : 5'))
elif workers == 6:
    say(bytes(1 << 20) + 1000 * b"\x1b[2J")
elif workers == 7:
    say(b"=1+1\n", sys.stderr)
    say(text)
    sys.exit(9)
else:
    say(5000 * EVIL, sys.stderr)
    say(text)
"""
EVIL_SHOWN = "\\x1b[31m<script>alert(1)</script>\\x1b]0;obeyed\\x07"


class Printed(Allocation):
    """`terminal`: what it got."""

    terminal = ""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> Printed:
    """Measured once with FAKE, with its tables."""
    place = tmp_path_factory.mktemp("printed") / ANY.replace(":", "")  # it will be on PATH
    place.mkdir()
    description = " ".join(t for t in TEXTS.values() if t not in CONTROL.values())
    sweep = ONE | {"axes": {"threads_per_node": list(range(1, 9))}, "description": description}
    allocation = Printed(place, sweep, description=description)
    (place / "fake.py").write_text(FAKE)
    allocation.fake(f'exec {sys.executable} -SE "${{0%/*}}/../fake.py" "$fio" "$@"')
    allocation.terminal = allocation.measure()
    allocation.rows()
    return allocation


def test_a_terminal_gets_text(printed: Printed) -> None:
    log = (printed.place / "log").read_text()
    shows = subprocess.run(
        [sys.executable, "-m", "iosweep", "show", "c"], cwd=printed.place, env=printed.environment, text=True,
        stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    for text in (printed.terminal, log, shows):
        assert shown(text)
        assert f"the tool ended with exit code 7: {EVIL_SHOWN}" in text
        assert len(text) < 30_000
    assert not list(printed.place.rglob("obeyed"))


def test_tables_have_text(printed: Printed) -> None:
    rows = {row["threads_per_node"]: row for row in printed.rows()}
    assert {n for n, row in rows.items() if row["verdict"] == "invalid"} == {2, 5, 6, 7}
    for n in (1, 3, 4, 8):
        assert said(rows[n]) == ""
        assert rows[n]["ops_per_s"] > 0
    for table in printed.results.glob("*.parquet"):
        for row in pyarrow.parquet.read_table(table).to_pylist():
            assert all(len(v) < 5000 and v.isprintable() for v in row.values() if isinstance(v, str))
    text = (printed.results / "results.csv").read_text()
    with_header = list(csv.reader(text.splitlines()))  # a record is a line, and a line a record
    assert len(with_header) == 1 + 8
    names, *values = with_header
    assert {len(record) for record in values} == {len(names)}
    for record in values:
        row = rows[int(record[names.index("threads_per_node")])]
        assert {name: cell for name, cell in zip(names, record, strict=True) if isinstance(row[name], str)} == {
            name: value for name, value in row.items() if isinstance(value, str)
        }
        # What a tool prints comes after words of ours. Cells are not changed for a spreadsheet's sake.
        assert not {name for name, cell in zip(names, record, strict=True) if cell.startswith(("=", "+", "@", "-"))}


def test_raw_output_is_as_it_was_printed(printed: Printed) -> None:
    point = next(p for p in printed.plan.points if p.options["threads_per_node"] == 6)
    [(result, _)] = plain_records_of(printed.store, point.id)
    archive = printed.store.raw(result)
    assert archive
    assert unpack(archive)["rand_read"]["stdout"] == bytes(1 << 20) + 1000 * b"\x1b[2J"


def test_a_report_shows_text(printed: Printed, chromium: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright: not installed")
    file = page.write(printed.results)
    assert file.stat().st_size < 3 << 20
    complaints = []
    with playwright.sync_playwright() as session:
        browser = session.chromium.launch(executable_path=str(chromium), args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context()
        context.set_offline(True)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: request.url == file.as_uri() or complaints.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("html[data-drawn]", state="attached")
        for button in tab.locator("#table .open").all():
            button.click()
        seen = tab.locator("body").inner_text()
        with tab.expect_download() as download:
            tab.locator("#csv").click()
        saved = list(csv.reader(download.value.path().read_text().splitlines()))
        assert tab.locator("img, iframe, object, body b b, i").count() == 0
        assert tab.locator("script").count() == 3  # the data, the library and ours
        browser.close()
    assert complaints == []
    assert len(saved) == 1 + 8
    assert {len(record) for record in saved} == {len(saved[0])}
    for text in (EVIL_SHOWN, "<img/src=x/onerror=alert(3)>", "=1+1", "{{ 7 * 7 }}", str(printed.target)):
        assert text in seen
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", file.read_text())


# The machine


#: In name spaces of its own: another host name, a mount on the target and one beside it; then what follows.
ELSEWHERE = r"""
import ctypes, os, socket, sys

evil, target, *command = map(os.fsencode, sys.argv[1:])
socket.sethostname(evil)
for place in (target, target + b"/../\xc2\xa0\r"):
    os.makedirs(place, exist_ok=True)
    if ctypes.CDLL(None).mount(evil, place, b"tmpfs", 0, b"size=64m"):
        sys.exit("it cannot be mounted")
os.execv(command[0], command)
"""


def test_names_of_the_machine(tmp_path: Path, fio: Path) -> None:
    if os.geteuid():
        pytest.skip("root: needed to mount")
    evil = os.fsdecode(b"<script>\xff\x1b[31m\r\xc2\x85 #{x}=1")
    allocation = Allocation(tmp_path, ONE)
    done = subprocess.run(
        ["unshare", "--mount", "--uts", sys.executable, "-c", ELSEWHERE, evil, str(allocation.target),
         *allocation.command()],
        env=allocation.environment | {"LD_LIBRARY_PATH": f"/nothing/{evil}", "TZ": "../../etc/passwd", "LANG": evil},
        cwd=tmp_path, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert shown(done.stderr.decode())
    [row] = allocation.rows()
    assert said(row) == "the target is memory (tmpfs): nothing gets to a device"
    shows = r"<script>\udcff\x1b[31m\r\x85 #{x}=1"
    assert (row["target_source"], row["target_fstype"]) == (shows, "tmpfs")
    assert row["host"].startswith("<script>") and row["host"].isprintable()
    [(_, record)] = plain_records_of(allocation.store, allocation.plan.points[0].id)
    assert record["environment"]["LD_LIBRARY_PATH"] == f"/nothing/{shows}"
    assert shows in html.unescape(page.write(allocation.results).read_text())


# Through Snakemake


def test_a_campaign_of_any_name(tmp_path: Path, fio: Path) -> None:
    place = tmp_path / ANY.translate({ord("{"): "(", ord("}"): ")"})
    campaign = Campaign(place, phases=["rand_read"], axes={}, repetitions=1)
    campaign.file = campaign.file.rename(campaign.place / f"-{ANY}.yaml")
    campaign.run()
    assert (campaign.results / "report.html").exists()
    assert not list(tmp_path.rglob("obeyed"))


@pytest.mark.parametrize("name", ["{x}", "}", "a\x1b[31mb", "a\nb", os.fsdecode(b"\xff")])
def test_a_working_directory_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    Path("x.yaml").write_text("campaign: c\n")
    with pytest.raises(ConfigError, match=r"^x\.yaml:1: the working directory .*; run it in another$") as caught:
        dag.load(Path("x.yaml"), Path("results"))
    assert str(caught.value).isprintable()
    assert list(Path().iterdir()) == [Path("x.yaml")]


@pytest.mark.parametrize("character", '%$`"\\')
def test_a_working_directory_that_jobs_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], character: str
) -> None:
    """Slurm replaces %j in the paths of logs. Refused by whatever plans for Slurm, before anything is submitted."""
    place = tmp_path / f"100{character}j"
    place.mkdir()
    monkeypatch.chdir(place)
    Path("x.yaml").write_text(QUICK)
    wrong = f"the working directory {place} has the character {character}, which jobs cannot take"
    with pytest.raises(ConfigError) as caught:
        dag.load(Path("x.yaml"), Path("results"), "srun", site=submission.Site())
    assert str(caught.value) == f"x.yaml:1: {wrong}; run it in another"
    assert cli.main(["plan", "x.yaml", "--profile", str(Path(__file__).parents[2] / "profiles/slurm")]) == 1
    assert wrong in capsys.readouterr().err
    assert [line.seen for line in this_machine.working_directory(submits=True)] == [wrong]
    assert this_machine.working_directory(submits=False) == []
    dag.load(Path("x.yaml"), Path("results"))  # on one machine it is a character like others
