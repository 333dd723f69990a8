"""The packages of an environment, from spack.lock and `spack find --json`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import field, structs

from iosweep.files.fields import Part
from iosweep.tools import tools


class _Microarchitecture(Part, frozen=True):
    name: str


class _Arch(Part, frozen=True):
    platform_os: str
    target: str | _Microarchitecture  # a mapping for that of one processor

    @property
    def name(self) -> str:
        return self.target if isinstance(self.target, str) else self.target.name


class _Edge(Part, frozen=True):
    virtuals: tuple[str, ...] = ()


class Dependency(Part, frozen=True):
    hash: str
    parameters: _Edge = _Edge()


class _External(Part, frozen=True):
    path: str | None = None


class Spec(Part, frozen=True, kw_only=True):
    """A concrete spec, as Spack writes it."""

    name: str
    version: str = ""
    hash: str = ""
    arch: _Arch | None = None
    parameters: dict[str, object] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    external: _External | None = None


class Root(Part, frozen=True):
    """A spec of spack.yaml, and the hash of the concrete one."""

    hash: str = ""
    spec: str = ""


class _SpackVersion(Part, frozen=True):
    version: str = ""


class Lock(Part, frozen=True):
    """spack.lock."""

    roots: tuple[Root, ...] = ()
    concrete_specs: dict[str, Spec] = field(default_factory=dict)
    spack: _SpackVersion = _SpackVersion()


class Package(Part, frozen=True, kw_only=True):
    """An installed package. explicit: it is one of the specs; external: its prefix, if Spack did not build it."""

    name: str
    version: str
    hash: str
    variants: Mapping[str, object]
    target: str
    os: str
    compiler: str | None
    external: str | None
    prefix: str
    explicit: bool
    provides_mpi: bool

    @property
    def programs(self) -> bool:
        """Whether it may have programs that measure."""
        return self.explicit or self.provides_mpi

    @property
    def spec(self) -> str:
        """The package as Spack writes it: `fio@3.37+libaio~gui/bcvzxup`.

        Externals are written without variants, which are mostly Spack's defaults, not the external's.
        """
        flags, values = "", ""
        for name, value in sorted(self.variants.items()) if not self.external else ():
            if isinstance(value, bool):
                flags += f"{'+' if value else '~'}{name}"
            elif name != "build_system" and value not in ([], ""):
                values += f" {name}={','.join(value) if isinstance(value, list) else value}"
        return f"{self.name}@{self.version}{flags}{values}/{self.hash[:7]}"

    def stored(self) -> dict[str, object]:
        """The package in tools.json."""
        return {key: value for key, value in structs.asdict(self).items() if key not in ("provides_mpi", "os")}


def installed(specs: Sequence[Spec], prefixes: Mapping[str, str], roots: Collection[str]) -> list[Package]:
    """Packages by name, from `find --json`. prefixes: hash -> directory. roots: hashes of the specs."""
    by_hash = {spec.hash: spec for spec in specs}
    needed = [(spec.hash, need) for spec in specs for need in spec.dependencies]
    mpi = {need.hash for _, need in needed if "mpi" in need.parameters.virtuals}
    compilers = {
        user: f"{by_hash[need.hash].name}@{by_hash[need.hash].version}"
        for user, need in needed
        if "c" in need.parameters.virtuals and need.hash in by_hash
    }
    found = [
        Package(
            name=spec.name,
            version=spec.version,
            hash=spec.hash,
            variants={name: value for name, value in spec.parameters.items() if value != []},
            target=spec.arch.name if spec.arch else "",
            os=spec.arch.platform_os if spec.arch else "",
            compiler=compilers.get(spec.hash),
            external=spec.external.path if spec.external else None,
            prefix=prefixes.get(spec.hash, ""),
            explicit=spec.hash in roots,
            provides_mpi=spec.hash in mpi,
        )
        for spec in specs
    ]
    return sorted(found, key=lambda package: (package.name, package.hash))


def bin_directories(packages: Sequence[Package]) -> list[Path]:
    """Directories of programs: built ones before externals."""
    ordered = sorted((p for p in packages if p.programs), key=lambda package: package.external is not None)
    found = [Path(package.prefix) / "bin" for package in ordered]
    return [path for path in dict.fromkeys(found) if path.is_dir()]


def owner(path: str, packages: Sequence[Package]) -> Package | None:
    """The package that a program belongs to; with nested prefixes (/ and /usr) the innermost."""
    within = [package for package in packages if package.programs and Path(path).is_relative_to(package.prefix)]
    return max(within, key=lambda package: len(package.prefix), default=None)


def outside(store: Path, packages: Sequence[Package]) -> str | None:
    """The first prefix of a built package that is outside `store`, None if there is none. A copied directory still
    names the original's prefixes."""
    ours = [package.prefix for package in packages if not package.external]
    return next((prefix for prefix in ours if not Path(prefix).resolve().is_relative_to(store.resolve())), None)


def unfit_version(lock: Lock) -> str | None:
    """A sentence on the tool that would be built in an unusable version, None if there is none."""
    for root in lock.roots:
        spec = lock.concrete_specs[root.hash]
        tool = tools().get(spec.name)
        if tool and (wrong := tool.unfit(spec.version)):
            return f"`{root.spec}` in specs is {spec.name} {spec.version} to Spack, which cannot be used: {wrong}"
    return None
