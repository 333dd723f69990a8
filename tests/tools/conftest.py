"""What tests of parsers have in common: the samples are short runs, and other tests have what that says."""

from collections.abc import Iterator

import pytest

import iosweep.tools.fio.output as fio_output
import iosweep.tools.ior.output as ior_output
import iosweep.tools.mdtest.output as mdtest_output


@pytest.fixture
def short_runs_are_good() -> Iterator[None]:
    """The samples of fio ran for a second or two, and those of IOR and mdtest for milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (fio_output, ior_output):
            patch.setattr(module, "too_short_to_be_steady", lambda time_s: "")
        for module in (ior_output, mdtest_output):
            patch.setattr(module, "too_short", lambda *_: [])
        yield
