"""A slow wire: `wire.py ONE OTHER SECONDS` passes frames between two interfaces, each so much later.

The kernel of a small machine may have no netem. Frames larger than the MTU and checksums that the sender left to its
hardware pass unchanged, because the kernel's own header for them is read and written with each frame.
"""

import contextlib
import select
import socket
import sys
import time
from collections import deque

#: Of linux/if_packet.h and asm-generic/socket.h, which Python's socket does not have.
_ALL_PROTOCOLS, _SOL_PACKET, _VNET_HDR, _IGNORE_OUTGOING = 3, 263, 15, 23
_SNDBUFFORCE, _RCVBUFFORCE, _BUFFER = 32, 33, 1 << 26
#: Larger than a frame that the kernel has put together (64 KiB), with its header.
_FRAME = 1 << 17


def opened(interface: str) -> socket.socket:
    """Reads and writes whole frames of an interface, but reads none that it has written."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    for option in (_SNDBUFFORCE, _RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    made.bind((interface, _ALL_PROTOCOLS))
    made.setblocking(False)
    return made


def main() -> None:
    one, other = opened(sys.argv[1]), opened(sys.argv[2])
    delay, to = float(sys.argv[3]), {one: other, other: one}
    under_way: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, frame = under_way.popleft()
            with contextlib.suppress(OSError):  # a full queue loses frames, as a wire does
                end.send(frame)
        pause = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select([one, other], [], [], pause)[0]:
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):  # then those whose time has come
                    under_way.append((time.monotonic() + delay, to[end], end.recv(_FRAME)))


if __name__ == "__main__":
    main()
