"""Reading tables back: damaged and foreign ones are rejected."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import mounts
import results_factory
from iosweep.commands import cli
from iosweep.files.documents import Damaged, dump, read
from iosweep.results import merged_tables

#: What cannot be made where this is a link; files are replaced.
LINKED = ("figures", "figures")
POINTS = [results_factory.sweep("a", ["rand_read"], {"threads_per_node": [1, 2]})]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made = results_factory.make(tmp_path / "received", sweeps=POINTS)
    (made / "plans").mkdir()
    return made


def forge(results: Path, change: Callable[[pa.Table], pa.Table], name: str = "results.parquet", **options: Any) -> None:
    """Change a table so that campaign.json agrees."""
    file = results / name
    parquet.write_table(change(parquet.read_table(file)), file, **options)
    results_factory.describe_again(results)


def test_our_tables_are_read(results: Path) -> None:
    assert {row["verdict"] for row in merged_tables.rows(results, "results.parquet", dict, ["verdict"])} == {"valid"}
    assert merged_tables.damage(results) == []
    assert merged_tables.repair(results) == ("", [])


def test_size_mismatch_names_both_sizes(results: Path) -> None:
    file = results / "results.parquet"
    size = file.stat().st_size
    assert size > 1000
    file.write_bytes(file.read_bytes() + b"x" * 1000)
    assert f"it has {size + 1000:,} bytes and had {size:,}" in merged_tables.damage(results)[0]


@pytest.mark.parametrize("kind", ["pipe", "link", "device", "directory", "emptied", "gone on", "other"])
@pytest.mark.parametrize("name", ["results.parquet", "campaign.json", "nodes.parquet"])
def test_other_object_in_place_of_a_table(
    results: Path, name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results / name
    data = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/etc/passwd")
    elif kind == "device":
        if os.geteuid():
            pytest.skip("root: only root makes devices")
        os.mknod(file, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    elif kind == "directory":
        file.mkdir()
    else:
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        file.write_bytes({"emptied": b"", "gone on": data + b"x", "other": changed}[kind])
    assert cli.main(["show", str(results), "--all"]) == 1
    said = capsys.readouterr().err
    assert f"{file} is damaged (" in said
    assert said.count("\n") == 1
    assert str(file) in merged_tables.damage(results)[0]
    repair, _ = merged_tables.repair(results)
    assert len(repair) == 12


@pytest.mark.parametrize(
    ("change", "options", "why"),
    [
        (lambda t: t.drop_columns(["verdict"]), {}, "column verdict is not there once"),
        (lambda t: t.set_column(0, "campaign", pa.array([1] * len(t))), {}, "column campaign is int64, not string"),
        (
            lambda t: t.set_column(t.schema.get_field_index("verdict"), "verdict", pa.array(["<b>"] * len(t))),
            {},
            "`<b>` is not a verdict",
        ),
        (
            lambda t: t.set_column(t.schema.get_field_index("point"), "point", pa.nulls(len(t), pa.string())),
            {},
            "column point has rows without a value",
        ),
        (lambda t: t, {"compression": "zstd"}, "its compression is ZSTD"),
        (
            lambda t: pa.table({f.name: pa.nulls(2_000_000, f.type) for f in t.schema}),
            {},
            "it has 2,000,000 rows, too many",
        ),
    ],
)
def test_table_with_other_columns_is_rejected(
    results: Path, change: Callable[[pa.Table], pa.Table], options: dict[str, str], why: str
) -> None:
    forge(results, change, **options)
    with pytest.raises(Damaged, match=r"results\.parquet is damaged") as error:
        merged_tables.rows(results, "results.parquet", dict)
    assert why in str(error.value)


def test_text_that_a_small_file_repeats_in_each_row_is_not_unpacked(results: Path) -> None:
    def repeat(table: pa.Table) -> pa.Table:
        long = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 1_000_000])
        repeated = table.take([0] * 2_000)
        return repeated.set_column(table.schema.get_field_index("reasons"), "reasons", long)

    forge(results, repeat, dictionary_pagesize_limit=1 << 30, store_schema=False)
    assert (results / "results.parquet").stat().st_size < 1_000_000
    with pytest.raises(Damaged, match="its rows have more than 1,073,741,824 bytes of text"):
        merged_tables.rows(results, "results.parquet", dict)


def test_text_in_lists_counts(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged_tables.rows(results, "nodes.parquet", dict, ["numa", "tools"])
    monkeypatch.setattr(merged_tables, "_MOST_TEXT", 3)
    for column in ("numa", "tools"):
        with pytest.raises(Damaged, match="its rows have more than 3 bytes of text"):
            merged_tables.rows(results, "nodes.parquet", dict, [column])


def test_a_list_that_a_small_file_makes_long_is_not_unpacked(results: Path) -> None:
    def lengthen(table: pa.Table) -> pa.Table:
        kind = table.schema.field("numa").type
        count = 7_000_000
        numbers, texts = pa.nulls(count, pa.int64()), pa.nulls(count, pa.string())
        elements = pa.StructArray.from_arrays([numbers, texts, numbers], fields=list(kind.value_type))
        made = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), elements, type=kind)
        return table.slice(0, 1).set_column(table.schema.get_field_index("numa"), "numa", made)

    forge(results, lengthen, "nodes.parquet")
    assert (results / "nodes.parquet").stat().st_size < 100_000
    with pytest.raises(Damaged, match=r"its lists have [0-9,]+ values, too many"):
        merged_tables.rows(results, "nodes.parquet", dict)


def test_garbage_with_a_matching_hash_is_rejected(results: Path) -> None:
    (results / "results.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    results_factory.describe_again(results)
    with pytest.raises(Damaged, match="it cannot be read"):
        merged_tables.rows(results, "results.parquet", dict)


@pytest.mark.parametrize("key", ["sweeps", "tables", "repair", "target", "builds"])
def test_campaign_json_with_a_wrong_key_is_rejected(results: Path, key: str) -> None:
    about = read(results / "campaign.json")
    (results / "campaign.json").write_bytes(dump(about | {key: 5}))
    with pytest.raises(Damaged, match=rf"campaign.json is damaged \({key}: expected"):
        merged_tables.about(results)


#: Where in campaign.json -> what stands there, and what is said of it.
FOREIGN: list[tuple[str, object, str]] = [
    ("sweeps.0", "x", "sweeps[0]: expected `object`"),
    ("sweeps.0", {}, "sweeps[0]: object missing required field"),
    ("sweeps.0.points", 5e-324, "sweeps[0].points: expected `array`"),
    ("sweeps.0.repetitions", {}, "sweeps[0].repetitions: object missing"),
    ("sweeps.0.repetitions.min", "x", "sweeps[0].repetitions.min: expected `int`"),
    ("sweeps.0.repetitions.until_ci95_half_width", [], "until_ci95_half_width: expected `float | null`"),
    ("sweeps.0.suite", [["x"]], "sweeps[0].suite: expected"),
    ("sweeps.0.name", [], "sweeps[0].name: expected `str`"),
    ("sweeps.0.axes", {"x": [1]}, "sweeps[0]: `x` is not an axis"),
    ("sweeps.0.axes", {"threads_per_node": ["x"]}, "a value of the axis threads_per_node has another type"),
    ("sweeps.0.description", 1, "sweeps[0].description: expected"),
    ("target.directory", True, "target.directory: expected `str`"),
    ("damaged", "x", "damaged: expected `object`"),
    ("damaged", {"a": 1}, "damaged[...]: expected `str`"),
    ("set_aside", True, "set_aside: expected `array`"),
    ("trusted_writers", -1, "trusted_writers: expected `array`"),
    ("cpus", "x", "cpus: expected `object`"),
    ("configuration.0", "x", "configuration[0]: expected `object`"),
    ("builds", {"x": 0}, "builds[...]: expected `object`"),
    ("builds", {"x": {"provider": "spack", "tools": {}}}, "a build of Spack without"),
    ("made", "x", "made: invalid"),
    ("tables", {"results.parquet": {"bytes": "x" * 5_000_000, "sha256": ""}}, "bytes: expected `int`"),
]


@pytest.mark.parametrize(("place", "value", "why"), FOREIGN, ids=[f"{one[0]}={str(one[1])[:20]}" for one in FOREIGN])
def test_a_foreign_value_within_the_description_is_named(results: Path, place: str, value: object, why: str) -> None:
    about = read(results / "campaign.json")
    *way, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    within: Any = about
    for key in way:
        within = within[key]
    within[last] = value
    (results / "campaign.json").write_bytes(dump(about))
    with pytest.raises(Damaged) as error:
        merged_tables.about(results)
    assert why in str(error.value)
    assert len(str(error.value)) < 500


def test_repair_name_is_stable_while_the_damage_is(results: Path) -> None:
    (results / "checks.parquet").write_bytes(b"")
    first, damage = merged_tables.repair(results)
    assert merged_tables.repair(results) == (first, damage)
    results_factory.make(results, sweeps=POINTS)  # made again
    about = read(results / "campaign.json")
    (results / "campaign.json").write_bytes(dump(about | {"repair": first}))
    assert merged_tables.repair(results) == (first, [])
    (results / "checks.parquet").write_bytes(b"")  # the same once more
    assert merged_tables.repair(results)[0] not in ("", first)


def test_no_repair_has_the_name_of_an_earlier_one(results: Path) -> None:
    """Snakemake would not make it again. The last name is in campaign.json, and so it is lost with it."""
    whole, names = (results / "campaign.json").read_bytes(), []
    for _ in range(3):
        (results / "campaign.json").write_bytes(b"")
        name, _ = merged_tables.repair(results)
        assert merged_tables.repair(results)[0] == name
        names.append(name)
        assert cli.main(["repair", str(results / "repairs" / name)]) == 0
        (results / "campaign.json").write_bytes(whole)
    assert len(set(names)) == 3


def test_damaged_figures_and_report_are_named(results: Path) -> None:
    (results / "figures").mkdir()
    (results / "figures" / "a.svg").write_bytes(b"<svg/>")
    made = dump({"figures": {"a.svg": hashlib.sha256(b"<svg/>").hexdigest()}})
    (results / "figures" / "made.json").write_bytes(made)
    (results / "figures.done").touch()
    (results / "report.html").write_bytes(merged_tables.sealed(b"<html></html>\n"))
    assert merged_tables.damage(results) == []
    (results / "figures" / "a.svg").write_bytes(b"")
    (results / "report.html").write_text("")
    assert [line.partition(" ")[0] for line in merged_tables.damage(results)] == [
        str(results / "report.html"),
        str(results / "figures" / "a.svg"),
    ]


@pytest.mark.parametrize("name", [*merged_tables.FILES, merged_tables.ABOUT])
def test_a_table_that_is_gone_is_made_again_if_there_is_a_report_of_it(results: Path, name: str) -> None:
    """Snakemake does not look for it as long as the report is there."""
    (results / name).unlink()
    assert merged_tables.damage(results) == []
    (results / "report.html").write_bytes(merged_tables.sealed(b"<html></html>\n"))
    assert merged_tables.damage(results) == [f"{results / name} is gone"]
    first, _ = merged_tables.repair(results)
    assert cli.main(["repair", str(results / "repairs" / first)]) == 0
    assert merged_tables.repair(results)[0] not in ("", first)


def test_a_full_disk_is_a_sentence(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(results / "repairs"))

    monkeypatch.setattr("iosweep.files.safe_paths.write", full)
    assert cli.main(["repair", "--log", str(results / "logs" / "repair.log"), str(results / "repairs" / "x")]) == 1
    said = f"iosweep: {results}/repairs cannot be written: No space left on device; make room, then run the same"
    assert said in capsys.readouterr().err


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_a_mount_over_a_figure_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_factory.make(tmp_path)
    assert cli.main(["figures", str(results)]) == 0
    figure = next((results / "figures").glob("*.png"))
    (tmp_path / "other").touch()
    mounts.run("mount", "--bind", str(tmp_path / "other"), str(figure))
    try:
        assert cli.main(["figures", str(results)]) == 1
    finally:
        mounts.unmount(figure)
    said = f"cannot be made: {figure} is a mount point, which is left alone; what was measured is stored: unmount it"
    assert said in capsys.readouterr().err


def test_any_flipped_bit_of_the_list_of_figures_is_damage(results: Path) -> None:
    """Also in a name: the figure would count as somebody else's from then on."""
    (results / "figures").mkdir()
    (results / "figures" / "a.svg").write_bytes(b"<svg/>")
    file = results / "figures" / "made.json"
    whole = dump({"figures": {"a.svg": hashlib.sha256(b"<svg/>").hexdigest()}})
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        assert [line.partition(" ")[0] for line in merged_tables.damage(results)] == [str(file)]
    file.unlink()
    assert merged_tables.damage(results) == []
    (results / "figures.done").touch()
    assert merged_tables.damage(results) == [f"{file} is gone"]


