"""Locks that another user has planted, forged or holds: each is named, and stops no campaign for which there is no way
round."""

import os

import pytest

from planted_locks import PLANTS, attack


@pytest.mark.skipif(os.getuid() != 0, reason="root: needed to become other users")
@pytest.mark.parametrize("kind", PLANTS)
def test_planted(kind: str) -> None:
    attack(kind)
