"""Facts of the node that measures, and the environment that a result keeps."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from pathlib import Path
from typing import Any

import orjson

#: Variables that may change what a tool does. Nothing else is stored: an environment holds secrets.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ")


def facts(target: dict[str, Any]) -> dict[str, Any]:
    """Keys as columns.NODE_COLUMNS, without the key `node`."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "os": _os_name(),
        "cpu_model": _cpu_model(),
        "cpus": os.cpu_count(),
        "cpus_allowed": _ranges(sorted(os.sched_getaffinity(0))),
        "memory_bytes": pages * page,
        "mount": target["mount"],
    }


def key(node: dict[str, Any]) -> str:
    """Hash of a node's facts: the key of the table `nodes`."""
    return hashlib.sha256(orjson.dumps(node, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def environment() -> dict[str, str]:
    """The allow-listed variables that are set."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.machine()


def _ranges(cpus: list[int]) -> str:
    """[0, 1, 2, 5] -> 0-2,5"""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
