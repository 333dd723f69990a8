"""Which source files the tables and the report depend on: those that Python really loads, and no list kept by hand."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iosweep import dag, sources

LOADED = """
import importlib, sys
for name in sys.argv[1:]: importlib.import_module(name)
from iosweep.tools import tools
tools()
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "iosweep": print(module.__file__)
"""


@pytest.mark.local
@pytest.mark.parametrize("modules", [dag._TABLES_CODE, dag._REPORT_CODE])
def test_all_that_python_loads_is_among_them(modules: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *modules], stdout=subprocess.PIPE, text=True, check=True)
    loaded = set(map(Path, done.stdout.splitlines()))
    assert sources.PACKAGE / "units.py" in loaded
    assert loaded <= set(sources.of(modules))


def test_a_change_makes_only_what_depends_on_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "iosweep"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)

    def digests() -> tuple[str, str]:
        sources._read.cache_clear()
        sources._imported.cache_clear()
        return sources.digest(dag._TABLES_CODE), sources.digest(dag._REPORT_CODE, dag._REPORT_FILES)

    made_again = {
        "judge/checks/cpus.py": (True, False),
        "tools/fio/output.py": (True, True),
        "report/page.css": (False, True),
        "report/page.py": (False, True),
        "commands/watch.py": (False, False),
    }
    found = {}
    for changed in made_again:
        before = digests()
        (copy / changed).write_text((copy / changed).read_text() + "\n# changed\n")
        found[changed] = tuple(a != b for a, b in zip(before, digests(), strict=True))
    assert found == made_again


def test_every_form_of_import_is_found() -> None:
    texts: dict[bytes, set[str]] = {
        b"from iosweep.units import human_size": {"iosweep.units", "iosweep.units.human_size"},
        b"from iosweep import (\n    a,  # why\n    b as c,\n)\n": {"iosweep", "iosweep.a", "iosweep.b"},
        b"def f():\n    from iosweep import late\n": {"iosweep", "iosweep.late"},
        b"import iosweep.one as x, iosweep.two  # both\n": {"iosweep.one", "iosweep.two"},
        b'"""imports: from iosweep import nothing"""': set(),
    }
    assert {text: set(sources._names(text)) for text in texts} == texts
