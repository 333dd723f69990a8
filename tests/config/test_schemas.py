"""The schemas, which are generated from the models (`make lint` compares them): they take and refuse what these do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from campaign import METADATA, TEXT, document

Validate = Callable[[Any], None]
SCHEMAS = Path(__file__).parents[2] / "workflow/schemas"


@pytest.fixture(scope="module")
def validate() -> Validate:
    """By the schema of a campaign."""
    found = json.loads((SCHEMAS / "sweep.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    validator = jsonschema.Draft202012Validator(found)
    return validator.validate


def test_the_schema_takes_what_the_models_take(root: Path, validate: Validate) -> None:
    """And every shipped configuration, which names its schema, so that an editor completes and checks it."""
    suite = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "suite.schema.json").read_text()))
    files = list((root / "config").rglob("*.yaml"))
    assert len(files) > 8
    for file in files:
        text = file.read_text()
        first = text.splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), file
        assert (file.parent / first.partition("=")[2]).resolve().parent == SCHEMAS
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
