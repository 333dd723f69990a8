"""Words and patterns by which names of a site are found, and told from words that everybody has. Pure."""

from __future__ import annotations

# ruff: noqa: SIM905  lists of words are read as text
import html
import re
from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import quote

#: Words that tools, file systems and iosweep write themselves; with the names that a campaign's plan has.
COMMON = frozenset(
    """
    access admin agent all api archive backup bandwidth barrier bench benchmark bin block boot bound build bytes cache
    campaign cause check checks client clock cluster cold command common compute config core count cpu create data date
    default delete demo dev device dir direct directory disk done empty end engine error etc example exclusive export
    failed false file files fill first free fresh full global good group guest hard head high home host hosts images
    index info input inter intra invalid io ior item items job jobs keep kernel label large last latency lib limit line
    linux list load local localhost lock log login low lustre machine main management marker master max mdtest mean
    media memory meta min missing mnt mode mount mpi name network new nfs nobody node nodes none null number off open
    operation opt options order other output path performance phase phases pinning plan point points pool posix private
    probe proc process processes project projects public quick rand rank ranks rate raw read reason removal rename
    report reserved result results root run runs samples scratch script seed sequential server servers service sets
    share shared shm shuffle size slow slurm small software source spack srv stat state storage store subset summary
    sweep sys system target task tasks temp test tests text thread threads time tiny tmp tool tools total transfer tree
    true type unknown unlink user users usr valid value var verify version volume wait weka work write xfer
    bash chromium cp dd find firefox gcc git go java make mpiexec node perl python python3 rsync ruby sh ssh sshd sudo
    systemd tar top vim
    """.split()
)
#: Users and hosts of every system.
EVERYWHERE = frozenset(("root", "nobody", "daemon", "bin", "sys", "localhost", "localhost.localdomain", "?", ""))
#: Directories that every system has, and programs: components of a path that say nothing about a site.
PUBLIC = frozenset(
    """
    bin boot cgroup dev etc home lib lib32 lib64 libexec local lost+found media mnt opt proc root run sbin share shm srv
    src sys tmp usr user users var lustre weka beegfs gpfs scratch spack store builds fio ior mdtest mpiexec mpirun
    mpiexec.hydra hydra_pmi_proxy srun env python python3 bash sh true dd results points raw config iosweep go cargo
    """.split()
)
PUBLIC_MATCH = re.compile(
    r"\.\.?|\d{1,3}|(nvme\d+n\d+(p\d+)?|[sv]d[a-z]+\d*|xvd[a-z]+\d*|md\d+|dm-\d+|loop\d+)|nvidia\d*"
)
#: Below these everything belongs to the system.
OF_SYSTEM = re.compile(r"/(proc|sys|etc|s?bin|lib\d*|usr/(?!local/)[^/]+)(/|\Z)")
#: Directories of programs and libraries that every system has.
SYSTEM_PATH = re.compile(r"/(usr/)?(local/)?(s?bin|lib\d*)/?\Z")
HOMES = frozenset(("home", "users", "homes", "user"))
PATH = r"(?<![\w./<\\%)\]+])/(?=[\w.@~$])[\w.+@%~#$-]*(?:/[\w.+@%~#$-]*)*"
IP4 = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"
#: IPv6 and MAC addresses, those of InfiniBand (20 bytes) among them; also times, which are no address.
COLONS = r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,19}(?![\w:]|\.\d)"
#: UUIDs, and GUIDs of InfiniBand.
IDS = r"(?<![0-9A-Za-z-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z-])|\b0x[0-9A-Fa-f]{16}\b"
MAC = re.compile(r"([0-9A-Fa-f]{2}:){5}([0-9A-Fa-f]{2}:){0,14}[0-9A-Fa-f]{2}\Z")
GUID = re.compile(r"[0-9A-Fa-f]{4}(:[0-9A-Fa-f]{4}){3}\Z")
MAIL = re.compile(r"([\w.+-]+)@((?:[A-Za-z][\w-]*\.)+[A-Za-z]{2,})")
QUALIFIED = re.compile(r"(?<![\w.-])([A-Za-z][\w-]*)((?:\.[A-Za-z][\w-]*)+)(?![\w-])")
#: Hosts as Slurm lists them: `node[01-04,07]`.
HOST_LIST = r"(?<![\w.-])[A-Za-z][\w.-]*\[\d[\d,-]*\]"
#: Where a host must be, before names that are common words.
HOST_COMES = r'(?:"host(?:name)?"\s*:\s*"|\bMachine\s*:\s*\w+\s+|\bhost(?:name)?[ =]|\bon host |@)'
#: Where fio and IOR say the host.
SAYS_HOST = re.compile(r'"hostname"\s*:\s*"([^"\s]{1,255})"|^Machine\s*:\s*\w+\s+([\w.-]{1,255})', re.MULTILINE)
#: Where a user must be.
USER_COMES = r"\buser(?:name)?[ =]"
#: Where a text gives a value its kind: variables of the environment, and messages of Slurm and of devices.
LABELED: Mapping[Literal["host", "user", "name"], re.Pattern[str]] = {
    "host": re.compile(r'\b(?:SLURMD?_\w*(?:HOST|NODENAME)|HOSTNAME)[=:]\s*"?([\w.-]+)'),
    "user": re.compile(r'\b(?:SLURM_JOB_USER|USER|LOGNAME|USERNAME)[=:]\s*"?([\w.-]+)'),
    "name": re.compile(
        r'\bSLURM_\w*(?:PARTITION|ACCOUNT|CLUSTER_NAME|QOS|RESERVATION|JOB_NAME)[=:]\s*"?([\w.-]+)'
        r"|\b(?:partition|account|qos|reservation|cluster|serial(?: number)?)(?:=|\s+[`'\"])([\w.-]+)",
        re.IGNORECASE,
    ),
}
#: Ends of files, which are no domains.
ENDS = frozenset("json log txt out err yaml yml py so csv html parquet zip lock toml cfg conf sh gz zst".split())
#: Second parts of domains under which organizations have theirs: `acme.co.uk`.
_SHARED = frozenset("ac co com edu gov net org".split())
#: A name of this length with a digit or a mark in it, or of that many letters, is no part of another word by chance.
_DISTINCT, _LONG = 5, 8
_HEX = re.compile(r"[0-9a-f]+\Z", re.IGNORECASE)
#: Where a word begins: after anything but a letter or a digit, or after an escaped character.
_BEGINS = r"(?:(?<![0-9A-Za-z])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"


