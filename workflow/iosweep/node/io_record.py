"""What a result keeps of the bytes that a node moved while a phase ran (docs/store.md)."""

from __future__ import annotations

from iosweep.files.fields import Count, Part, Seconds


class Moved(Part, frozen=True, kw_only=True):
    """Bytes that one node moved, by the kernel's counters, over `window_s` seconds around the command. None: the node
    has no such counter.

    tool_*: of the tool's own processes, storage I/O (rusage: blocks of 512 bytes); device_*: of the block devices below
    the target, `device` names them; client_*: of the file system's client, between it and its servers, `client` names
    the file that counts; received, sent: of all network interfaces but the loopback.
    """

    tool_read_bytes: Count | None = None
    tool_written_bytes: Count | None = None
    device: str = ""
    device_read_bytes: Count | None = None
    device_written_bytes: Count | None = None
    client: str = ""
    client_read_bytes: Count | None = None
    client_written_bytes: Count | None = None
    received_bytes: Count | None = None
    sent_bytes: Count | None = None
    window_s: Seconds = 0.0
