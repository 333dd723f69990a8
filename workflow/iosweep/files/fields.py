"""Types of the fields of stored documents, with their bounds. msgspec checks both when a document is read.

Results may be received from others, with digests that are right: a value must not be larger than a table, a file name
or a sum of all results can hold.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from iosweep.units import MOST_COUNT, MOST_SECONDS

#: What fits into a column of a table.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
#: The highest number of a repetition or a try: file names have 6 digits at most.
MOST_TRIES = 999_999
#: Repetitions of all points of a campaign together.
MOST_REPETITIONS = 1_000_000

Integer = Annotated[int, Meta(ge=_LEAST, le=_MOST)]
Count = Annotated[int, Meta(ge=0, le=_MOST)]
#: Finite, and small enough that its square is finite.
Number = Annotated[float, Meta(ge=float(_LEAST), le=float(_MOST))]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=float(MOST_SECONDS))]
Deadline = Annotated[float, Meta(gt=0, le=float(MOST_SECONDS))]
#: Nodes, or repetitions of a point.
Some = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
TryNumber = Annotated[int, Meta(ge=1, le=MOST_TRIES)]
#: A name that becomes part of a path: of a point, an allocation, a sweep or a campaign.
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\Z")
Name = Annotated[str, Meta(pattern=NAME.pattern)]
#: The kernel takes paths of 4,096 bytes; longer ones are refused when they are used. None has a NUL.
PathText = Annotated[str, Meta(min_length=1, max_length=1 << 16, pattern=r"\A[^\x00]*\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]


class Part(msgspec.Struct, frozen=True):
    """A part of a stored document."""