@pytest.mark.parametrize("name", ["a\0b.svg", "", "../a.svg", "a.txt", "/a.svg", "x" * 300 + ".svg", ".a.svg"])
def test_a_list_of_figures_with_a_name_that_none_of_ours_has_is_damaged(results: Path, name: str) -> None:
    """Its digest is right: whoever made the results made that, too."""
    (results / "figures").mkdir()
    file = results / "figures" / "made.json"
    file.write_bytes(dump({"figures": {name: "0" * 64}}))
    [said] = merged_tables.damage(results)
    assert said.startswith(f"{file} is damaged (key in figures: expected")


def test_any_flipped_bit_of_the_report_is_damage(results: Path) -> None:
    file = results / "report.html"
    whole = merged_tables.sealed(b"<html>1,234 MiB/s</html>\n")
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        assert [line.partition(" ")[0] for line in merged_tables.damage(results)] == [str(file)]
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        assert merged_tables.damage(results)
    file.write_bytes(whole)
    assert merged_tables.damage(results) == []


def test_report_ends_with_its_hash(results: Path) -> None:
    assert cli.main(["page", str(results)]) == 0
    assert merged_tables.damage(results) == []
    text = (results / "report.html").read_text()
    assert text.rpartition("</html>")[2].startswith("\n<!-- sha256 ")
    (results / "report.html").write_text(text.replace("figure", "figurd", 1))
    assert merged_tables.damage(results) == [
        f"{results / 'report.html'} is damaged (its content is not what the hash in its last line says)"
    ]


