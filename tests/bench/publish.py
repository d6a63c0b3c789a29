"""Uploading a rendered tree to a real S3 server: our store against `aws s3 sync`, and against bare boto3 and obstore.

The server is the Ceph RADOS Gateway (`scripts/radosgw`) on the same machine, so it takes its share of the processors;
beside each figure stands how much of them the client took. Every upload goes to a place of its own that is empty.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.config import OutputSettings
from exporter.render.assets_pages import JoinedRows, row_json
from exporter.stores import open_store
from exporter.tree.families import kind_of, page_key
from exporter.tree.headers import cache_control
from tests.bench.child import PROJECT_ROOT
from tests.bench.render import made_pools
from tests.bench.timing import Finding, Spread, Target
from tests.s3.radosgw import GatewayError, gateway
from tests.s3.wire_bucket import WireBucket

POOLS = 1_000
ROUNDS = 5
PARALLEL = 32
AWS_CLI = "awscli==1.46.2"
BUCKET = "bench"

Files = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Upload:
    """What one upload cost: seconds on the clock, of the client's processor time, and of all processors."""

    seconds: float
    client: float
    machine: float


def run(quick: bool = False) -> list[Finding]:
    """Objects per second of each; the quick run takes a simulated bucket and leaves `aws` out."""
    files = made_files(10 if quick else POOLS)
    if quick:
        with WireBucket() as bucket, environment(bucket.environment("bench")):
            return _measure(files, 1, None, "bucket")
    try:
        with gateway() as variables, environment(variables), tempfile.TemporaryDirectory() as folder:
            make_bucket(BUCKET)
            for key, data in files:
                path = Path(folder, key)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return _measure(files, ROUNDS, AwsSync(Path(folder)), BUCKET)
    except GatewayError as error:
        return [Finding(f"skipped: {error}", Spread.of([0.0]), "objects per second")]


def made_files(pools: int) -> Files:
    """The pages of a run in every size, as they are rendered."""
    rows = JoinedRows(row_json(made_pools(pools)))
    pages: dict[str, bytes] = {}
    for size in OutputSettings().page_sizes:
        for page in rows.chain(size):
            pages[page_key(page.token)] = page.data
    return list(pages.items())


def _measure(files: Files, rounds: int, aws: AwsSync | None, bucket: str) -> list[Finding]:
    contenders: dict[str, Callable[[str], None]] = {
        "ours": lambda prefix: upload_ours(bucket, prefix, files),
        "boto3": lambda prefix: upload_boto3(bucket, prefix, files),
        "obstore": lambda prefix: asyncio.run(upload_obstore(bucket, prefix, files)),
    }
    if aws is not None:
        contenders["aws"] = lambda prefix: aws.upload(bucket, prefix)
    uploads: dict[str, list[Upload]] = {name: [] for name in contenders}
    for number in range(-1 if aws is not None else 0, rounds):  # one round to warm up
        order = list(contenders)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            prefix = f"{name}-{number}"
            taken = _timed(lambda name=name, prefix=prefix: contenders[name](prefix))  # type: ignore[misc]
            if number >= 0:
                uploads[name].append(taken)
        if number == rounds - 1:
            for name in order:
                if (there := count_objects(bucket, f"{name}-{number}")) < len(files):
                    raise AssertionError(f"{name} left {there} of {len(files)} objects")
    return _findings(files, uploads)


def _findings(files: Files, uploads: Mapping[str, Sequence[Upload]]) -> list[Finding]:
    kilobytes = sum(len(data) for _, data in files) / 1000
    what = f"{len(files)} pages, {kilobytes / len(files):.1f} kB each"
    titles = {"ours": "our store", "aws": "aws s3 sync", "boto3": f"bare boto3, {PARALLEL} threads"}
    titles["obstore"] = f"bare obstore, {PARALLEL} at once"
    findings = []
    for name, runs in uploads.items():
        facts = {
            "client_cpu_ms_per_object": round(1000 * _median(one.client for one in runs) / len(files), 2),
            "client_processors": round(_median(one.client / one.seconds for one in runs), 2),
            "busy_processors": f"{_median(one.machine / one.seconds for one in runs):.2f} of {os.cpu_count()}",
        }
        speed = Spread.of([len(files) / one.seconds for one in runs])
        findings.append(Finding(f"{titles[name]}, {what}", speed, "objects per second", None, facts))
    targets = {"aws": Target(2.0)}
    for name, runs in uploads.items():
        if name != "ours":
            ratios = [theirs.seconds / ours.seconds for ours, theirs in zip(uploads["ours"], runs, strict=True)]
            title = f"our store / {titles[name]}"
            findings.append(Finding(title, Spread.of(ratios), "times the speed", targets.get(name)))
    return findings


