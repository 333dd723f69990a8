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
    "documentation": ["scripts/docs"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_style_types_and_documentation_are_clean(name: str, root: Path, tmp_path: Path) -> None:
    argv = [*CHECKS[name], tmp_path] if name == "documentation" else CHECKS[name]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


#: Room -> most lines and modules of Python that it may have. Take something away before you raise one.
CEILINGS = {
    "": (1_120, 8),
    "analysis": (3_020, 11),
    "commands": (3_010, 19),
    "config": (1_860, 7),
    "files": (560, 3),
    "ingest": (410, 3),
    "jobs": (930, 5),
    "judge": (3_290, 15),
    "node": (3_130, 12),
    "plan": (1_150, 6),
    "programs": (680, 3),
    "report": (2_520, 9),
    "run": (2_690, 10),
    "slurm": (240, 2),
    "store": (990, 4),
    "tables": (1_370, 5),
    "target": (2_210, 8),
    "tools": (4_190, 17),
}


def test_no_room_grows(root: Path) -> None:
    package = root / "workflow/iosweep"
    rooms: dict[str, list[Path]] = {}
    for file in package.rglob("*.py"):
        below = file.relative_to(package).parts
        rooms.setdefault(below[0] if len(below) > 1 else "", []).append(file)
    for room, files in rooms.items():
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        most_lines, most_modules = CEILINGS[room]
        assert (lines <= most_lines, len(files) <= most_modules) == (True, True), (room, lines, len(files))
