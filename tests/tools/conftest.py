"""What tests of parsers have in common: the samples are short runs, and test_parse.py and *_severity.py have what that
says."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from iosweep.tools.fio.foreign import job_options


@pytest.fixture(scope="module")
def short_runs_are_good() -> Iterator[None]:
    """The samples of fio ran for a second or two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_options, "too_short_to_be_steady", lambda time_s: "")
        yield


@pytest.fixture
def ior_runs_however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples of IOR are runs of milliseconds."""
    module = import_module("iosweep.tools.ior.foreign")
    monkeypatch.setattr(module, "too_short", lambda runtime_s, clock_s: None)
    monkeypatch.setattr(module, "too_short_to_be_steady", lambda time_s: "")
