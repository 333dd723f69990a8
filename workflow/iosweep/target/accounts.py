"""Users and groups in sentences: their name beside the number, where this machine knows one.

This runs inside the agent.
"""

from __future__ import annotations

import grp
import pwd

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
