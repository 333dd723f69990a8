"""Causes that are recognized in error texts of the C library, fio and Slurm."""

import errno
import os

import pytest

from iosweep.causes import cause


@pytest.mark.parametrize(
    ("number", "text", "curable"),
    [
        (errno.ENOSPC, "the target is full (space or inodes)", False),
        (errno.EDQUOT, "a quota on the target is used up", False),
        (errno.EROFS, "the target is read-only", False),
        (errno.EACCES, "permission on the target is lacking", False),
        (errno.EIO, "the target reports an I/O error", False),
        (errno.ENOTCONN, "the target's client or server is gone", True),
        (errno.ESTALE, "the target's server does not know its own files any more", True),
        (errno.ETIMEDOUT, "the target's server did not answer in time", True),
        (errno.ECONNABORTED, "the target's file system client was ended while a request was in flight", True),
        (errno.ENXIO, "a data server of the target cannot be reached", True),
    ],
)
def test_error_text_names_the_cause(number: int, text: str, curable: bool) -> None:
    found = cause(f"fio: pid=7, err={number}/file:filesetup.c:240, func=write, error={os.strerror(number)}\n")
    assert found
    assert (found.text, found.curable) == (text, curable)
    assert found.server == curable
    assert found.full == (number in (errno.ENOSPC, errno.EDQUOT))


@pytest.mark.parametrize("said", ["", "fio: bad option", "no space", "error 28"])
def test_unknown_text_names_no_cause(said: str) -> None:
    assert cause(said) is None


def test_error_texts_are_those_of_the_c_library() -> None:
    """The C library's words, which tools print whatever the locale, as they do not set one."""
    assert (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)) == ("No space left on device", "Disk quota exceeded")
