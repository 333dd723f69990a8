"""Stand-ins for IOR and mdtest: real MPI programs, for tests only, compiled when needed (standins/README.md)."""

import hashlib
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

SOURCES = Path(__file__).with_name("standins")
TOOLS = ("ior", "mdtest")
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")


def missing() -> str | None:
    """Why they cannot be compiled here, or None."""
    if shutil.which("cc") is None:
        return "cc: not on PATH (Debian package gcc)"
    if not _script("mpicc").exists():
        return "mpicc: not beside Python (PyPI package mpich)"
    return None


def build(below: Path) -> Path:
    """A directory for PATH, with `ior` and `mdtest`. What is there already of the same sources is taken as it is."""
    sources = [SOURCES / f"{tool}.c" for tool in TOOLS]
    key = hashlib.sha256(repr((_FLAGS, [source.read_bytes() for source in sources])).encode()).hexdigest()
    done = below / f"standins-{key[:16]}"
    if not done.exists():
        making = Path(tempfile.mkdtemp(dir=below))
        making.chmod(0o755)
        for source in sources:
            command = [str(_script("mpicc")), *_FLAGS, "-o", str(making / source.stem), str(source), "-lm"]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            assert said.returncode == 0, said.stderr
        try:
            making.rename(done)
        except OSError:  # another process was faster
            shutil.rmtree(making)
    return done


def mpiexec(tasks: int) -> list[str]:
    """The words before a command that start so many ranks of it on this machine alone."""
    local = ("-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1", "-genv", "UCX_TLS", "shm,self")
    return [str(_script("mpiexec")), *local, "-n", str(tasks)]


def _script(name: str) -> Path:
    return Path(sysconfig.get_path("scripts")) / name
