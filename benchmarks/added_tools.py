"""The tools of the benchmarks, which are imported before any module that makes tables of all tools."""

from pathlib import Path

import iosweep.tools

iosweep.tools.__path__.append(str(Path(__file__).resolve().parent / "tools"))
