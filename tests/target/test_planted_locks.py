"""Locks that another user has planted, forged or holds: each is named, and stops no campaign for which there is no way
round."""

import os
import random
from collections.abc import Callable

import pytest

from planted_locks import PLANTS, attack, drawn

pytestmark = pytest.mark.local

as_root = pytest.mark.skipif(os.getuid() != 0, reason="root: needed to become other users")


@as_root
@pytest.mark.parametrize("kind", PLANTS)
def test_planted(kind: str) -> None:
    attack(PLANTS[kind])


@as_root
def test_planted_at_random(rounds: Callable[[int, int], int], draw: random.Random) -> None:
    for _ in range(rounds(10, 500)):
        attack(drawn(draw))
