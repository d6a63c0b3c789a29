"""Writing the files of a run into a bucket against bare boto3.

The bucket is that of ``scripts/radosgw run scripts/bench publish``, or a simulated one without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from time import perf_counter
from typing import Any
from unittest.mock import patch

from exporter.stores import open_store
from exporter.tree.families import kind_of
from exporter.tree.headers import cache_control
from tests.s3.clients import given_gateway
from tests.s3.wire_bucket import WireBucket
from tools.bench.table import Row

OBJECTS, BYTES = 2_000, 2_000
PARALLEL = 32
LEAST = 1 / 1.5
"""The upload is at most 1.5 times as long as the bare one."""

Files = Sequence[tuple[str, bytes]]


def run(quick: bool = False) -> list[Row]:
    """One row."""
    numbers, rounds = range(20 if quick else OBJECTS), 1 if quick else 5
    files = [(f"v1/pages/{number:032x}.json", f'"{number:0{BYTES - 2}}"'.encode()) for number in numbers]
    with ExitStack() as stack:
        where, bucket, found = "a simulated bucket", "bucket", given_gateway()
        stack.enter_context(variables(found or stack.enter_context(WireBucket()).environment("bench")))
        if found:
            where, bucket = "a RADOS Gateway", "bench"
            _client().create_bucket(Bucket=bucket)
        return [in_bucket(where, bucket, files, rounds)]


def in_bucket(where: str, bucket: str, files: Files, rounds: int) -> Row:
    """Our upload of files against the bare one, in turn."""
    ratios, speeds = [], []
    for number in range(rounds + 1):
        began = perf_counter()
        written = open_store(f"s3://{bucket}/ours-{number}").put_many(iter(files), immutable=True)
        ours = perf_counter() - began
        assert len(files) == written.written
        began = perf_counter()
        _upload_barely(bucket, f"bare-{number}", files)
        bare = perf_counter() - began
        if number or rounds == 1:  # one round to warm up
            ratios.append(bare / ours)
            speeds.append(len(files) / ours)
    size = sum(len(data) for _, data in files) / len(files) / 1000
    title = f"{len(files):,} objects of {size:.2g} kB into {where}, conditional and with digests"
    speed = sorted(speeds)[len(speeds) // 2]
    against = f"bare boto3, {PARALLEL} threads; {LEAST:.2g} at least"
    return Row(title, f"{speed:.0f} objects a second", against, ratios)


def _upload_barely(bucket: str, prefix: str, files: Files) -> None:
    client = _client()

    def put(file: tuple[str, bytes]) -> None:
        key, data = file
        headers = {"ContentType": "application/json", "CacheControl": cache_control(kind_of(key))}
        client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=data, **headers)

    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(put, files))
    client.close()


def _client() -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client("s3", config=Config(max_pool_connections=PARALLEL))


def variables(values: Mapping[str, str]) -> AbstractContextManager[object]:
    """Let these be all variables of AWS while a block runs."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return patch.dict(os.environ, {**others, **values}, clear=True)
