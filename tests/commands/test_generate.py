"""What is generated from the code's tables: the schema and parts of the documentation, and that drift is noticed."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from campaign import METADATA, TEXT, document
from iosweep.commands import cli, generate
from iosweep.config import models, sections
from iosweep.results import checks, columns
from iosweep.tools import Option, tools


@pytest.fixture(scope="module")
def campaign_schema() -> Any:
    found = json.loads(generate.schema(models.campaign_model(), "t"))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@pytest.fixture
def copy(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The generated files in a place where they may be harmed."""
    for name, text in generate._files():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    return tmp_path


def test_what_is_committed_is_what_the_code_says() -> None:
    # if this fails: `iosweep generate`
    assert generate.generate(check=True) == []


FILES = ["workflow/schemas/sweep.schema.json", "workflow/schemas/suite.schema.json", "docs/columns.md",
         "docs/report.md", "config/README.md",
         *(f"workflow/iosweep/tools/{name}/README.md" for name in ("fio", "ior", "mdtest"))]  # fmt: skip


def test_all_of_them_are_here(copy: Path) -> None:
    assert [name for name, _ in generate._files()] == FILES


@pytest.mark.parametrize("name", FILES[::3])
def test_drift_is_named_and_repaired(copy: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / name
    whole = file.read_text()
    hand, mark, made = whole.rpartition("<!-- generated:")  # the whole file if it has no mark
    file.write_text(hand + mark + made.replace("`", "'", 1).replace('"type"', '"kind"', 1))
    harmed = file.read_text()
    assert harmed != whole
    assert cli.main(["generate", "--check"]) == 1
    assert capsys.readouterr().out == f"{name} is out of date; run `iosweep generate`\n"
    assert file.read_text() == harmed  # a check changes nothing
    assert cli.main(["generate"]) == 0
    assert capsys.readouterr().out == f"{name} written\n"
    assert file.read_text() == whole
    assert cli.main(["generate", "--check"]) == 0


def test_what_is_written_by_hand_stays(copy: Path) -> None:
    file = copy / "docs/report.md"
    file.write_text("before\n" + file.read_text().replace("| `output`", "| `x`") + "after\n")
    assert generate.generate(check=False) == ["docs/report.md"]
    assert file.read_text().startswith("before\n")
    assert file.read_text().endswith("after\n")
    file.write_text("no marks\n")
    with pytest.raises(ValueError, match=r"docs/report.md lacks the lines `<!-- generated: checks -->`"):
        generate.generate(check=True)


def test_a_new_option_is_drift(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fio = tools()["fio"]
    monkeypatch.setattr(
        fio, "options", {**fio.options, "colour": Option("colour", "flag", True, "A new one.")}, raising=False
    )
    models.sweep_model.cache_clear()
    models.entry_models.cache_clear()
    models.campaign_model.cache_clear()
    models.suite_model.cache_clear()
    try:
        assert set(generate.generate(check=True)) >= {
            FILES[0],
            FILES[1],
            "workflow/iosweep/tools/fio/README.md",
        }
    finally:
        monkeypatch.undo()
        for made in (models.sweep_model, models.entry_models, models.campaign_model, models.suite_model):
            made.cache_clear()


def test_the_schema_takes_the_shipped_configurations(root: Path, campaign_schema: Any) -> None:
    files = [root / "config/sweep.yaml", *sorted((root / "config/examples").glob("*.yaml"))]
    assert len(files) >= 3
    for file in files:
        jsonschema.validate(yaml.safe_load(file.read_text()), campaign_schema)
    suite = json.loads(generate.schema(models.suite_model(), "t"))
    for file in (root / "config/suites").glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text()), suite)


def test_the_shipped_configurations_name_their_schema(root: Path) -> None:
    """So that an editor completes and checks them as one types."""
    for file in (root / "config").rglob("*.yaml"):
        first = file.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        assert (file.parent / first.partition("=")[2]).resolve().parent == root / "workflow/schemas"


@pytest.mark.parametrize(
    "sweep",
    [
        {},
        METADATA,
        {"exclude": [{"queue_depth": 1}, {"queue_depth": [1, 2]}]},
        {"repetitions": {"min": 2, "until_ci95_half_width": "5%"}},
        {"options": {"file_size": 4096, "o_direct": False, "ioengine": "psync"}},
    ],
)
def test_the_schema_takes_what_the_models_take(sweep: dict[str, Any], campaign_schema: Any) -> None:
    jsonschema.validate(document(**sweep), campaign_schema)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("campaign:", "campaing:"),
        ("axes:", "axis:"),
        ("queue_depth:", "queue_deph:"),
        ("tool: fio", "tool: foi"),
        ("[rand_read]", "[rand_raed]"),
        ("[rand_read]", "rand_read"),
        ("[1, 2],", "[0],"),
        ("[1, 2],", "[],"),
        ("[4k, 64k]", "[4KiB]"),
        ("phase_time: 1s", "phase_time: 60"),
        ("file_size: 16m", "o_direct: perhaps"),
        ("quick", "a b"),
        ("{directory: /scratch/me}", "{}"),
        ("target:", "limits: {fill: 0.8}\ntarget:"),
    ],
)
def test_the_schema_refuses_what_the_models_refuse(old: str, new: str, campaign_schema: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(TEXT.replace(old, new, 1)), campaign_schema)


def test_everything_has_a_description() -> None:
    for tool in tools().values():
        for each in (*tool.options.values(), *tool.phases.values()):
            assert each.help
    assert all(c.doc.endswith(".") for c in (*columns.result_columns(), *columns.CHECK_COLUMNS, *columns.NODE_COLUMNS))
    assert all(c.doc for c in checks.OF_A_ROW)
    for model in (models.campaign_model(), sections.Target, sections.Limits, models.Scale, models.SuiteEntry):
        assert [name for name, field in model.model_fields.items() if not field.description] == []