@pytest.mark.parametrize("name", ["figures", "figures.done", "report.html", "logs"])
def test_a_link_in_place_of_what_a_rule_writes_is_not_followed(results: Path, name: str, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for precious in ("made.json", "a.svg", "figures.log"):
        (foreign / precious).write_text("theirs")
    aim = foreign if name in ("figures", "logs") else foreign / "a.svg"
    (results / name).symlink_to(aim)
    for command in ("figures", "page"):
        log = str(results / "logs" / f"{command}.log")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            assert cli.main([command, str(results), "--log", log]) == (name == "logs" or (name, command) == LINKED)
    assert {file.name: file.read_text() for file in foreign.iterdir()} == dict.fromkeys(
        ("made.json", "a.svg", "figures.log"), "theirs"
    )


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_mounted_figures_are_not_touched(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "a.svg").write_text("theirs")
    (results / "figures").mkdir()
    mounts.run("mount", "--bind", str(foreign), str(results / "figures"))
    try:
        assert cli.main(["figures", str(results)]) == 1
    finally:
        mounts.unmount(results / "figures")
    assert "figures is a mount point, which is left alone" in capsys.readouterr().err
    assert [file.name for file in foreign.iterdir()] == ["a.svg"]


@pytest.mark.parametrize(
    ("table", "column", "value", "why"),
    [
        ("results.parquet", "latency_p50_s", 1e308, "a number is not finite, or too large"),
        ("results.parquet", "latency_p50_s", float("nan"), "a number is not finite, or too large"),
        ("results.parquet", "phase", "[/x]", "`[/x]` is not a phase"),
        ("results.parquet", "phase", "x" * 100_000, "is not a phase"),
        ("results.parquet", "point", "a\x1b[2J", r"`a\x1b[2J` is not a name"),
        ("results.parquet", "cpus", "zz", "`zz` is not a list of CPUs"),
        ("nodes.parquet", "reserved_cpus", "0-99999999999", "is not a list of CPUs"),
        ("nodes.parquet", "numa", [{"node": 0, "cpus": "0-", "memory_bytes": 1}], "column cpus: `0-` is not a list"),
    ],
)
def test_a_value_that_is_none_of_ours_is_named(
    results: Path, table: str, column: str, value: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results / table
    rows = parquet.read_table(file)
    place = rows.schema.get_field_index(column)
    rows = rows.set_column(place, column, pa.array([value] * len(rows), rows.schema.field(column).type))
    parquet.write_table(rows, file)
    results_factory.describe_again(results)
    with pytest.raises(Damaged, match=table.replace(".", r"\.")) as error:
        merged_tables.rows(results, table, dict)
    assert why in str(error.value)
    assert cli.main(["show", str(results)]) == 1
    assert f"{table} is damaged" in capsys.readouterr().err