def is_public(part: str) -> bool:
    """Whether a part of a path says nothing of a site."""
    return part.lower() in PUBLIC or bool(PUBLIC_MATCH.fullmatch(part))


def organization(domain: str) -> str:
    """The part of a domain that names who has it; empty where none does: `hpc.acme.co.uk` -> `acme`."""
    labels = domain.lower().split(".")
    known = labels[:-1] if len(labels) > 1 and labels[-2] not in _SHARED else labels[:-2]
    return known[-1] if known else ""


def listed(text: str, most: int = 10_000) -> list[str]:
    """The hosts of `node[01-04,07]`; none of a list that is none, or too long."""
    before, _, inner = text.rstrip("]").partition("[")
    found: list[str] = []
    for part in inner.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or len(first) > 9 or len(last) > 9:
            return []
        numbers = range(int(first), int(last or first) + 1)
        if len(found) + len(numbers) > most:
            return []
        found += [f"{before}{number:0{len(first)}}" for number in numbers]
    return found


def distinct(name: str) -> bool:
    """Whether a name is found inside words, too: `node07` in `zebra_node07`."""
    if re.fullmatch(r"[^\W\d_]+", name):
        return len(name) >= _LONG and not _HEX.match(name)
    return len(name) >= _DISTINCT and not _HEX.match(name)


def pattern(names: Iterable[str], inside: frozenset[str] = frozenset()) -> str:
    """A pattern of names in running text, also as JSON, HTML, URLs and shells write their marks; the longest first.

    inside: names that are found inside words though they are not distinct.
    """
    groups: dict[tuple[bool, str, str], list[list[str]]] = {}
    for name in names:
        if distinct(name) or name in inside:
            bounds = (r"(?<!\d)" if name[0].isdigit() else "", r"(?!\d)" if name[-1].isdigit() else "")
            key = (False, *bounds)
        else:
            key = (True, _BEGINS, r"(?![0-9A-Za-z])")
        groups.setdefault(key, []).append([_spelled(character) for character in name])
    parts = [f"{before}{_tree(spelled)}{after}" for (_, before, after), spelled in sorted(groups.items())]
    return "|".join(parts) or r"(?!)"


def _spelled(character: str) -> str:
    """The pattern of a character: a letter or a digit of ASCII as it is, any other one also escaped."""
    if character.isascii() and character.isalnum():
        return character
    code = ord(character)
    ways = [rf"\\?{re.escape(character)}", re.escape(html.escape(character))]
    ways += [rf"\\u{code:04x}"] if code < 1 << 16 else []
    ways += [rf"\\x{code:02x}"] if code < 1 << 8 else []
    ways += [f"&#0*{code};", f"&#x0*{code:x};"]
    if character.isprintable():
        ways.append(quote(character, safe="") if quote(character, safe="") != character else f"%{code:02x}")
    return f"(?:{'|'.join(dict.fromkeys(ways))})"


def _tree(words: list[list[str]]) -> str:
    """The pattern of words, each of parts: beginnings that several have are tried once. Longer words come first."""
    if len(words) == 1:
        return "".join(words[0])
    heads: dict[str, list[list[str]]] = {}
    for word in words:
        if word:
            heads.setdefault(word[0], []).append(word[1:])
    if len(heads) == 1 and all(words):
        ((head, tails),) = heads.items()
        return head + _tree(tails)
    found = "|".join(head + _tree(tails) for head, tails in heads.items())
    return f"(?:{found})" if all(words) else f"(?:{found})?"


def kinds_of(names: Iterable[str]) -> frozenset[str]:
    """Words of names that are no site's: of points, sweeps and options. `fio.rand_read.4k` has fio, rand_read, 4k."""
    return frozenset(word.lower() for name in names for word in (name, *re.split(r"[.+]", name)))
