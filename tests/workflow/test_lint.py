"""What `make lint` runs, so that what is tested is clean as well."""

import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE_S

pytestmark = pytest.mark.local

BIN = Path(sys.executable).parent

CHECKS = {
    "style": [BIN / "ruff", "check"],
    "format": [BIN / "ruff", "format", "--check"],
    "types": [BIN / "mypy"],
    "rooms": [BIN / "lint-imports"],
    "rules": [BIN / "snakefmt", "--check", "Snakefile", "workflow/rules"],
    "generated files": [sys.executable, "scripts/generate", "--check"],
    "workflow": [sys.executable, "scripts/lint-workflow"],
    "picture of the rooms": [sys.executable, "scripts/draw-rooms", "--check"],
    "documentation": ["scripts/docs"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_style_types_and_documentation_are_clean(name: str, root: Path, tmp_path: Path) -> None:
    argv = [*CHECKS[name], tmp_path] if name == "documentation" else CHECKS[name]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
