"""The bounds of the RPC client are themselves bounded."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.ledger.rpc.endpoints import RpcLimits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_in_flight", 0),
        ("max_in_flight", 2.5),
        ("max_in_flight", True),
        ("max_in_flight", "4"),
        ("max_in_flight", None),
        ("requests_per_second", 0),
        ("requests_per_second", -1.0),
        ("requests_per_second", math.inf),
        ("requests_per_second", math.nan),
        ("attempts", 0),
        ("attempts", 21),
        ("total_deadline_s", 0),
        ("request_timeout_s", math.inf),
        ("keys_per_request", 201),
        ("max_request_bytes", 512 * 1024 + 1),
        ("max_response_bytes", 100),
        ("max_retry_after_s", -1),
    ],
)
def test_a_limit_out_of_range_is_named(name: str, value: Any) -> None:
    """A limit that is no number, or out of its range, is refused by name and with what it may be."""
    with pytest.raises(ConfigError, match=rf"^{name} must be .* from .* to "):
        RpcLimits(**{name: value})


def test_a_rate_too_slow_for_the_deadline_is_refused() -> None:
    """A rate at which a call could not even begin within its deadline is a fault of the configuration."""
    with pytest.raises(ConfigError, match=r"requests_per_second = 0\.02 is too slow for max_in_flight = 4"):
        RpcLimits(requests_per_second=0.02, max_in_flight=4, total_deadline_s=100)


def test_limits_cost_no_heavy_import() -> None:
    """Configuration code may import the limits without loading the HTTP client."""
    code = "import sys, exporter.ledger.rpc.endpoints; print([m for m in ('httpx', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert "[]" == done.stdout.strip()
