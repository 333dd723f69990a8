"""What documentation says of each check."""

from iosweep.results.checks import OF_A_ROW
from iosweep.results.checks.described import OF, in_parse


def test_every_check_is_described() -> None:
    """In the order of the tables: where it is not checked, and whether `iosweep parse` makes it."""
    assert [*OF] == [check.name for check in OF_A_ROW]
    assert all(bool(one.parsed) != bool(one.missing) for one in OF.values())
    table = in_parse()
    assert all(f"`{name}`" in table for name in OF)