def _median(values: Iterator[float]) -> float:
    return Spread.of(list(values)).median


def _timed(action: Callable[[], None]) -> Upload:
    client, machine, began = _client_seconds(), _machine_seconds(), time.perf_counter()
    action()
    seconds = time.perf_counter() - began
    return Upload(seconds, _client_seconds() - client, _machine_seconds() - machine)


def _client_seconds() -> float:
    """Processor time of this process and of the children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _machine_seconds() -> float:
    """Processor time of the whole machine that was not idle; 0 where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    return (sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])) / os.sysconf("SC_CLK_TCK")


# -- the contenders -------------------------------------------------------------------------------------------------


def upload_ours(bucket: str, prefix: str, files: Files) -> None:
    """Write immutable files as the publisher does."""
    written = open_store(f"s3://{bucket}/{prefix}").put_new_many(iter(files))
    if written.written != len(files):
        raise AssertionError(f"our store wrote {written.written} of {len(files)} objects")


def upload_boto3(bucket: str, prefix: str, files: Files) -> None:
    """Write them with a pool of threads and one client."""
    client = _boto3_client()

    def put(file: tuple[str, bytes]) -> None:
        key, data = file
        headers = {"ContentType": "application/json", "CacheControl": cache_control(kind_of(key))}
        client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=data, **headers)

    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(put, files))
    client.close()


async def upload_obstore(bucket: str, prefix: str, files: Files) -> None:
    """Write them with a bounded number of requests in flight."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        bucket,
        endpoint=os.environ["AWS_ENDPOINT_URL_S3"],
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_DEFAULT_REGION"],
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    waiting = iter(files)

    async def work() -> None:
        for key, data in waiting:
            headers = {"Content-Type": "application/json", "Cache-Control": cache_control(kind_of(key))}
            await obstore.put_async(store, f"{prefix}/{key}", data, attributes=headers, use_multipart=False)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


class AwsSync:
    """The command line of AWS, pinned, in an environment of its own under build/."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        environment = PROJECT_ROOT / "build" / "aws-cli"
        self._program = environment / "bin" / "aws"
        stamp = environment / "installed"
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != AWS_CLI:
            subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True, timeout=120)
            python = environment / "bin" / "python"
            pip = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--only-binary", ":all:"]
            subprocess.run([*pip, AWS_CLI], check=True, timeout=600)
            stamp.write_text(AWS_CLI, encoding="utf-8")

    def upload(self, bucket: str, prefix: str) -> None:
        """Synchronize the folder with a prefix."""
        target = f"s3://{bucket}/{prefix}"
        subprocess.run(
            [self._program, "s3", "sync", "--only-show-errors", self._folder, target], check=True, timeout=600
        )


# -- the server -----------------------------------------------------------------------------------------------------


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Let these be all variables of AWS while a block runs."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    _replace_aws(variables)
    try:
        yield
    finally:
        _replace_aws(before)


def _replace_aws(variables: Mapping[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(variables)


def make_bucket(bucket: str) -> None:
    """Make a bucket that is not there yet."""
    client = _boto3_client()
    client.create_bucket(Bucket=bucket)
    client.close()


def count_objects(bucket: str, prefix: str) -> int:
    """How many objects are below a prefix."""
    client = _boto3_client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    count = sum(int(page["KeyCount"]) for page in pages)
    client.close()
    return count


def _boto3_client() -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client("s3", config=Config(max_pool_connections=PARALLEL))
