"""Lists of nodes, as Slurm writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.hostlist import folded, hosts, unfolded

NUMBERED = st.builds(
    lambda prefix, number, width, suffix: f"{prefix}{number:0{width}d}{suffix}",
    st.sampled_from(["w", "node", "r1n", "a-b.", ""]),
    st.integers(0, 130),
    st.integers(0, 4),
    st.sampled_from(["", ".cluster"]),
)
ANY = st.text(st.characters(exclude_characters="[],", exclude_categories=["Cs"]), min_size=1)


def test_lists_are_folded_as_slurm_does() -> None:
    for text, names in {
        "": [],
        "login": ["login"],
        "w[1-128]": [f"w{k + 1}" for k in range(128)],
        "w[1-2,10],b7": ["w1", "w2", "w10", "b7"],
        "n[08-11]": ["n08", "n09", "n10", "n11"],
        "n[09,010,11]": ["n09", "n010", "n11"],
        "a,a[1-2],b": ["a", "a1", "a2", "b"],
        "w[3,2,1]": ["w3", "w2", "w1"],  # in their order
        "a,a": ["a", "a"],
        "r1-ib,r2-ib,r[3-4]": ["r1-ib", "r2-ib", "r3", "r4"],  # no brackets in the middle of a name
        "n1.hpc,n2.hpc": ["n1.hpc", "n2.hpc"],
    }.items():
        assert folded(names) == text
        assert list(unfolded(text)) == names


def test_other_forms_of_slurm_are_unfolded() -> None:
    for text, names in {
        "r[1-2]n[01-02]": ["r1n01", "r1n02", "r2n01", "r2n02"],
        "rack[1-2]-ib": ["rack1-ib", "rack2-ib"],
        "n[1-2],b7": ["n1", "n2", "b7"],
    }.items():
        assert list(unfolded(text)) == names


@given(st.lists(NUMBERED | st.sampled_from(["w", "node"]) | ANY))
def test_what_is_folded_unfolds(names: list[str]) -> None:
    text = folded(names)
    assert list(unfolded(text)) == names
    assert len(text) <= len(",".join(names)) + 2 * len(names)


@given(st.sets(NUMBERED | st.sampled_from(["w", "node"]), min_size=1))
def test_a_sentence_has_each_node_once_or_how_many_there_are(names: set[str]) -> None:
    text = hosts(names)
    if "in all" in text:
        assert f"... {len(names)} in all" in text or "[" in text
    else:
        assert sorted(unfolded(text.replace(", ", ","))) == sorted(names)


def test_what_is_no_list_is_refused() -> None:
    for text in ("w[1-2", "w1]", "w[]", "w[2-1]", "w[1-]", "w[a-b]", "a,,b", ",a", "w[1-99999999]"):
        with pytest.raises(ValueError, match="not a "):
            unfolded(text)
