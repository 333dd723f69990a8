"""Files that come from the code's own tables: schema, key reference, columns, checks, options of the tools."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from iosweep.config import models, sections
from iosweep.judge import checks
from iosweep.tables import columns
from iosweep.tools import Option, Tool, tools
from iosweep.tools.axes import NODES

ROOT = Path(__file__).resolve().parents[3]
_BEGIN, _END = "<!-- generated: {} -->", "<!-- end -->"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file is out of date")


def run(arguments: Namespace) -> int:
    stale = generate(check=arguments.check)
    for file in stale:
        print(f"{file} {'is out of date; run `iosweep generate`' if arguments.check else 'written'}")
    return int(bool(stale) and arguments.check)


def generate(check: bool) -> list[str]:
    """Write what is out of date (or, with `check`, only name it). Returns the names."""
    stale = []
    for name, text in _files():
        file = ROOT / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    return stale


def _files() -> Iterator[tuple[str, str]]:
    yield "workflow/schemas/sweep.schema.json", schema(models.campaign_model(), "A configuration of iosweep")
    yield "workflow/schemas/suite.schema.json", schema(models.suite_model(), "A suite of iosweep")
    yield "docs/columns.md", columns.markdown()
    yield "docs/report.md", _between("docs/report.md", "checks", checks.markdown())
    yield "config/README.md", _between("config/README.md", "keys", _keys())
    for tool in tools().values():
        name = f"workflow/iosweep/tools/{tool.name}/README.md"
        yield name, _between(name, "options", _options(tool))


class _Schema(GenerateJsonSchema):
    """Leaves defaults that are models out: they would be written in our units, not in those of a configuration."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        if isinstance(schema.get("default"), int | str | None):
            return super().default_schema(schema)
        return self.generate_inner(schema["schema"])


def schema(model: type[BaseModel], title: str) -> str:
    """JSON Schema (draft 2020-12) of a configuration file, for editors and for tests."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    document |= {k: v for k, v in model.model_json_schema(schema_generator=_Schema).items() if k != "title"}
    return json.dumps(_tidy(document), indent=2) + "\n"


def _tidy(node: object) -> object:
    """Defaults in SI units and empty defaults say nothing to the writer of a configuration; descriptions name them."""
    if isinstance(node, dict):
        return {k: _tidy(v) for k, v in node.items() if not (k == "default" and not isinstance(v, str))}
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    return node


def _between(name: str, part: str, text: str) -> str:
    """A hand-written file with its generated part replaced."""
    file, begin = ROOT / name, _BEGIN.format(part)
    before = file.read_text(encoding="utf-8") if file.exists() else f"{begin}\n{_END}\n"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(_END)}", re.DOTALL)
    if not pattern.search(before):
        raise ValueError(f"{name} lacks the lines `{begin}` and `{_END}`")
    return pattern.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{_END}", before)


def _keys() -> str:
    """Every key of a configuration. Sweeps of all tools have the same keys; their options are in the tools' READMEs."""
    sections_of: list[tuple[str, type[BaseModel]]] = [
        ("The file", models.campaign_model()),
        ("`target`", sections.Target),
        ("`limits`", sections.Limits),
        ("`cpus`", sections.Cpus),
        ("`tools`", sections.Tools),
        ("`sweeps`: a sweep", models.sweep_model(next(iter(tools().values())))),
        ("`repetitions`, as a mapping", models.Repetitions),
        ("`sweeps`: a suite", models.SuiteEntry),
        ("`scale`, as a mapping", models.Scale),
    ]
    return "\n\n".join(f"### {title}\n\n{_model_table(model)}" for title, model in sections_of)


def _model_table(model: type[BaseModel]) -> str:
    """Keys of a model with their meanings."""
    rows = [
        (f"`{name}`{' *' if info.is_required() else ''}", " ".join((info.description or "").split()))
        for name, info in model.model_fields.items()
    ]
    return _table(("key", "meaning"), rows)


def _options(tool: Tool) -> str:
    """Tables of a tool's options and phases."""
    options = [(f"`{o.name}`", _type(o), o.default_text, o.help, _where(o)) for o in (NODES, *tool.options.values())]
    phases = [(f"`{p.name}`", p.kind, p.help, f"`{p.metric}`") for p in tool.phases.values()]
    return "\n\n".join(
        [
            _table(("axis or option", "type", "default", "meaning", "phases"), options),
            _table(("phase", "kind", "what it does", "headline"), phases),
        ]
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def _type(option: Option) -> str:
    if option.kind == "choice":
        return ", ".join(option.choices)
    return {"size": "size", "count": f"whole number from {option.minimum}", "flag": "true, false"}[option.kind]


def _where(option: Option) -> str:
    if option.phases:
        return ", ".join(sorted(option.phases))
    return "all" if len(option.kinds) > 1 else next(iter(option.kinds))
