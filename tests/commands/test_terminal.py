"""A word while a command is at work: on a terminal only, and nothing of it stays there."""

import os
import pty
import subprocess
import sys

import pytest

pytestmark = pytest.mark.local

SCRIPT = """
import sys, time
from iosweep.commands.terminal import working
with working("reading [results] ..."):
    time.sleep(0.3)
print("done")
"""


def written(term: str, terminal: bool) -> tuple[str, str]:
    """stdout, and what a terminal (or a pipe) as stderr gets."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    stderr = theirs if terminal else subprocess.PIPE
    environment = os.environ | {"TERM": term}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, check=True, env=environment)
    os.close(theirs)
    seen = done.stderr or b""
    if terminal:
        try:
            seen = os.read(ours, 65536)
        except OSError:  # nothing was written
            seen = b""
    os.close(ours)
    return done.stdout.decode(), seen.decode()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_shows_it(term: str) -> None:
    out, seen = written(term, terminal=True)
    assert out == "done\n"
    assert "reading [results] ..." in seen
    assert (term == "dumb") == ("\x1b" not in seen)
    if term == "xterm":  # the line is erased at the end
        assert seen.rindex("\x1b[2K") > seen.rindex("reading")


def test_a_pipe_gets_nothing() -> None:
    assert written("xterm", terminal=False) == ("done\n", "")
