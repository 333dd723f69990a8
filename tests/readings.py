"""What a reading says, for tests."""

from iosweep.tools import Reading


def texts(reading: Reading) -> list[str]:
    """The texts of its problems, notes left out."""
    return [problem.text for problem in reading.problems if problem.severity != "note"]
