#!/usr/bin/env python3
"""Loads a model that is served (serve.py): clients that each send a request, wait for its answer, and send the next.

    python load.py http://127.0.0.1:8000/ --input ids=i64:1x32:30522 --input mask=i64:1x32:1 --clients 8 --seconds 10

An input is NAME=DTYPE:EXTENTS; integers are random below the number behind it, or all 1 where that is 1; others are normal.
Prints requests a second and what time half, 90 % and 99 % of the answers took at most, in ms, as a line of JSON. It needs numpy.
"""
import argparse
import http.client
import io
import json
import sys
import threading
import time
import urllib.parse

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def make(text, random):
    name, _, rest = text.partition("=")
    dtype, extents, high = (rest.split(":") + [""])[:3]
    shape = [int(extent) for extent in extents.split("x")]
    if dtype in ("f32", "f64"):
        return name, random.standard_normal(shape).astype(DTYPES[dtype])
    return name, (np.ones(shape) if high == "1" else random.integers(0, int(high or 2), shape)).astype(DTYPES[dtype])


def bodies(inputs, count, seed):
    """Requests, made before the clock runs."""
    random, made = np.random.default_rng(seed), []
    for _ in range(count):
        body = io.BytesIO()
        np.savez(body, **dict(make(text, random) for text in inputs))
        made.append(body.getvalue())
    return made


def client(url, requests, start, end, times, errors):
    """send_all, which ends at the first error with a sentence."""
    try:
        send_all(url, requests, start, end, times, errors)
    except (OSError, http.client.HTTPException) as error:
        errors.append(f"{type(error).__name__}: {error}")


def send_all(url, requests, start, end, times, errors):
    """One after the other, on one connection; those that were sent between start and end count."""
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    now, i = time.monotonic(), 0
    while now < end:
        connection.request("POST", url.path or "/", requests[i % len(requests)])
        answer = connection.getresponse()
        text = answer.read()
        after, i = time.monotonic(), i + 1
        if answer.status != 200:
            errors.append(f"{answer.status}: {text.decode(errors='replace').strip()}")
            return
        if now >= start and after <= end:
            times.append(1e3 * (after - now))
        now = after


def load(url, inputs, clients=8, seconds=10.0, warm=3.0, seed=0):
    """{"requests_per_second": …, "p50": …, "p90": …, "p99": …, "errors": […]}"""
    times, errors, start = [], [], time.monotonic() + warm
    threads = [threading.Thread(target=client, args=(urllib.parse.urlparse(url), bodies(inputs, 16, seed + i), start,
                                                     start + seconds, times, errors)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    quantiles = np.percentile(times, [50, 90, 99]).round(2).tolist() if times else [None] * 3
    return {"clients": clients, "requests": len(times), "requests_per_second": round(len(times) / seconds, 1),
            **dict(zip(("p50", "p90", "p99"), quantiles)), "errors": sorted(set(errors))}


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("url")
    p.add_argument("--input", action="append", required=True)
    p.add_argument("--clients", type=int, default=8)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--warm", type=float, default=3, help="seconds before that, which do not count (3)")
    p.add_argument("--seed", type=int, default=0)
    o = p.parse_args()
    result = load(o.url, o.input, o.clients, o.seconds, o.warm, o.seed)
    print(json.dumps(result))
    return bool(result["errors"])


if __name__ == "__main__":
    sys.exit(main())
