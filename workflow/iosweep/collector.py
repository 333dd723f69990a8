"""Python's collector of cycles, where it finds none among millions of small values: it takes a sixth of the time of
large tables, and a third of that of a large plan."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(stays: bool = False) -> Iterator[None]:
    """Without collections. stays: what was made in the block lives as long as the process, and is passed over by later
    collections, too."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if stays:
            gc.freeze()
        if was:
            gc.enable()
