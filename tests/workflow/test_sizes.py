"""Files and functions fit on a few screens, and what is stored or passed on has a type."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES, FUNCTION_LINES = 600, 60
#: Mappings from text to Any in all product modules together. Lower it with each one that gets a type.
UNTYPED = 9


def modules(root: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((root / "workflow").rglob("*.py")):
        yield str(file.relative_to(root)), file.read_text(encoding="utf-8")


def test_no_module_is_too_long(root: Path) -> None:
    found = {name: text.count("\n") for name, text in modules(root)}
    assert {name: lines for name, lines in found.items() if lines > MODULE_LINES} == {}


def test_no_function_is_too_long(root: Path) -> None:
    found = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) + 1 - node.lineno
        for name, text in modules(root)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in found.items() if lines > FUNCTION_LINES} == {}


def test_few_mappings_are_untyped(root: Path) -> None:
    untyped = re.compile(r"\b(?:Mapping|MutableMapping|dict)\[str, Any\]")
    found = {name: len(untyped.findall(text)) for name, text in modules(root)}
    assert sum(found.values()) <= UNTYPED, {name: count for name, count in found.items() if count}
