"""Waiting for a condition instead of sleeping: as long as a busy machine needs, and no longer."""

import time

#: Longest wait, also on a machine that is busy with other tests. A condition that comes true costs no more.
PATIENCE_S = 600


def wait_for(condition, seconds=PATIENCE_S, over=lambda: None, pause_s=0.02):
    """Wait until a condition holds, and return its value; fails after a long while. `over`: the output of a process
    that has ended, or None while it runs: once it has ended there is nothing more to wait for."""
    end = time.monotonic() + seconds
    while True:
        last = over()  # first: the process may do what is waited for, and end
        if value := condition():
            return value
        assert last is None, f"the process that was waited for has ended: {last}"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause_s)


def over(process):
    """For `wait_for`: the output of a process (if we read it), once it has ended."""

    def last():
        if process.poll() is None:
            return None
        said = [part for part in (process.communicate() if process.stdout or process.stderr else ()) if part]
        return f"exit code {process.returncode} {said}"

    return last
