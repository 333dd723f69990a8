"""Users and groups in sentences: their name beside the number, where this machine knows one.

This runs inside the agent.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat

from iosweep.text import printable


def user(uid: int) -> str:
    """`user anna (1002)`, or `user id 1002`."""
    try:
        return f"user {printable(pwd.getpwuid(uid).pw_name)} ({uid})"
    except (KeyError, OverflowError):
        return f"user id {uid}"


def group(gid: int) -> str:
    """`group project (1003)`, or `group id 1003`."""
    try:
        return f"group {printable(grp.getgrgid(gid).gr_name)} ({gid})"
    except (KeyError, OverflowError):
        return f"group id {gid}"


def rights(status: os.stat_result) -> str:
    """Who may do what with a file, as far as its mode shows it: `mode 0755, owner root (0)`."""
    return f"mode {stat.S_IMODE(status.st_mode):04o}, owner {user(status.st_uid).removeprefix('user ')}"


def cannot_write(directory: str, status: os.stat_result) -> str:
    """`user anna (1002) cannot write to /x (mode 0755, owner root (0))`. `status`: of the directory."""
    return f"{user(os.getuid())} cannot write to {printable(directory)} ({rights(status)})"
