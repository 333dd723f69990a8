"""Names of a site are replaced wherever they are met, and nothing else is."""

import pytest

from iosweep.results.anonymous_names import Names
from iosweep.results.anonymous_words import listed, organization

pytestmark = pytest.mark.unit


def names(**found: list[str]) -> Names:
    made = Names()
    for kind, all_ in found.items():
        for one in all_:
            made.add(kind, one)  # type: ignore[arg-type]
    return made


def closed(made: Names, *texts: str) -> Names:
    for text in texts:
        made.read(text)
    made.close()
    return made


def test_a_host_is_no_part_of_another_one() -> None:
    made = closed(names(host=["node1", "node12", "gpu-node1"]))
    text = made.text("node1 node12 node123 gpu-node1 node1-ib xnode1x NODE12:/x node1.")
    assert text == "host2 host3 node123 host1 host2-ib xhost2x host3:/x host2."
    assert made.left_in()("only node123 here") is None
    assert made.left_in()("Node1 here") == "Node1"


def test_a_word_is_replaced_as_a_whole() -> None:
    made = closed(names(user=["alice", "bob"], host=["alpha"]))
    assert made.text("alice malice bob_data bobby alpha alphabet") == "user1 malice user2_data bobby host1 alphabet"


def test_common_and_short_names_are_replaced_where_they_must_be_hosts() -> None:
    made = closed(names(host=["data", "vm"], user=["test"]))
    text = '"hostname" : "vm", random data in vm, rank 0 on host data, data=random, "test"'
    assert made.text(text) == '"hostname" : "host2", random data in vm, rank 0 on host host1, data=random, "test"'
    assert made.of("host", "vm") == "host2"
    assert made.of("user", "test") == "user1"
    assert made.careful() == [("host", "data"), ("host", "vm"), ("user", "test")]


def test_names_with_marks_of_patterns() -> None:
    made = names(user=["a.b+c", "x(y", "$z[1]"], name=["ACME (Corp)", "müller"])
    made.close()
    text = made.text("a.b+c axbbc x(y $z[1] ACME (Corp) acme (corp) Müller")
    assert text == "user2 axbbc user3 user1 name1 name1 name2"


def test_paths() -> None:
    made = names(host=["node07"])
    made.campaign("acme-night")
    made.directory("/lustre/acme/my bench")
    text = "--directory=/lustre/acme/my bench/iosweep-acme-night/sets/fio-read-4m-1 /home/carol/x.sh, /usr/bin/fio"
    closed(made, text, "/opt/acme/bin/ior /proc/self/io 100MiB/s read/write +/- 3 https://host/x a/b")
    assert made.text(text) == (
        "--directory=/lustre/dir1/dir3/iosweep-campaign/sets/fio-read-4m-1 /home/user1/file1.sh, /usr/bin/fio"
    )
    same = "/proc/self/io 100MiB/s read/write +/- 3 /dev/nvme0n1p2 /dev/shm / 0/0"
    assert made.text(same) == same
    assert made.text("/opt/acme/bin/ior of carol in acme") == "/opt/dir1/bin/ior of user1 in dir1"
    assert made.text("campaign acme-night") == "campaign campaign"


def test_domains_and_mail() -> None:
    made = names(host=["node1.hpc.acme.com", "node2"])
    closed(made, "on node2.hpc.acme.com see node2.json or dave@acme.com")
    text = made.text("node1.hpc.acme.com node2.hpc.acme.com node2.json dave@acme.com eve@hpc.acme.com")
    assert text == "host1.site2.example host2.site2.example host2.json user1@site1.example eve@site2.example"
    assert made.of("host", "node1.hpc.acme.com") == "host1.site2.example"


def test_addresses() -> None:
    made = closed(names())
    text = made.text("10.1.2.3@o2ib:10.1.2.4 10.1.2.3 127.0.0.1 fe80::1:2 12:34:56 aa:bb:cc:dd:ee:ff std::string 1.2.3")
    assert text == (
        "198.18.0.1@o2ib:198.18.0.2 198.18.0.1 127.0.0.1 2001:db8::3 12:34:56 02:00:00:00:00:03 std::string 1.2.3"
    )
    assert made.text("4.3.5.118", addresses=False) == "4.3.5.118"
    assert made.left_in()("to 10.1.2.4:5") == "10.1.2.4"


