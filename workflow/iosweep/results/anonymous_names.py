"""The names of a site in a campaign, and what stands for them in a copy that is given away. Pure.

A name is collected with its kind, from where a document says what it is; then it is replaced wherever it is met, in any
document and in any output of a tool: the same name by the same replacement. How it is met depends on the name:

- one that cannot be anything else (`gpu-node01`) also as a part of words, but `node1` never as a part of `node12`;
- any other one (`alice`) as a whole word;
- one that is also a common word, or a short one (`data`, `vm`), only where a host, a user or a path must be.
"""

from __future__ import annotations

# ruff: noqa: SIM905  lists of words are read as text
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from iosweep.target import marker

Kind = Literal["host", "user", "directory", "domain", "name", "process"]

#: Kind -> its replacement, with its number.
_FORMS: dict[Kind, str] = {"host": "host{}", "user": "user{}", "directory": "dir{}", "domain": "site{}.example"}
_FORMS |= {"name": "name{}", "process": "process{}"}
#: The replacement of the campaign's name.
CAMPAIGN = "campaign"
#: Shorter names are not looked for in running text.
SHORTEST = 3
#: A name of this length with a digit or a mark in it is no part of another word by chance.
_DISTINCT = 5
_HEX = re.compile(r"[0-9a-f]+\Z", re.IGNORECASE)

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
_EVERYWHERE = frozenset(("root", "nobody", "daemon", "bin", "sys", "localhost", "localhost.localdomain", "?", ""))
#: Directories that every system has, and programs: components of a path that say nothing about a site.
_PUBLIC = frozenset(
    """
    bin boot cgroup dev etc home lib lib32 lib64 libexec local lost+found media mnt opt proc root run sbin share shm srv
    src sys tmp usr user users var lustre weka beegfs gpfs scratch spack store builds fio ior mdtest mpiexec mpirun
    mpiexec.hydra hydra_pmi_proxy srun env python python3 bash sh true dd results points raw config iosweep go cargo
    """.split()
)
_PUBLIC_MATCH = re.compile(
    r"\.\.?|\d{1,3}|(nvme\d+n\d+(p\d+)?|[sv]d[a-z]+\d*|xvd[a-z]+\d*|md\d+|dm-\d+|loop\d+)|nvidia\d*"
)
#: Below these everything belongs to the system.
_OF_SYSTEM = re.compile(r"/(proc|sys|etc|s?bin|lib\d*|usr/(?!local/)[^/]+)(/|\Z)")
_HOMES = frozenset(("home", "users", "homes", "user"))
_PATH = r"(?<![\w./<\\%)\]+])/(?=[\w.@~$])[\w.+@%~#$-]*(?:/[\w.+@%~#$-]*)*"
_IP4 = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"
_COLONS = r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:]|\.\d)"
_MAC = re.compile(r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\Z")
_MAIL = re.compile(r"([\w.+-]+)@((?:[A-Za-z][\w-]*\.)+[A-Za-z]{2,})")
_QUALIFIED = re.compile(r"(?<![\w.-])([A-Za-z][\w-]*)((?:\.[A-Za-z][\w-]*)+)(?![\w-])")
#: Where a host must be, before names that are common words.
_HOST_COMES = r'(?:"host(?:name)?"\s*:\s*"|\bMachine\s*:\s*\w+\s+|\bhost(?:name)?[ =]|\bon host |@)'
#: Where fio and IOR say the host.
_SAYS_HOST = re.compile(r'"hostname"\s*:\s*"([^"\s]{1,255})"|^Machine\s*:\s*\w+\s+([\w.-]{1,255})', re.MULTILINE)
#: Where a user must be.
_USER_COMES = r"\buser(?:name)?[ =]"
#: Ends of files, which are no domains.
_ENDS = frozenset("json log txt out err yaml yml py so csv html parquet zip lock toml cfg conf sh gz zst".split())
#: Addresses that stand for others: RFC 2544 has them for benchmarks.
_ADDRESSES = int(ipaddress.IPv4Address("198.18.0.1"))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass
class Names:
    """Collects names (`add`, `read`), then replaces them (`text`, `of`). common: words that a name may also be."""

    common: frozenset[str] = COMMON
    _found: dict[Kind, set[str]] = field(default_factory=dict)
    _replaced: dict[tuple[Kind, str], str] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)  # in lower case -> replacement
    _campaigns: set[str] = field(default_factory=set)
    _odd: set[str] = field(default_factory=set)  # directories whose names have blanks or other marks
    _pattern: re.Pattern[str] | None = None

    # --- collecting

    def add(self, kind: Kind, name: str) -> None:
        """Remember a name, where a document says that it is of this kind."""
        if kind == "host":
            name, dot, domain = name.partition(".")
            if re.fullmatch(r"[\d.:]*", name + dot + domain):
                return  # an address
            if dot:
                self._add("domain", domain)
        self._add(kind, name)

    def _add(self, kind: Kind, name: str) -> None:
        if name.lower() not in _EVERYWHERE:
            self._found.setdefault(kind, set()).add(name)

    def campaign(self, name: str) -> None:
        """Remember the name of a campaign, of which there is one."""
        self._campaigns.add(name)

    def directory(self, path: str) -> None:
        """Remember a directory, whose name may have blanks."""
        if path.startswith("/") and not re.fullmatch(_PATH, path):
            self._odd.add(path.rstrip("/"))
        self._components(path)

    def read(self, text: str) -> None:
        """Remember paths, and hosts, users and domains, as a text has them."""
        for match in _SAYS_HOST.finditer(text):
            self.add("host", match[1] or match[2])
        for match in re.finditer(_PATH, text):
            self._components(match[0])
        for match in _MAIL.finditer(text):
            self.add("user", match[1])
            self._add("domain", match[2])
        hosts = {host.lower() for host in self._found.get("host", ())}
        for match in _QUALIFIED.finditer(text):
            if match[1].lower() in hosts and match[2].rpartition(".")[2].lower() not in _ENDS:
                self._add("domain", match[2][1:])

    def source(self, source: str, fstype: str) -> None:
        """Remember servers and the file system of a mount's source: `a@tcp:b@tcp:/fs`, `a,b/fs`, `server:/path`."""
        servers, colon, path = source.rpartition(":/")
        if not colon and "/" in source and not source.startswith("/"):
            servers, _, path = source.partition("/")
        for server in filter(None, re.split(r"[,:;]", servers)):
            self.add("host", server.partition("@")[0].strip("[]"))
        if servers or source.startswith("/"):
            self._components(path)
        elif source not in (fstype, "none", "overlay", "rootfs"):
            self._add("directory", source)

    def _components(self, path: str) -> None:
        if _OF_SYSTEM.match(path):
            return
        before = ""
        for part in path.split("/"):
            if part.startswith(marker.name_of("")):
                break  # what is below is iosweep's own
            if before in _HOMES and part:
                self._add("user", part)
            elif part and not _is_public(part):
                self._add("directory", part)
            before = part

    # --- replacing

    def close(self) -> None:
        """End collecting: number the names, in their natural order."""
        taken = {name.lower() for names in self._found.values() for name in names}
        seen: dict[str, tuple[Kind, str]] = {}
        for kind in ("host", "user", "domain", "name", "directory", "process"):
            names = sorted(self._found.get(kind, ()), key=_natural)
            number = 0
            for name in names:
                if (low := name.lower()) in seen:  # a directory of a user's name
                    self._replaced[kind, low] = self._replaced[seen[low]]
                    continue
                number += 1
                while (stands := _FORMS[kind].format(number)) in taken:
                    number += 1
                self._replaced[kind, low] = stands
                seen.setdefault(low, (kind, low))
        for (_, low), stands in self._replaced.items():
            if not self.shy(low):
                self._words.setdefault(low, stands)
        for name in self._campaigns:
            self._words[marker.name_of(name).lower()] = marker.name_of(CAMPAIGN)
            if not self.shy(name):
                self._words[name.lower()] = CAMPAIGN
        self._pattern = re.compile(self._alternatives(), re.IGNORECASE)

    def shy(self, name: str) -> bool:
        """Whether a name is not looked for in running text, where it may be something else."""
        return len(name) < SHORTEST or name.isdecimal() or name.lower() in self.common

    def _alternatives(self) -> str:
        odd = "|".join(re.escape(path) for path in sorted(self._odd, key=len, reverse=True))
        words = "|".join(bounded(word) for word in sorted(self._words, key=len, reverse=True))
        parts = [rf"(?P<odd>{odd})(?P<below>(?:/[\w.+@%~#$-]*)*)"] if odd else []
        parts += [rf"(?P<path>{_PATH})", rf"(?P<ip>{_IP4}|{_COLONS})"]
        parts += [f"(?P<word>{words})"] if words else []
        for kind, comes in (("host", _HOST_COMES), ("user", _USER_COMES)):
            shy = [low for own, low in self._replaced if own == kind and self.shy(low)]
            names = "|".join(re.escape(low) for low in sorted(shy, key=len, reverse=True))
            parts += [rf"(?P<before_{kind}>{comes})(?P<{kind}>{names})(?![0-9A-Za-z])"] if names else []
        return "|".join(parts)

    def text(self, text: str, addresses: bool = True) -> str:
        """A text with all names replaced. addresses: also those of networks, which versions may look like."""
        assert self._pattern is not None
        return self._pattern.sub(lambda match: self._match(match, addresses), text)

    def _match(self, match: re.Match[str], addresses: bool) -> str:
        found = match.groupdict()
        if path := found.get("path"):
            return self._path(path)
        if odd := found.get("odd"):
            return self._path(odd + (found.get("below") or ""))
        if ip := found.get("ip"):
            return self._address(ip) if addresses else ip
        if host := found.get("host"):
            return f"{found['before_host']}{self.of('host', host)}"
        if user := found.get("user"):
            return f"{found['before_user']}{self.of('user', user)}"
        return self._words.get(match[0].lower(), match[0])

    def _path(self, path: str) -> str:
        system, own, parts = bool(_OF_SYSTEM.match(path)), False, []
        before = ""
        for part in path.split("/"):
            own = own or part.startswith(marker.name_of(""))
            low = part.lower()
            kind: Kind = "user" if before in _HOMES else "directory"
            stands = self._replaced.get((kind, low)) or self._replaced.get(("directory", low))
            if own or system or stands is None:
                parts.append(self._word(part))
            else:
                parts.append(stands)
            before = part
        return "/".join(parts)

    def _word(self, part: str) -> str:
        """A part of a path that stays, without known names in it."""
        return re.sub(self._known, lambda match: self._words.get(match[0].lower(), match[0]), part, flags=re.IGNORECASE)

    @property
    def _known(self) -> str:
        return "|".join(bounded(word) for word in sorted(self._words, key=len, reverse=True)) or r"(?!)"

    def _address(self, text: str) -> str:
        if text in self._addresses:
            return self._addresses[text]
        if _MAC.match(text):
            if text == "00:00:00:00:00:00":
                return text
            made = f"02:00:00:00:{len(self._addresses) >> 8 & 255:02x}:{len(self._addresses) & 255:02x}"
        else:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                return text
            if address.is_loopback or address.is_unspecified or text.startswith("255."):
                return text
            number = len(self._addresses)
            made = str(
                ipaddress.IPv4Address(_ADDRESSES + number)
                if address.version == 4
                else ipaddress.IPv6Address(f"2001:db8::{number + 1:x}")
            )
        self._addresses[text] = made
        return made

    def of(self, kind: Kind, name: str) -> str:
        """What stands for a name where a document says its kind; a name that was not collected stays as text."""
        low = name.lower()
        if kind == "host" and "." in name and ("host", name.partition(".")[0].lower()) in self._replaced:
            short, _, domain = low.partition(".")
            return f"{self._replaced['host', short]}.{self._replaced.get(('domain', domain), domain)}"
        return self._replaced.get((kind, low)) or (name if low in _EVERYWHERE else self.text(name))

    def replacements(self) -> list[tuple[str, str, str]]:
        """(kind, name, replacement) of everything that was met."""
        found: list[tuple[str, str, str]] = [(kind, low, stands) for (kind, low), stands in self._replaced.items()]
        return found + [("address", name, stands) for name, stands in self._addresses.items()]

    # --- checking

    def originals(self) -> Iterator[str]:
        """Names that must not be left anywhere: all that are looked for in running text, and addresses."""
        yield from self._words
        yield from self._addresses

    def careful(self) -> list[tuple[Kind, str]]:
        """Hosts and users that are also common words, or short: replaced where a document says what they are."""
        return sorted((k, low) for k, low in self._replaced if k in ("host", "user") and self.shy(low))

    def left_in(self) -> Callable[[str], str | None]:
        """text -> the first original name in it; None without."""
        names = [bounded(name) for name in self.originals() if name not in self._replaced.values()]
        kept = {stands.lower() for stands in (*self._words.values(), *self._addresses.values())}
        pattern = re.compile("|".join(sorted(names, key=len, reverse=True)) or r"(?!)", re.IGNORECASE)

        def found(text: str) -> str | None:
            return next((match[0] for match in pattern.finditer(text) if match[0].lower() not in kept), None)

        return found


def bounded(name: str) -> str:
    """The pattern of a name in running text."""
    exact = re.escape(name)
    if len(name) >= _DISTINCT and re.search(r"[\d_.-]", name) and not _HEX.match(name):
        return (r"(?<!\d)" if name[0].isdigit() else "") + exact + (r"(?!\d)" if name[-1].isdigit() else "")
    return rf"(?<![0-9A-Za-z]){exact}(?![0-9A-Za-z])"


def _is_public(part: str) -> bool:
    return part.lower() in _PUBLIC or bool(_PUBLIC_MATCH.fullmatch(part))


def kinds_of(names: Iterable[str]) -> frozenset[str]:
    """Words of names that are no site's: of points, sweeps and options. `fio.rand_read.4k` has fio, rand_read, 4k."""
    return frozenset(word.lower() for name in names for word in (name, *re.split(r"[.+]", name)))
