"""A copy of a campaign's store in which no name of the site is left; merge makes the tables from it as from any other.

Copied are the plan of the tables, what was measured with its raw output, and what is known of nodes, builds, data sets
and missing points. Digests, keys of nodes and builds, and hashes of archives are made anew, because names are in what
they are of. Free text that nobody can judge is left out: comments and descriptions of the configuration.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import orjson
import yaml
from msgspec import structs

from iosweep.errors import Unusable
from iosweep.files import documents, safe_paths
from iosweep.node import cpu_record, io_record, monitor, node_facts, pinning
from iosweep.plan import model, settings, sweep_facts
from iosweep.plan.model import Plan, read_plan
from iosweep.programs import builds
from iosweep.results import build_files, campaign_form, record
from iosweep.results.anonymous_names import CAMPAIGN, Names
from iosweep.results.anonymous_views import BYTES
from iosweep.results.anonymous_words import COMMON, kinds_of
from iosweep.results.campaign_documents import DataSet, Missing, Refusal, TotalSpent
from iosweep.results.columns import CHECK_COLUMNS, result_columns
from iosweep.results.committed import RESULT_FILE
from iosweep.results.raw_output import pack
from iosweep.results.record import Record
from iosweep.results.store import Store
from iosweep.text import printable
from iosweep.tools import parameters, tools

#: A value of JSON.
Json = object
#: Keys whose texts are hosts, users, or directories; and whose texts may look like addresses.
_HOSTS = frozenset(("host", "hosts", "allocation_hosts", "own", "unread"))
_USERS = frozenset(("user", "trusted_writers"))
_DIRECTORIES = frozenset(("directory", "lock", "path", "prefix"))
_VERSIONS = frozenset(("version", "kernel", "os", "package", "packages", "iosweep", "pin", "compiler", "cpu_model"))
#: Keys below which the keys are hosts.
_OF_HOSTS = frozenset(("nodes", "ran_on", "moved"))
#: Variables of the environment that list directories; and that tell where on earth a site is.
_SEARCH_PATHS = frozenset(("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"))
_COUNTRY = frozenset(("TZ", "LANG", "LC_ALL"))
#: Text that stands for a description of the user.
_LEFT_OUT = "left out"
#: The stream of what nodes counted, which is not text; and those that are a document of JSON on each line.
_COUNTS, _DOCUMENTS = "monitor", ("hosts", "progress")
#: Folders of documents -> their type.
_FOLDERS: Mapping[str, type[documents.Document]] = {"sets": DataSet, "refusals": Refusal}
_KEY = re.compile(r"[0-9a-f]{12}\Z")


@dataclass
class _Keys:
    """Keys of nodes and builds -> those of their copies."""

    nodes: dict[str, str] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)


def names_of(plan: Plan, common: frozenset[str]) -> Names:
    """Names without any yet, which take no word of a plan, of a table or of the tools for a name of the site."""
    own = kinds_of([name for p in plan.points for name in (p.id, *p.sweeps)])
    own |= kinds_of(one.name for one in plan.allocations)
    own |= {name for tool in tools().values() for name in (*tool.phases, *tool.options, tool.name)}
    own |= {str(c).lower() for option in parameters().values() for c in (option.name, *option.choices)}
    own |= {column.name for column in (*result_columns(), *CHECK_COLUMNS)}
    own |= {name for kind in _structs() for name in kind.__struct_fields__}
    return Names(COMMON | common | own)


def _structs() -> Iterator[type[msgspec.Struct]]:
    for module in (record, cpu_record, io_record, node_facts, campaign_form, model, settings, sweep_facts, pinning):
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, msgspec.Struct):
                yield found


def copy(plan_file: Path, source: Path, into: Path, names: Names) -> Path:
    """Write the copy below `into`, which is empty; returns the file of its plan. `names`: collects, and knows after.

    Raises Damaged, Unusable, OSError.
    """
    plan, store = read_plan(plan_file), Store(source)
    _collect(plan, store, names)
    names.close()
    keys = _Keys()
    _nodes(store, into, names, keys)
    _builds(store, into, names, keys)
    for folder, kind in _FOLDERS.items():
        for file in _files(source, folder, ".json"):
            document = _transform(names, documents.read(source / folder / file, kind))
            safe_paths.write(into, f"{folder}/{file}", documents.dump(_object(document), indent=True))
    if spent := store.document(TotalSpent):
        safe_paths.write(into, "spent.json", documents.dump(spent, indent=True))
    for point in plan.points:
        _point(store, point.id, into, names, keys)
    made = _plan(plan, names)
    plan_copy = f"plans/{made.digest}.json"
    safe_paths.write(into, plan_copy, made.document())
    return into / plan_copy


def _files(source: Path, folder: str, end: str) -> list[str]:
    return [name for name in safe_paths.names(source, folder) if name.endswith(end) and not name.startswith(".")]


# --- collecting


def _collect(plan: Plan, store: Store, names: Names) -> None:
    names.campaign(plan.campaign)
    _see(names, msgspec.to_builtins(plan.target), "")
    for one in plan.configuration:
        names.read(one.file + "\n" + one.text)
    for folder in ("nodes", "builds", *_FOLDERS):
        for file in _files(store.path, folder, ".json"):
            _see(names, documents.read(store.path / folder / file), "")
    for point in plan.points:
        for file in _files(store.path, f"points/{point.id}", ".json"):
            if RESULT_FILE.match(file) or file == "missing.json":
                _see(names, documents.read(store.path / "points" / point.id / file), "")
    # once hosts are known, texts tell their domains
    for point in plan.points:
        for file in _files(store.path, f"points/{point.id}", ".zip"):
            for stream, data in _members(store.path / "points" / point.id / file):
                _see_output(names, stream, data)


def _see_output(names: Names, stream: str, data: bytes) -> None:
    """Collect the names of a stream of raw output."""
    if stream == _COUNTS:

        def seen(host: str) -> str:
            names.add("host", host)
            return host

        monitor.renamed(data, seen)
    elif (lines := _lines(stream, data)) is not None:
        for line in lines:
            _see(names, line, "")
    else:
        names.read(data.decode(*BYTES))


def _lines(stream: str, data: bytes) -> list[Json] | None:
    """The lines of a stream that has a document of JSON on each; None: it is another stream, or damaged."""
    if stream not in _DOCUMENTS:
        return None
    try:
        return [orjson.loads(line) for line in data.splitlines()]
    except orjson.JSONDecodeError:
        return None


def _see(names: Names, value: Json, key: str) -> None:
    """Collect the names of a document. key: that of the value."""
    if isinstance(value, dict):
        if isinstance(source := value.get("source"), str) and isinstance(fstype := value.get("fstype"), str):
            names.source(source, fstype)
        if (name := value.get("name")) and value.get("user", "root") != "root" and "share" in value:
            names.add("process", str(name))
        for name, one in value.items():
            if key in _OF_HOSTS:
                names.add("host", name)
            _see(names, one, name)
    elif isinstance(value, list):
        for one in value:
            _see(names, one, _of_member(one, key))
    elif isinstance(value, str):
        if key in _HOSTS:
            names.add("host", value)
        elif key in _USERS:
            names.add("user", value)
        elif key in _DIRECTORIES:
            names.directory(value)
        names.read(value)


def _of_member(value: Json, key: str) -> str:
    """The key that a member of a list counts as having. `nodes` is a list of hosts, or of what was seen on some."""
    if isinstance(value, str):
        return "hosts" if key == "nodes" else key
    return ""


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(stream, content) of the members of an archive of raw output."""
    for name, data in unzipped(documents.content(archive, 256 << 20), archive).items():
        yield name.rpartition(".")[2].partition("@")[0], data


