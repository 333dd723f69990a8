"""The names of a site in a campaign, and what stands for them in a copy that is given away. Pure.

A name is collected with its kind, from where a document says what it is; then it is replaced wherever it is met, in any
document and in any output of a tool: the same name by the same replacement. How it is met depends on the name:

- one that cannot be anything else (`gpu-node01`) also as a part of words, but `node1` never as a part of `node12`;
  so is one that the user gives;
- any other one (`alice`) as a whole word;
- one that is also a common word, or a short one (`data`, `vm`), only where a host, a user or a path must be.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from iosweep.results import anonymous_views
from iosweep.results import anonymous_words as words
from iosweep.target import marker

Kind = Literal["host", "user", "directory", "file", "domain", "name", "process"]

#: Kind -> its replacement, with its number.
_FORMS: dict[Kind, str] = {"host": "host{}", "user": "user{}", "directory": "dir{}", "domain": "site{}.example"}
_FORMS |= {"name": "name{}", "process": "process{}", "file": "file{}"}
#: Kind -> what the key calls it.
_CALLED = {"directory": "part of a path", "file": "file"}
#: The replacement of the campaign's name.
CAMPAIGN = "campaign"
#: Shorter names are not looked for in running text.
SHORTEST = 3
#: Addresses that stand for others: RFC 2544 has them for benchmarks.
_ADDRESSES = int(ipaddress.IPv4Address("198.18.0.1"))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass
class Names:
    """Collects names (`add`, `read`), then replaces them (`text`, `of`). common: words that a name may also be."""

    common: frozenset[str] = words.COMMON
    _found: dict[Kind, set[str]] = field(default_factory=dict)
    _replaced: dict[tuple[Kind, str], str] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)  # in lower case -> replacement
    _campaigns: set[str] = field(default_factory=set)
    _odd: set[str] = field(default_factory=set)  # directories whose names have blanks or other marks
    _hidden: set[str] = field(default_factory=set)  # names that the user gave, in lower case
    _lists: set[str] = field(default_factory=set)  # `node[01-04]`, of hosts or of anything
    _searched: dict[str, str] = field(default_factory=dict)  # directories on PATH -> replacement
    _pattern: re.Pattern[str] | None = None
    _known: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))

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
        if name.lower() not in words.EVERYWHERE:
            self._found.setdefault(kind, set()).add(name)

    def hide(self, name: str) -> None:
        """Remember a name that the user gives, which is looked for inside words, too. Raises ValueError with the reason
        where it would be found in texts that are no name."""
        if len(name) < SHORTEST or name.isdecimal():
            raise ValueError(f"has less than {SHORTEST} characters, or only digits")
        if name.lower() in self.common:
            raise ValueError("is a word that tools or iosweep itself use")
        self._add("name", name)
        self._hidden.add(name.lower())

    def campaign(self, name: str) -> None:
        """Remember the name of a campaign, of which there is one."""
        self._campaigns.add(name)

    def directory(self, path: str) -> None:
        """Remember a directory, whose name may have blanks."""
        if path.startswith("/") and not re.fullmatch(words.PATH, path):
            self._odd.add(path.rstrip("/"))
        self._components(path)

    def read(self, text: str) -> None:
        """Remember paths, and hosts, users and domains, as a text has them."""
        for match in words.SAYS_HOST.finditer(text):
            self.add("host", match[1] or match[2])
        for match in re.finditer(words.PATH, text):
            self._components(match[0])
        for kind, labeled in words.LABELED.items():
            for match in labeled.finditer(text):
                self.add(kind, next(filter(None, match.groups())).rstrip("."))
        self._lists.update(re.findall(words.HOST_LIST, text))
        for match in words.MAIL.finditer(text):
            self.add("user", match[1])
            self._add("domain", match[2])
        hosts = {host.lower() for host in self._found.get("host", ())}
        for match in words.QUALIFIED.finditer(text):
            if match[1].lower() in hosts and match[2].rpartition(".")[2].lower() not in words.ENDS:
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
        if words.OF_SYSTEM.match(path):
            return
        before = ""
        for part in path.split("/"):
            if part.startswith(marker.name_of("")):
                break  # what is below is iosweep's own
            if before in words.HOMES and part:
                self._add("user", part)
            elif part and not words.is_public(part):
                ends = part.rpartition(".")[0] and part.rpartition(".")[2].lower() in words.ENDS
                self._add("file" if ends else "directory", part)
            before = part

    # --- replacing

    def close(self) -> None:
        """End collecting: number the names, in their natural order."""
        self._complete()
        taken = {name.lower() for names in self._found.values() for name in names}
        seen: dict[str, tuple[Kind, str]] = {}
        for kind in ("host", "user", "domain", "name", "directory", "file", "process"):
            names = sorted(self._found.get(kind, ()), key=_natural)
            number = 0
            for name in names:
                if (low := name.lower()) in seen:  # a directory of a user's name
                    self._replaced[kind, low] = self._replaced[seen[low]]
                    continue
                number += 1
                while (stands := _FORMS[kind].format(number)) in taken:
                    number += 1
                self._replaced[kind, low] = f"{stands}.{low.rpartition('.')[2]}" if kind == "file" else stands
                seen.setdefault(low, (kind, low))
        for (_, low), stands in self._replaced.items():
            if not self.shy(low):
                self._words.setdefault(low, stands)
        for name in self._campaigns:
            self._words[marker.name_of(name).lower()] = marker.name_of(CAMPAIGN)
            if not self.shy(name):
                self._words[name.lower()] = CAMPAIGN
        self._known = re.compile(words.pattern(self._words, frozenset(self._hidden)), re.IGNORECASE)
        self._pattern = re.compile(self._alternatives(), re.IGNORECASE)

    def _complete(self) -> None:
        """Add what names tell of others: hosts of lists, and the organization or the cluster in a host's name."""
        hosts = {name.lower() for name in self._found.get("host", ())}
        for text in self._lists:
            listed = words.listed(text)
            if any(name.lower() in hosts for name in listed):
                for name in listed:
                    self._add("host", name)
        parts = {words.organization(domain) for domain in self._found.get("domain", ())}
        for host in self._found.get("host", ()):
            parts |= {part for part in re.findall(r"[A-Za-z]{4,}", host) if part != host}
        known = {name.lower() for kind in ("host", "user", "domain") for name in self._found.get(kind, ())}
        for part in parts:
            low = part.lower()
            if len(part) > SHORTEST and not self.shy(part) and not words.is_public(part) and low not in known:
                self._add("name", low)

    def shy(self, name: str) -> bool:
        """Whether a name is not looked for in running text, where it may be something else."""
        return len(name) < SHORTEST or name.isdecimal() or name.lower() in self.common

    def _alternatives(self) -> str:
        odd = "|".join(re.escape(path) for path in sorted(self._odd, key=len, reverse=True))
        parts = [rf"(?P<odd>{odd})(?P<below>(?:/[\w.+@%~#$-]*)*)"] if odd else []
        parts += [rf"(?P<path>{words.PATH})", rf"(?P<ip>{words.IP4}|{words.COLONS}|{words.IDS})"]
        parts += [rf"(?P<list>{words.HOST_LIST})"]
        parts += [f"(?P<word>{self._known.pattern})"] if self._words else []
        for kind, comes in (("host", words.HOST_COMES), ("user", words.USER_COMES)):
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
        if hosts := found.get("list"):
            return self._listed(hosts)
        return self._plain(match)

    def _plain(self, match: re.Match[str]) -> str:
        """What stands for a name, however its marks are written."""
        spelled = (one.lower() for one in anonymous_views.spellings(match[0]))
        return next((self._words[one] for one in spelled if one in self._words), match[0])

    def _listed(self, text: str) -> str:
        """`node[01-02]` as `host1,host2`; a list of anything else with the names in it replaced."""
        names = words.listed(text)
        if any(("host", name.lower()) in self._replaced for name in names):
            return ",".join(self.of("host", name) for name in names)
        return self._word(text)

    def _path(self, path: str) -> str:
        system, own, parts = bool(words.OF_SYSTEM.match(path)), False, []
        before = ""
        for part in path.split("/"):
            own = own or part.startswith(marker.name_of(""))
            low = part.lower()
            kind: Kind = "user" if before in words.HOMES else "directory"
            of_kinds = (self._replaced.get((one, low)) for one in (kind, "directory", "file"))
            stands = next(filter(None, of_kinds), None)
            if own or system or stands is None:
                parts.append(self._word(part))
            else:
                parts.append(stands)
            before = part
        return "/".join(parts)

    def _word(self, part: str) -> str:
        """A text that is no path of the site's, or a part of one, without known names in it."""
        return self._known.sub(self._plain, part)

    def search_path(self, text: str) -> str:
        """The value of a variable such as PATH: what the site has in it, and how it is laid out, is left out."""
        return ":".join(self._searched_in(entry) for entry in text.split(":"))

    def _searched_in(self, entry: str) -> str:
        if not entry or words.SYSTEM_PATH.match(entry) or words.OF_SYSTEM.match(f"{entry}/"):
            return entry
        return self._searched.setdefault(entry, f"/path{len(self._searched) + 1}")

    def _address(self, text: str) -> str:
        if text in self._addresses:
            return self._addresses[text]
        number = len(self._addresses)
        if text[8:9] == "-":
            made = f"00000000-0000-4000-8000-{number:012x}"
        elif text[:2] == "0x":
            made = f"0x0200{number:012x}"
        elif words.GUID.match(text):
            made = f"0200:0000:0000:{number & 0xFFFF:04x}"
        elif words.MAC.match(text):
            if not text.strip("0:"):
                return text
            made = "02:" + "00:" * (text.count(":") - 3) + f"00:{number >> 8 & 255:02x}:{number & 255:02x}"
        else:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                return text
            if address.is_loopback or address.is_unspecified or text.startswith("255."):
                return text
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
        return self._replaced.get((kind, low)) or (name if low in words.EVERYWHERE else self.text(name))

    def replacements(self) -> list[tuple[str, str, str]]:
        """(kind, name, replacement) of everything that was met."""
        known = [(_CALLED.get(kind, kind), low, stands) for (kind, low), stands in self._replaced.items()]
        known += [("address", name, stands) for name, stands in self._addresses.items()]
        return known + [("search path", name, stands) for name, stands in self._searched.items()]

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
        names = [name for name in self.originals() if name not in self._replaced.values()]
        kept = {stands.lower() for stands in (*self._words.values(), *self._addresses.values())}
        pattern = re.compile(words.pattern(names, frozenset(self._hidden)), re.IGNORECASE)

        def found(text: str) -> str | None:
            return next((match[0] for match in pattern.finditer(text) if match[0].lower() not in kept), None)

        return found
