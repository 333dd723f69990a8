"""Lists of nodes, as Slurm writes them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.hostlist import folded, some_hosts, unfolded

NUMBERED = st.builds(
    lambda prefix, number, width: f"{prefix}{number:0{width}d}",
    st.sampled_from(["w", "node", "r1n", "a-b.", ""]),
    st.integers(0, 130),
    st.integers(0, 4),
)
ANY = st.text(st.characters(exclude_characters="[],", exclude_categories=["Cs"]), min_size=1)


def _all(count: int) -> list[str]:
    return [f"w{k + 1}" for k in range(count)]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["w1"], "w1"),
        (["login"], "login"),
        (_all(128), "w[1-128]"),
        (["w1", "w2", "w10", "b7"], "w[1-2,10],b7"),
        (["n08", "n09", "n10", "n11"], "n[08-11]"),
        (["n09", "n010", "n11"], "n[09,010,11]"),
        (["a", "a1", "a2", "b"], "a,a[1-2],b"),
        (["w3", "w2", "w1"], "w[3,2,1]"),  # in their order, as Slurm does
        (["a", "a"], "a,a"),
        (["r1-ib", "r2-ib"], "r1-ib,r2-ib"),
    ],
)
def test_lists(names: list[str], text: str) -> None:
    assert folded(names) == text
    assert list(unfolded(text)) == names


@given(st.lists(NUMBERED | st.sampled_from(["w", "node"]) | ANY))
def test_what_is_folded_unfolds(names: list[str]) -> None:
    text = folded(names)
    assert list(unfolded(text)) == names
    assert len(text) <= len(",".join(names)) + 2 * len(names)


@given(st.lists(NUMBERED, min_size=1, unique=True), st.integers(1, 8))
def test_each_node_of_a_sentence_is_named_or_counted(names: list[str], most: int) -> None:
    text = some_hosts(names, most)
    said, _, more = text.partition(" and ")
    count = int(more.partition(" ")[0].replace(",", "") or 0)
    shown = unfolded(said.replace(", ", ","))
    assert len(shown) + count == len(names)
    assert set(shown) <= set(names)


def test_a_long_list_is_cut_in_a_sentence() -> None:
    odd = [f"w{k}" for k in range(1, 100, 2)]
    assert some_hosts(odd, 4) == "w[1,3,5,7] and 46 more nodes"
    assert some_hosts([*_all(128), "b1"], 1) == "w[1-128] and 1 more node"
    assert some_hosts(["n1", "b1"]) == "n1, b1"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("rack[1-2]-ib", ["rack1-ib", "rack2-ib"]),
        ("n[1-2],b7", ["n1", "n2", "b7"]),
    ],
)
def test_other_forms_of_slurm(text: str, names: list[str]) -> None:
    assert list(unfolded(text)) == names


@pytest.mark.parametrize("text", ["w[1-2", "w1]", "w[]", "w[2-1]", "w[1-]", "w[a-b]", "a,,b", ",a", "w[1-99999999]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape("not a ")):
        unfolded(text)