def unzipped(data: bytes, archive: Path) -> dict[str, bytes]:
    """The members of an archive, stderr among them. Raises Damaged."""
    from iosweep.results.raw_output import MOST_UNPACKED

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if sum(member.file_size for member in file.infolist()) > MOST_UNPACKED:
                raise documents.Damaged(archive, "it unpacks to more than tools may print")
            return {member.filename: file.read(member) for member in file.infolist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise documents.Damaged(archive, f"it cannot be unpacked: {error}") from None


# --- replacing


def _transform(names: Names, value: Json, key: str = "", keys: _Keys | None = None) -> Json:
    """A document with its names replaced. key: that of the value."""
    if isinstance(value, dict):
        if key == "environment":
            return _environment(names, value)
        if (name := value.get("name")) and value.get("user", "root") != "root" and "share" in value:
            value = value | {"name": names.of("process", str(name))}
        hosts = key in _OF_HOSTS
        return {(names.of("host", k) if hosts else k): _transform(names, v, k, keys) for k, v in value.items()}
    if isinstance(value, list):
        return [_transform(names, v, _of_member(v, key), keys) for v in value]
    if not isinstance(value, str):
        return value
    if keys and _KEY.match(value) and (new := keys.nodes.get(value) or keys.builds.get(value)):
        return new
    if key == "campaign":
        return CAMPAIGN
    if key in _HOSTS:
        return names.of("host", value)
    if key in _USERS:
        return names.of("user", value)
    return names.text(value, addresses=key not in _VERSIONS)


def _environment(names: Names, variables: Mapping[str, Json]) -> Json:
    """Variables of the environment: search paths without what the site has on them, nothing that tells the country."""
    return {
        name: names.search_path(value)
        if name in _SEARCH_PATHS and isinstance(value, str)
        else _transform(names, value, name)
        for name, value in variables.items()
        if name not in _COUNTRY
    }


def _object(value: Json) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _nodes(store: Store, into: Path, names: Names, keys: _Keys) -> None:
    for file in _files(store.path, "nodes", ".json"):
        facts = documents.read(store.path / "nodes" / file, node_facts.NodeFacts)
        made = documents.fits(_object(_transform(names, facts)), node_facts.NodeFacts, file)
        key = node_facts.key(made)
        keys.nodes[file.removesuffix(".json")] = key
        safe_paths.write(into, f"nodes/{key}.json", documents.dump(made, indent=True))


def _builds(store: Store, into: Path, names: Names, keys: _Keys) -> None:
    for name, document in store.builds().items():
        made = _object(_transform(names, document))
        beside: dict[str, bytes] = {}
        for end, hashed in build_files.BESIDE.items():
            file = store.path / "builds" / f"{name}.{end}"
            environment = made.get("environment")
            if os.path.lexists(file) and isinstance(environment, dict):
                beside[end] = names.text(documents.content(file, documents.MOST_BYTES).decode()).encode()
                if hashed in environment:
                    environment[hashed] = hashlib.sha256(beside[end]).hexdigest()
        key = builds.key(made)
        keys.builds[name] = key
        safe_paths.write(into, f"builds/{key}.json", documents.dump(made, indent=True))
        for end, data in beside.items():
            safe_paths.write(into, f"builds/{key}.{end}", data)


def _point(store: Store, point: str, into: Path, names: Names, keys: _Keys) -> None:
    """Copy what was measured of a point. What was superseded or is damaged stays behind."""
    folder = store.path / "points" / point
    for file in _files(store.path, f"points/{point}", ".json"):
        if file == "missing.json":
            document = _transform(names, documents.read(folder / file, Missing))
            safe_paths.write(into, f"points/{point}/{file}", documents.dump(_object(document)))
        elif RESULT_FILE.match(file):
            known = documents.read(folder / file, Record)
            archive = folder / file.replace(".json", ".zip")
            members = unzipped(documents.content(archive, 256 << 20), archive)
            packed = pack({name: _output(names, name, data) for name, data in members.items()})
            made = documents.fits(_object(_transform(names, known, keys=keys)), Record, folder / file)
            raw = structs.replace(made.raw, sha256=hashlib.sha256(packed).hexdigest(), bytes=len(packed))
            safe_paths.write(into, f"points/{point}/{raw.name}", packed)
            safe_paths.write(into, f"points/{point}/{file}", documents.dump(structs.replace(made, raw=raw)))


def _output(names: Names, member: str, data: bytes) -> bytes:
    """What a tool printed, or what nodes counted meanwhile."""
    stream = member.rpartition(".")[2].partition("@")[0]
    if stream == _COUNTS:
        return monitor.renamed(data, lambda host: names.of("host", host))
    if (lines := _lines(stream, data)) is not None:
        made = b"\n".join(orjson.dumps(_transform(names, line)) for line in lines)
        return made + b"\n" if data.endswith(b"\n") else made
    return names.text(data.decode(*BYTES)).encode(*BYTES)


def _plan(plan: Plan, names: Names) -> Plan:
    made = _object(_transform(names, _plain(plan)))
    made["description"] = None if plan.description is None else _LEFT_OUT
    made["configuration"] = [
        {"file": f"sweep{number or ''}.yaml", "text": names.text(without_free_text(one.text))}
        for number, one in enumerate(plan.configuration)
    ]
    sweeps = made["sweeps"]
    assert isinstance(sweeps, list)
    for sweep in sweeps:
        sweep["description"] = None if sweep["description"] is None else _LEFT_OUT
    return documents.fits(made, Plan, "plan")


def _plain(plan: Plan) -> Json:
    found: Json = orjson.loads(plan.content())
    return found


def without_free_text(text: str) -> str:
    """A configuration without its comments and descriptions. Pure."""
    made, end, after_key = [], 0, ""
    try:
        for token in yaml.scan(text):
            start = token.start_mark.index
            if start > end:
                made.append(re.sub(r"#[^\n]*", "", text[end:start]))
            if start < end:
                continue
            own = text[start : token.end_mark.index]
            if isinstance(token, yaml.ScalarToken):
                if after_key == "description":
                    own = _LEFT_OUT + ("\n" if own.endswith("\n") else "")
                after_key = "" if after_key else token.value
            elif not isinstance(token, yaml.ValueToken):
                after_key = ""
            made.append(own)
            end = max(end, token.end_mark.index)
    except yaml.YAMLError as error:
        raise Unusable(f"the configuration cannot be read without its comments: {printable(str(error))}") from None
    rest = re.sub(r"#[^\n]*", "", text[end:])
    return re.sub(r"[ \t]+$", "", "".join([*made, rest]), flags=re.MULTILINE)
