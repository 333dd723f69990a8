"""Data in a page: compressed, and as it was when it is taken out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.files import embedded


@given(st.binary(max_size=2000))
def test_data_survives_and_repeated_text_takes_little(content: bytes) -> None:
    page = f"<main></main>{embedded.element(content)}<script>1</script>"
    assert embedded.data(page) == content
    assert len(embedded.element(content[:50] * 1000)) < 1000


def test_nothing_in_the_data_ends_its_element_and_a_search_sees_it() -> None:
    element = embedded.element(b"</script><script>alert(1)</script>" * 9)
    assert element.count("<") == 2  # its own begin and end
    assert "alert" not in element
    page = f"<p>before</p>{embedded.element('ä node07'.encode())}<p>behind</p>"
    assert embedded.opened(page) == "<p>before</p>ä node07<p>behind</p>"
    assert embedded.opened("<p>no data</p>") == "<p>no data</p>"


@pytest.mark.parametrize("page", ["<p></p>", embedded.element(b"abc" * 99).replace(">", ">AAAA", 1)])
def test_damage_of_the_data_is_noticed(page: str) -> None:
    with pytest.raises(ValueError, match="data"):
        embedded.data(page)
