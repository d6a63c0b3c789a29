"""Asking Blend's own SDK, through Node, what it makes of the pools that a Stellar RPC server serves."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = PROJECT_ROOT / "build" / "cross-check"
"""Where scripts/cross-check-blend-sdk installs the SDK."""

SCRIPT = Path(__file__).with_name("blend_sdk.mjs")
_TIMEOUT_SECONDS = 300


class SdkPrice(msgspec.Struct, frozen=True, rename="camel"):
    """What the SDK reads from a pool's oracle, which it may well not accept as a price."""

    price: str
    timestamp: int


class SdkReserve(msgspec.Struct, frozen=True, rename="camel"):
    """A reserve as the SDK accrues it to its clock; texts are whole numbers, floats the SDK's own (None: infinite)."""

    asset: str
    ledger: int
    decimals: int
    total_supplied: str
    total_borrowed: str
    b_rate: str
    d_rate: str
    ir_mod: str
    backstop_credit: str
    utilization: str
    borrow_apr: float
    supply_apr: float
    est_borrow_apy: float | None
    est_supply_apy: float | None
    oracle_price: SdkPrice | None


class SdkPool(msgspec.Struct, frozen=True, rename="camel"):
    """A pool contract as the SDK loads it, or the ``error`` that it throws."""

    address: str
    version: str
    error: str | None = None
    name: str = ""
    status: int = -1
    oracle: str = ""
    wasm_hash: str = ""
    oracle_decimals: int | None = None
    reserves: tuple[SdkReserve, ...] = ()


class SdkAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What the SDK made of all of the pools, at which ledger and with its clock at which time."""

    sdk_version: str
    ledger: int
    close_time: int
    pools: tuple[SdkPool, ...]


def require_sdk() -> None:
    """Skip the test that asks where Node or the SDK is missing."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed, and Blend's SDK needs it")
    if not (INSTALLED / "node_modules" / "@blend-capital" / "blend-sdk" / "package.json").is_file():
        pytest.skip("Blend's SDK is not installed; scripts/cross-check-blend-sdk installs it and runs this test")


def ask_sdk(rpc_url: str, passphrase: str, pools: Iterable[tuple[str, str]]) -> SdkAnswer:
    """Load pool contracts, given as (address, v1 or v2), with the SDK's clock at the latest ledger's close time."""
    request = {
        "rpcUrl": rpc_url,
        "passphrase": passphrase,
        "pools": [{"address": address, "version": version} for address, version in pools],
    }
    done = subprocess.run(
        ["node", str(SCRIPT), str(INSTALLED)],
        input=msgspec.json.encode(request),
        capture_output=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    assert 0 == done.returncode, done.stderr.decode(errors="replace")[-4000:]
    return msgspec.json.decode(done.stdout, type=SdkAnswer)
