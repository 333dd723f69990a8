"""A device with a set latency and width.

    python3 -I -S engine.py DEPTH WIDTH LATENCY_US NOISE_PERCENT SEED SECONDS

So many I/Os are in flight as the depth asks for: each that ends is followed by another one. The device works on at most
`width` of them, in the order in which they arrived, and each takes the latency, which is drawn once: a run on a real
system differs from the next by far more than its many I/Os do on average. I/Os end by the device's own clock, and the
process takes as long as they do: load of the machine is no noise of the device.
"""

import heapq
import json
import math
import random
import sys
import time
from collections import deque


def measure(depth: int, width: int, latency_s: float, time_s: float) -> dict[str, float]:
    """Rate in I/Os per second, mean latency in seconds, and the time that both are of."""
    waiting = deque([0.0] * depth)  # when each was issued
    served: list[tuple[float, float]] = []  # when each is done, and when it was issued
    ops, waited_s, now_s = 0, 0.0, 0.0
    while True:
        while waiting and len(served) < width:
            heapq.heappush(served, (now_s + latency_s, waiting.popleft()))
        if served[0][0] > now_s >= time_s:
            break
        now_s, issued_s = heapq.heappop(served)
        waiting.append(now_s)
        ops, waited_s = ops + 1, waited_s + now_s - issued_s
    return {"ops": ops, "ops_per_s": ops / now_s, "latency_mean_s": waited_s / ops, "runtime_s": now_s}


def main() -> None:
    depth, width, latency_us, noise_percent, seed = map(int, sys.argv[1:6])
    drawn = math.exp(random.Random(seed).gauss(0, noise_percent / 100))
    found = measure(depth, width, latency_us * 1e-6 * drawn, float(sys.argv[6]))
    time.sleep(found["runtime_s"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