@pytest.mark.parametrize(
    ("source", "fstype", "replaced"),
    [
        ("mds1@tcp:mds2@tcp:/acmefs", "lustre", "host1@tcp:host2@tcp:/dir1"),
        ("10.0.0.1@o2ib:/acmefs", "lustre", "198.18.0.1@o2ib:/dir1"),
        ("filer.acme.com:/export/acme", "nfs4", "host1.site1.example:/dir1/name1"),
        ("back1,back2/acmefs", "wekafs", "host1,host2/dir1"),
        ("acmegpfs", "gpfs", "dir1"),
        ("tmpfs", "tmpfs", "tmpfs"),
        ("/dev/nvme0n1p2", "ext4", "/dev/nvme0n1p2"),
        ("/dev/mapper/vg_acme", "xfs", "/dev/mapper/dir2"),
    ],
)
def test_sources_of_mounts(source: str, fstype: str, replaced: str) -> None:
    made = names()
    made.source(source, fstype)
    made.close()
    got = made.text(source)
    assert got == replaced or "mapper" in source
    assert "acme" not in got


def test_replacements_are_no_names_of_the_site() -> None:
    made = closed(names(host=["host1", "host2", "node1"]))
    assert made.text("host1 host2 node1") == "host3 host4 host5"
    assert made.left_in()("host3 host4 host5") is None


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("gpu%2Dnode07 gpu\\u002dnode07 gpu&#45;node07 gpu&#x2d;node07 gpu\\-node07", "host1 host1 host1 host1 host1"),
        ("zebra_gpu-node07 gpu-node07-ib0 GPU-Node07.local xgpu-node07x", "zebra_host1 host1-ib0 host1.local xhost1x"),
        ("\\nalice %2Falice \\u0022alice m%C3%BCller m\\u00fcller", "\\nuser1 %2Fuser1 \\u0022user1 user2 user2"),
        ("gpu-node[07,09-10]: error", "host1,host2,host3: error"),
        ("task[0-3] gpu-node071 malice", "task[0-3] gpu-node071 malice"),
    ],
)
def test_a_name_is_found_however_it_is_written(text: str, replaced: str) -> None:
    made = names(host=["gpu-node07"], user=["alice", "müller"])
    closed(made, "gpu-node[07,09-10]")
    assert made.text(text) == replaced
    assert made.left_in()(replaced) is None


def test_names_that_other_names_tell() -> None:
    made = closed(names(host=["zebra-node1", "n2.hpc.acme.co.uk"]))
    assert made.text("of zebra, for ACME") == "of name2, for name1"


def test_names_that_a_text_labels() -> None:
    text = "SLURM_JOB_PARTITION=zeta SLURM_JOB_ACCOUNT=omega USER=carol SLURMD_NODENAME=nid7 SLURM_CLUSTER_NAME=eiger"
    text += " partition 'rho1' serial=XK77 the partition and the account"
    made = closed(names(), text)
    left = made.text(text)
    for name in ("zeta", "omega", "carol", "nid7", "eiger", "rho1", "XK77"):
        assert name not in left
    assert left.endswith("the partition and the account")


def test_ids_of_hardware() -> None:
    made = closed(names())
    text = "0c2c1d3e-1111-2222-3333-444455556666 0x506b4b0300ab1234 506b:4b03:00ab:1234 80:00:02:08:fe:80:00:00:00:00"
    left = made.text(text)
    assert left.split()[:3] == ["00000000-0000-4000-8000-000000000000", "0x0200000000000001", "0200:0000:0000:0002"]
    assert left.split()[3].startswith("02:00:00:")
    assert made.left_in()(text)
    assert made.text("at 12:34:56") == "at 12:34:56"


def test_a_name_of_the_user_is_found_inside_words() -> None:
    made = names()
    made.hide("acme")
    made.close()
    assert made.text("MyAcmeFs acme2") == "Myname1Fs name12"
    assert made.left_in()("xxAcmexx")
    for name in ("hp", "42", "node"):
        with pytest.raises(ValueError, match=r"characters|word"):
            made.hide(name)


def test_search_paths_are_left_out() -> None:
    made = closed(names())
    assert made.search_path("/home/eve/bin:/usr/bin:/opt/x/y:/home/eve/bin:/usr/local/sbin:") == (
        "/path1:/usr/bin:/path2:/path1:/usr/local/sbin:"
    )
    assert ("search path", "/opt/x/y", "/path2") in made.replacements()


def test_the_key_names_files_and_parts_of_paths() -> None:
    made = closed(names(), "/proj/zeus/run.sh")
    assert made.replacements() == [
        ("part of a path", "proj", "dir1"),
        ("part of a path", "zeus", "dir2"),
        ("file", "run.sh", "file1.sh"),
    ]


def test_lists_of_hosts() -> None:
    assert listed("n[08-10,3]") == ["n08", "n09", "n10", "n3"]
    assert not listed("n[1-99999999]")
    assert not listed("n[,]")
    assert (organization("hpc.acme.co.uk"), organization("acme.com"), organization("local")) == ("acme", "acme", "")
