"""YAML files with positions: YAML 1.2's types, and every way in which a file can be wrong."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from iosweep.config import yaml_lines
from iosweep.config.yaml_lines import Document
from iosweep.errors import ConfigError, Problem

Load = Callable[[str | bytes], Document]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load(text: str | bytes) -> Document:
        file = tmp_path / "x.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return yaml_lines.load(file)

    return load


def wrong(load: Load, text: str | bytes) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return list(caught.value.problems)


#: A scalar as it is written, and what it means.
MEANT: list[tuple[str, object]] = [
    # words that YAML 1.1 takes for booleans
    ("off", "off"), ("yes", "yes"), ("N", "N"), ("true", True), ("False", False), ("tRUE", "tRUE"),
    # and for numbers of base 60 and 8
    ("1:30", "1:30"), ("010", 10), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"), ("-3", -3), ("0b11", "0b11"),
    # YAML 1.1 needs a dot and a sign in the exponent
    ("1e3", 1000.0), ("1.", 1.0), (".5", 0.5), ("-1.5E-2", -0.015), (".inf", math.inf), ("1.2.3", "1.2.3"),
    ("16m", "16m"), ("5%", "5%"), ("~", None), ("", None), ("nULL", "nULL"), ('""', ""), ("2024-01-02", "2024-01-02"),
    ("=", "="), ('"010"', "010"), ("'true'", "true"), ("/mnt/a b", "/mnt/a b"), ("[1, [a]]", [1, ["a"]]),
]  # fmt: skip


def test_values_mean_what_they_say(load: Load) -> None:
    for written, value in MEANT:
        found = load(f"a: {written}\n").data["a"]
        assert (found, type(found)) == (value, type(value)), written
    assert math.isnan(load("a: .nan\n").data["a"])


TEXT = """\
# a comment
campaign: c
target:

  directory: /t
sweeps:
  - name: one
    axes: {a: [1,
               2], b: [3]}
  -
    name: two
    text: >-
      several
      lines
"""
#: Path of keys -> its line; what does not stand there has the line of the nearest part that does.
LINES: dict[yaml_lines.KeyPath, int] = {
    (): 2,
    ("campaign",): 2,
    ("target",): 3,
    ("target", "directory"): 5,
    ("sweeps", 0): 7,
    ("sweeps", 0, "axes", "a", 0): 8,
    ("sweeps", 0, "axes", "a", 1): 9,
    ("sweeps", 0, "axes", "b"): 9,
    ("sweeps", 1): 11,
    ("sweeps", 1, "text"): 12,
    ("sweeps", 1, "phase_time"): 11,
    ("target", "layout", "x"): 3,
    ("nothing",): 2,
}


def test_every_path_has_its_line(load: Load) -> None:
    found = load(TEXT)
    assert {path: found.line(path) for path in LINES} == LINES
    problem = found.problem(("sweeps", 0, "axes", "a", 1), "is odd")
    assert str(problem) == "x.yaml:9: sweeps[0].axes.a[1]: is odd"
    aliased = load("a: &x {b: 1}\nc: *x\n")
    assert (aliased.data, aliased.line(("c", "b"))) == ({"a": {"b": 1}, "c": {"b": 1}}, 1)  # where it stands


WRONG: list[str | bytes] = [
    "",
    "- a\n- b\n",
    b"a: \xff\n",
    "a: 1\na: 2\nb: {c: 1, c: 2}\n",
    "a:\n  - {b: 1, c: 2,\n     b: 3}\n",
    "a: &x {b: 1}\nc:\n  <<: *x\n",
    "? [a, b]\n: 1\n",
    "a:\n  - {true: 2, ~: 3, 1.5: 4}\n",
    "a: 1\nb: [1, 2\nc: 3\n",
    "a: *nowhere\n",
    "accept:\n  read_iops: >= 5k\n",  # without quotes
    "sweeps:\n  - name: x\n   tool: fio\n",
    "a: 1\n---\nb: 2\n",
    "a: 1\n\tb: 2\n",
    "a: 1\nb: \x01\n",
    'a: "\\ud800"\n',
    "a: 1\nb: !!int abc\n",
    "a: !!python/object/apply:os.getcwd []\n",  # no Python objects
    "a: 1\nb: &x [*x]\n",
    "a: " + "[" * 500 + "]" * 500,
]  # fmt: skip


def test_every_error_of_a_file_names_its_line(load: Load, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    said = []
    for text in WRONG:
        said += map(str, wrong(load, text))
    for file in ("none.yaml", "."):
        with pytest.raises(ConfigError) as caught:
            yaml_lines.load(Path(file))
        said.append(str(caught.value))
    assert "\n".join(said) == snapshot


def test_values_are_written_as_yaml_writes_them() -> None:
    values = [None, True, ["a", None], {"é": False}, 1.5, "text"]
    assert [*map(yaml_lines.written, values)] == ["null", "true", '["a", null]', '{"é": false}', "1.5", "text"]


@given(st.binary(max_size=60) | st.text(alphabet="ab:-[]{}&*!<>|?#'\"%@\n\t 01.~", max_size=60))
def test_whatever_stands_in_a_file_is_a_mapping_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        document = yaml_lines.load(file)
    except ConfigError:
        return
    assert isinstance(document.data, dict)
