"""What is generated from the code's tables: the schema and parts of the documentation, and that drift is noticed."""

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from campaign import METADATA, TEXT, document
from iosweep.config import models

Validate = Callable[[Any], None]
SCRIPT = Path(__file__).parents[2] / "scripts/generate"
generate = types.ModuleType("generate")
generate.__file__ = str(SCRIPT)
exec(compile(SCRIPT.read_text(), SCRIPT, "exec"), generate.__dict__)  # noqa: S102


@pytest.fixture(scope="module")
def validate() -> Validate:
    """By the schema of a campaign."""
    found = json.loads(generate.schema(models.Campaign, "t"))
    jsonschema.Draft202012Validator.check_schema(found)
    validator = jsonschema.Draft202012Validator(found)
    return validator.validate


def test_drift_is_named_and_repaired_and_what_is_written_by_hand_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = list(generate._files())
    for name, text in made:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    whole, page = tmp_path / made[0][0], tmp_path / "docs/report.md"
    whole.write_text(whole.read_text().replace('"type"', '"kind"', 1))
    page.write_text("before\n" + page.read_text().replace("| `output`", "| `x`") + "after\n")
    harmed = [whole.read_text(), page.read_text()]
    assert generate.main(check=True) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == [made[0][0], "docs/report.md"]
    assert [whole.read_text(), page.read_text()] == harmed  # a check changes nothing
    assert generate.main(check=False) == 0
    assert whole.read_text() == made[0][1]
    assert page.read_text() == f"before\n{dict(made)['docs/report.md']}after\n"
    assert generate.main(check=True) == 0
    page.write_text("no marks\n")
    with pytest.raises(ValueError, match=r"docs/report\.md"):
        generate.generate(check=True)


def test_the_schema_takes_what_the_models_take(root: Path, validate: Validate) -> None:
    """And every shipped configuration, which names its schema, so that an editor completes and checks it."""
    suite = jsonschema.Draft202012Validator(json.loads(generate.schema(models.Suite, "t")))
    files = list((root / "config").rglob("*.yaml"))
    assert len(files) > 8
    for file in files:
        text = file.read_text()
        first = text.splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), file
        assert (file.parent / first.partition("=")[2]).resolve().parent == root / "workflow/schemas"
        (suite.validate if file.parent.name == "suites" else validate)(yaml.load(text, yaml.CSafeLoader))
    sweeps: list[dict[str, Any]] = [
        {},
        METADATA,
        {"exclude": [{"queue_depth": 1}, {"queue_depth": [1, 2]}]},
        {"repetitions": {"min": 2, "until_ci95_half_width": "5%"}},
        {"options": {"file_size": 4096, "o_direct": False, "ioengine": "psync"}},
    ]
    for sweep in sweeps:
        validate(document(**sweep))


def test_the_schema_refuses_what_the_models_refuse(validate: Validate) -> None:
    wrong = [
        ("campaign:", "campaing:"),
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
    ]
    for old, new in wrong:
        try:
            validate(yaml.safe_load(TEXT.replace(old, new, 1)))
        except jsonschema.ValidationError:
            continue
        pytest.fail(f"{new} is taken")
