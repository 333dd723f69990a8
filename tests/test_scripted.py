"""The stand-in of the tools prints what the real ones printed, but for the numbers."""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import scripted

SAMPLES = scripted.SAMPLES


def recorded(tool: str) -> list[tuple[str, str]]:
    """(name, command) of samples that this project's own commands made."""
    file = SAMPLES / tool / ("manifest.tsv" if tool == "fio" else "own/manifest.tsv")
    with file.open() as lines:
        rows = list(csv.DictReader(lines, dialect="excel-tab"))
    return [(row["sample"], row["command"]) for row in rows if tool != "fio" or row["sample"].startswith("own_")]


def played(command: str, place: Path, rule: scripted.Rule) -> tuple[scripted.Call, scripted.Printed]:
    """A recorded command, on another directory."""
    argv = [re.sub(r"/mnt/scratch[^,]*?(?=/data$|$)", str(place), word) for word in shlex.split(command)]
    return (call := scripted.Call.of(argv)), scripted.play(call, rule)


def form(value: Any) -> Any:
    """Keys and kinds of a document."""
    if isinstance(value, dict):
        return {key: form(part) for key, part in value.items()}
    return [form(part) for part in value] if isinstance(value, list) else type(value).__name__.replace("int", "float")


@pytest.mark.parametrize(("sample", "command"), recorded("fio"))
def test_fio_is_as_recorded(sample: str, command: str, tmp_path: Path) -> None:
    for job in (0, 1):
        (tmp_path / f"{job}.0").write_bytes(bytes(1 << 20))
    real = json.loads((SAMPLES / f"fio/{sample}.out").read_bytes())["jobs"][0]
    _, printed = played(command, tmp_path, {"ops_per_s": 1000, "seconds": 2})
    told = json.loads(printed.stdout)["jobs"][0]
    for entry in (real, told):
        for way in ("read", "write"):
            for block in ("clat_ns", "lat_ns"):
                entry[way][block].pop("bins", None)
                entry[way][block].pop("percentile", None)
    assert told["job options"] == real["job options"] | {"directory": str(tmp_path)}
    assert form(told) == form(real)
    assert told["iodepth_level"].keys() == real["iodepth_level"].keys()
    assert sum(told[way]["total_ios"] for way in ("read", "write")) == 2000


@pytest.mark.parametrize(("sample", "command"), recorded("ior"))
def test_ior_is_as_recorded(sample: str, command: str, tmp_path: Path) -> None:
    for name in ("data.00000000", "data.00000001"):
        (tmp_path / name).write_bytes(bytes(8 << 20))
    real = json.loads((SAMPLES / f"ior/own/{sample}.summary.json").read_bytes())
    call, printed = played(command, tmp_path, {"ops_per_s": 1000})
    told = json.loads(printed.files["summary.json"])
    assert form(told) == form(real)
    for part in ("Parameters", "Options"):
        paths = {"testFileName": call.options["o"], "test filename": call.options["o"]}
        mine, theirs = told["tests"][0][part], real["tests"][0][part]
        assert mine == theirs | {key: value for key, value in paths.items() if key in theirs}
    lines = (SAMPLES / f"ior/own/{sample}.out").read_text().splitlines()
    assert sorted(map(masked, printed.stdout.decode().splitlines())) == sorted(map(masked, lines))


@pytest.mark.parametrize(("sample", "command"), recorded("mdtest"))
def test_mdtest_is_as_recorded(sample: str, command: str, tmp_path: Path) -> None:
    _, printed = played(command, tmp_path, {"ops_per_s": 1000})
    real = (SAMPLES / f"mdtest/own/{sample}.out").read_text()
    assert list(map(masked, printed.stdout.decode().splitlines())) == list(map(masked, real.splitlines()))


def masked(line: str) -> str:
    """A line without its numbers, paths and spaces."""
    line = re.sub(r"(/[\w.+-]+)+", "PATH", line)
    return re.sub(r"\s+", " ", re.sub(r"(?<!mdtest-)[1-9][\d.]*\.\d+|\b\d+\b(?!\.)", "N", line))
