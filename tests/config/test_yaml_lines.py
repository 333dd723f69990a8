"""YAML files with positions: YAML 1.2's types, and every way in which a file can be wrong."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.config import yaml_lines
from iosweep.config.yaml_lines import Document
from iosweep.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def load(text: str | bytes) -> Document:
        file = tmp_path / "x.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return yaml_lines.load(file)

    return load


def wrong(load: Any, text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value) == "\n".join(str(p) for p in caught.value.problems)
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        # words that YAML 1.1 takes for booleans
        ("off", "off"), ("on", "on"), ("yes", "yes"), ("no", "no"), ("y", "y"), ("N", "N"),
        ("true", True), ("False", False), ("TRUE", True), ("tRUE", "tRUE"),
        # and for numbers of base 60 and 8
        ("1:30", "1:30"), ("10:00:00", "10:00:00"), ("010", 10), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"),
        ("12", 12), ("-3", -3), ("+3", 3), ("0b11", "0b11"),
        # YAML 1.1 needs a dot and a sign in the exponent
        ("1e3", 1000.0), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("-1.5E-2", -0.015), (".inf", math.inf),
        ("1.2.3", "1.2.3"), ("1k", "1k"), ("16m", "16m"), ("5%", "5%"), ("60s", "60s"),
        ("~", None), ("null", None), ("", None), ("nULL", "nULL"), ('""', ""),
        ("2024-01-02", "2024-01-02"), ("=", "="), ('"010"', "010"), ("'true'", "true"), ("/mnt/a b", "/mnt/a b"),
        ("[1, [a]]", [1, ["a"]]), ("{b: off}", {"b": "off"}),
    ],
)  # fmt: skip
def test_values_mean_what_they_say(load: Any, written: str, value: object) -> None:
    found = load(f"a: {written}\n").data["a"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_float(load: Any) -> None:
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


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("campaign",), 2),
        (("target",), 3),
        (("target", "directory"), 5),
        (("sweeps",), 6),
        (("sweeps", 0), 7),
        (("sweeps", 0, "name"), 7),
        (("sweeps", 0, "axes"), 8),
        (("sweeps", 0, "axes", "a"), 8),
        (("sweeps", 0, "axes", "a", 0), 8),
        (("sweeps", 0, "axes", "a", 1), 9),
        (("sweeps", 0, "axes", "b"), 9),
        (("sweeps", 1), 11),
        (("sweeps", 1, "text"), 12),
        # what does not stand there has the line of the nearest part that does
        (("sweeps", 1, "phase_time"), 11),
        (("target", "layout", "x"), 3),
        (("nothing",), 2),
    ],
)
def test_the_line_of_every_path(load: Any, path: yaml_lines.KeyPath, line: int) -> None:
    assert load(TEXT).line(path) == line


def test_a_problem_names_file_line_and_key(load: Any) -> None:
    problem = load(TEXT).problem(("sweeps", 0, "axes", "a", 1), "is odd")
    assert str(problem) == "x.yaml:9: sweeps[0].axes.a[1]: is odd"


def test_a_file_elsewhere_has_its_whole_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "x.yaml"
    file.write_text("a: 1\n")
    assert yaml_lines.load(file).file == str(file)


def test_aliases_share_a_value(load: Any) -> None:
    document = load("a: &x {b: 1}\nc: *x\n")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.line(("c", "b")) == 1  # where it stands


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["x.yaml:1: must be a mapping of keys to values"]),
        ("# nothing\n", ["x.yaml:1: must be a mapping of keys to values"]),
        ("- a\n- b\n", ["x.yaml:1: must be a mapping of keys to values"]),
        ("just words\n", ["x.yaml:1: must be a mapping of keys to values"]),
        (b"a: \xff\n", ["x.yaml:1: cannot be read: not UTF-8 text"]),
        ("a: 1\nb: 2\na: 3\n", ["x.yaml:3: a: is defined twice (first on line 1)"]),
        ("a:\n  - {b: 1, c: 2,\n     b: 3}\n", ["x.yaml:3: a[0].b: is defined twice (first on line 2)"]),
        ("a: 1\na: 2\nb: {c: 1, c: 2}\n",
         ["x.yaml:2: a: is defined twice (first on line 1)", "x.yaml:3: b.c: is defined twice (first on line 3)"]),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", ["x.yaml:3: c: merge keys (<<) are not supported; use an alias"]),
        ("? [a, b]\n: 1\n", ["x.yaml:1: keys must be text; put this one in quotes"]),
        ("a: 1\n010: 2\n", ["x.yaml:2: keys must be text; put this one in quotes"]),
        ("a:\n  - {true: 2, ~: 3, 1.5: 4}\n", ["x.yaml:2: a[0]: keys must be text; put this one in quotes"] * 3),
        ("a: 1\nb: [1, 2\nc: 3\n", ["x.yaml:3: not valid YAML: expected ',' or ']', but got ':'"]),
        ("a: *nowhere\n", ["x.yaml:1: not valid YAML: found undefined alias 'nowhere'"]),
        ("a: 1\n---\nb: 2\n", ["x.yaml:2: not valid YAML: but found another document"]),
        ("a: 1\n\tb: 2\n", ["x.yaml:2: not valid YAML: found character '\\t' that cannot start any token"]),
        ("a: 1\nb: \x01\n", ["x.yaml:2: not valid YAML: the control character #x01"]),
        ('a: "\\ud800"\n', ["x.yaml:1: a: contains a control character or an unpaired surrogate"]),
        ("a: 1\nb: !!int abc\n", ["x.yaml:2: not valid YAML: not a value of type int"]),
        ("a: !!bool 5\n", ["x.yaml:1: not valid YAML: not a value of type bool"]),
        ("a: !!timestamp x\n", ["x.yaml:1: not valid YAML: not a value of type timestamp"]),
        ("a: &x [*x]\n", ["x.yaml:1: is nested too deeply (does an alias contain itself?)"]),
        ("a: " + "[" * 5000 + "]" * 5000,
         ["x.yaml:1: is nested too deeply (does an alias contain itself?)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(load: Any, text: str | bytes, problems: list[str]) -> None:
    assert wrong(load, text) == problems


def test_no_python_objects(load: Any) -> None:
    [problem] = wrong(load, "a: !!python/object/apply:os.getcwd []\n")
    assert problem.startswith("x.yaml:1: not valid YAML: could not determine a constructor for the tag")


def test_aliases_of_aliases_do_not_fill_the_memory(load: Any) -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    [problem] = wrong(load, text)
    assert problem.endswith("has more than 50,000 values")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml:1: cannot be read: No such file or directory"):
        yaml_lines.load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        yaml_lines.load(tmp_path)


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
