"""Student's confidence interval, which decides how often a point is measured and which the report shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import stdev


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval (Student's t) of the mean of at least two values."""
    return _student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values))


@cache
def _student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution (dimensionless)."""
    from scipy.special import stdtrit  # late: a third of a second

    return float(stdtrit(freedom, 0.975))
