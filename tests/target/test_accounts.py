"""Users and groups in sentences."""

import os
import stat

import pytest

from iosweep.target import accounts, parents


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    def user(uid: int) -> object:
        return type("User", (), {"pw_name": {1001: "mallory", 1002: "anna\x1b[31m"}[uid]})

    def group(gid: int) -> object:
        return type("Group", (), {"gr_name": {1003: "project"}[gid]})

    monkeypatch.setattr(accounts.pwd, "getpwuid", user)
    monkeypatch.setattr(accounts.grp, "getgrgid", group)


@pytest.mark.usefixtures("known")
def test_names_beside_numbers() -> None:
    assert accounts.user(1001) == "user mallory (1001)"
    assert accounts.user(1) == "user id 1"
    assert accounts.group(1003) == "group project (1003)"
    assert accounts.group(1) == "group id 1"
    assert "\x1b" not in accounts.user(1002)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("me", "helps"),
    [
        (0, "`chmod +t /p` or `chmod g-w /p`"),
        (1001, "`chmod +t /p` or `chmod g-w /p`"),
        (1002, "ask its owner (mallory) for `chmod +t /p`"),
    ],
)
def test_what_helps_who_may_do_it(monkeypatch: pytest.MonkeyPatch, me: int, helps: str) -> None:
    """Who is not the owner cannot change the mode, and may be there by the group's right."""
    monkeypatch.setattr(os, "getuid", lambda: me)
    status = os.stat_result((stat.S_IFDIR | 0o2775, 1, 1, 2, 1001, 1003, 0, 0, 0, 0))
    found = parents.written("/p", status)
    assert found.fact == "group project (1003) can write to /p (mode 2775, owner mallory (1001))"
    assert found.helps == helps
    assert ("g-w" in found.helps) == (me != 1002)
