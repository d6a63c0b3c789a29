"""URIs of buckets, and how credentials, region and endpoint are found (exporter/stores/s3_client.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.stores import open_store
from exporter.stores.s3_client import S3Client, S3Options, parse_s3_uri
from exporter.stores.s3_store import S3Store

OPTIONS = S3Options(connect_seconds=1, read_seconds=2, tries=2, pause_seconds=0.01)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep this machine's settings of AWS out of the tests."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any credentials."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://bucket", ("bucket", "")),
        ("s3://bucket/", ("bucket", "")),
        ("s3://my.bucket-1/api", ("my.bucket-1", "api")),
        ("s3://bucket/api/public/", ("bucket", "api/public")),
        ("S3://bucket/a=b", ("bucket", "a=b")),
    ],
)
def test_a_uri_names_a_bucket_and_a_prefix(uri: str, place: tuple[str, str]) -> None:
    """A URI names a bucket and a prefix; slashes at its end mean nothing."""
    store = open_store(uri)

    assert place == parse_s3_uri(uri)
    assert "/".join(["s3:/", *filter(None, place)]) == store.uri


def test_opening_costs_nothing() -> None:
    """Opening a bucket imports neither client and asks nobody."""
    program = (
        "import sys; from exporter.stores import open_store; open_store('s3://bucket/x'); "
        "print(sorted({'boto3', 'botocore'} & set(sys.modules)))"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, r"no credentials for s3://bucket/x; set AWS_ACCESS_KEY_ID"),
        ({"AWS_PROFILE": "nobody"}, "credentials for s3://bucket/x: .*nobody"),
        ({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}, "credentials for s3://bucket/x: .*missing: AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_incomplete_credentials_are_distinguished_from_none(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str
) -> None:
    """Half a pair of keys and a profile that is not there are distinguished from none at all."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=text):
        S3Store("bucket", "x", options=OPTIONS).get("a")


@pytest.mark.usefixtures("credentials")
def test_a_bad_endpoint_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is not an URL is an error of the configuration that does not repeat it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "user:hush@host")
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL_S3") as refused:
        S3Store("bucket", "x", options=OPTIONS).get("a")

    assert "hush" not in str(refused.value)


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("variables", "endpoint", "region", "style"),
    [
        ({}, "https://s3.amazonaws.com", "us-east-1", None),
        ({"AWS_REGION": "eu-central-1"}, "https://s3.eu-central-1.amazonaws.com", "eu-central-1", None),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com", "eu-west-1", None),
        ({"AWS_ENDPOINT_URL": "https://r2.example.org"}, "https://r2.example.org", "us-east-1", "path"),
        (
            {"AWS_ENDPOINT_URL": "https://a.example.org", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:8000"},
            "http://127.0.0.1:8000",
            "us-east-1",
            "path",
        ),
    ],
)
def test_region_and_endpoint_come_from_the_usual_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str, region: str, style: str | None
) -> None:
    """Region and endpoint are those of the usual variables; other servers than AWS get the bucket in the path."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    connection = S3Client("bucket", "", S3Options(concurrency=5))
    client = connection.boto
    config: Any = client.meta.config

    assert endpoint == client.meta.endpoint_url
    assert region == client.meta.region_name
    assert style == (config.s3 or {}).get("addressing_style")
    assert (10, 30, 9) == (config.connect_timeout, config.read_timeout, config.max_pool_connections)
    connection.close()
