"""YAML files with the position of every value.

YAML 1.2's core schema, so that `off`, `1:30` and `010` mean what they say; duplicate keys are errors. Snakemake's own
`config` has lost the line numbers that an error must name.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iosweep.errors import ConfigError, Problem
from iosweep.text import printable

KeyPath = tuple[str | int, ...]

#: In place of a file's name, for values that are not from a file.
COMMAND_LINE = "command line"


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's idea of bool, int and float, and no timestamps."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first) + ([""] if _tag == "null" else [])
    )


_Loader.add_constructor(
    "tag:yaml.org,2002:int", lambda _, node: int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)
)
#: Pattern of a message of the parser -> what to do.
_REMEDIES = {
    r"'\\t'": "indent with spaces",
    "not allowed here|<block": "check the indentation, and put a value with `: ` or `- ` in quotes",
    "expected ','|end of stream": "close the bracket or quote that is open",
    "cannot start|but found '|undefined alias|tag": "put the value in quotes",
}


@dataclass(frozen=True)
class Document:
    """A parsed file: its data, its text, and the line of every path in it.

    `given`: paths whose values are from the command line.
    """

    file: str
    text: str
    data: Any
    lines: dict[KeyPath, int]
    given: frozenset[KeyPath] = frozenset()

    def line(self, path: KeyPath) -> int:
        """Line of a path, or of its nearest parent in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem with the value at a path."""
        if path in self.given:
            return Problem(COMMAND_LINE, 0, dotted(path), message)
        return Problem(self.file, self.line(path), dotted(path), message)


def dotted(path: KeyPath) -> str:
    """('sweeps', 0, 'axes') -> sweeps[0].axes"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def written(value: object) -> str:
    """A value as YAML writes it, not Python: `null`, `true`, `["a"]`."""
    yaml_only = value is None or isinstance(value, bool | list | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if yaml_only else str(value)


def load(file: Path) -> Document:
    """Read one YAML file. Raises ConfigError: unreadable, not YAML, a key twice, not a mapping."""
    name = printable(os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError([Problem(name, 1, "", f"cannot be read: {reason}")]) from None
    return parse(name, text)


def parse(name: str, text: str) -> Document:
    """Read the text of a YAML file of this name. Raises ConfigError: not YAML, a key twice, not a mapping."""
    lines: dict[KeyPath, int] = {}
    problems: list[Problem] = []
    data = None
    try:
        loader = _Loader(text)
        if (node := loader.get_single_node()) is not None:
            _walk(node, (), lines, problems, name)
            data = None if problems else loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, yaml.reader.ReaderError):
            line, what = text.count("\n", 0, error.position), f"the control character #x{error.character:02x}"
        elif isinstance(error, RecursionError):
            line = max(lines.values(), default=1) - 1  # where the walk had come to
            what = "it is nested too deeply, or an alias stands inside what it names; write it out"
        else:
            mark = getattr(error, "problem_mark", None)
            line = mark.line if mark else 0
            what = getattr(error, "problem", None) or (str(error) or "it is nested too deeply")[:200]
        remedy = next((remedy for pattern, remedy in _REMEDIES.items() if re.search(pattern, what)), "")
        raise ConfigError([Problem(name, line + 1, "", f"not valid YAML: {what}", remedy)]) from None
    if problems:
        raise ConfigError(problems)
    if not isinstance(data, dict):
        raise ConfigError([Problem(name, 1, "", "must be a mapping of keys to values")])
    return Document(name, text, data, lines)


def _walk(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], problems: list[Problem], file: str) -> None:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if isinstance(node, yaml.ScalarNode) and not _is_text(node.value):
        problems.append(Problem(file, line, dotted(path), _NO_TEXT))
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            below = (*path, str(key.value))
            if key.value == "<<":  # only a word in YAML 1.2
                problems.append(Problem(file, line, dotted(path), "merge keys (<<) are not supported; use an alias"))
            elif not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                problems.append(Problem(file, line, dotted(path), "keys must be text; put this one in quotes"))
            elif not _is_text(key.value):
                problems.append(Problem(file, line, dotted(path), f"a key {_NO_TEXT}"))
            elif key.value in seen:
                twice = f"is defined twice (first on line {seen[key.value]})"
                problems.append(Problem(file, line, dotted(below), twice))
            else:
                seen[key.value] = line
                lines[below] = line
                _walk(value, below, lines, problems, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), lines, problems, file)


_NO_TEXT = "contains a control character or an unpaired surrogate"


def _is_text(value: str) -> bool:
    """Whether a text is printable. YAML's escapes may make control characters and surrogates (\\ud800)."""
    return not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in value)
