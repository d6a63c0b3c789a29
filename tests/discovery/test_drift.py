"""Whether the lists still hold: absent contracts, other code, and that finding out costs nothing."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from exporter.deployments import Deployment, KnownContract
from exporter.deployments.networks import NETWORKS
from exporter.discovery.candidates import Drift, check_lists
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, VOID
from exporter.ledger.view import LedgerView, read_at_one_ledger
from tests.protocols.blend_chain import CODE, BlendLedger, pool_instance
from tests.protocols.made_ledger import UNKNOWN_CODE, MadeSource, Written, contract, entry, instance


def lists(role: str, wasm_hash: bytes | None = None) -> list[Deployment]:
    """A list with one contract X."""
    date = datetime.date(2026, 9, 28)
    known = KnownContract(contract("X"), role, "a source", date, wasm_hash=wasm_hash.hex() if wasm_hash else None)
    return [Deployment("blend", "v1", (known,))]


def notices_of(deployments: list[Deployment], *written: Written, whole: bool = True) -> list[str]:
    """What is said of a list when the ledger has these entries."""
    ledger = BlendLedger()
    ledger.replace(*written)

    async def program(view: LedgerView) -> list[Drift]:
        return await check_lists(view, deployments, whole=whole)

    found = asyncio.run(read_at_one_ledger(MadeSource(ledger.chain(), {}), program)).result
    assert {("blend", contract("X"))} >= {drift[:2] for drift in found}
    return [drift.notice for drift in found]


@pytest.mark.parametrize("role", ["market", "factory"])
def test_as_listed(role: str) -> None:
    """A contract with the code of the list is no news; nor is one whose code no list has."""
    assert [] == notices_of(lists(role, CODE["v1"]), pool_instance("X"))
    assert [] == notices_of(lists(role), pool_instance("X", wasm_hash=UNKNOWN_CODE))


@pytest.mark.parametrize("role", ["market", "factory"])
def test_other_code(role: str) -> None:
    """Other code than listed is a warning with both hashes, the source and its date."""
    [notice] = notices_of(lists(role, CODE["v1"]), pool_instance("X", wasm_hash=UNKNOWN_CODE))

    assert (
        f"drift: {role} {contract('X')} of blend v1 has contract code {UNKNOWN_CODE.hex()}, listed (a source, "
        f"2026-09-28) is {CODE['v1'].hex()}; it may have been upgraded or replaced"
    ) == notice


def test_no_code() -> None:
    """A contract that is a Stellar asset now, or whose instance cannot be read, is a warning."""
    [asset] = notices_of(lists("factory", CODE["v1"]), instance(contract("X"), None, executable=1))
    [garbage] = notices_of(lists("factory", CODE["v1"]), entry(contract("X"), INSTANCE_KEY, VOID))

    assert "has no wasm code of its own" in asset
    assert "cannot be decoded" in garbage


def test_absent() -> None:
    """No contract is a warning, but for markets, which are reported absent, and in a file of some contracts."""
    assert [
        f"drift: the ledger has no contract at factory {contract('X')} of blend v1 as listed (a source, 2026-09-28)"
    ] == (notices_of(lists("factory")))
    assert [] == notices_of(lists("factory", CODE["v1"]), whole=False)
    assert [] == notices_of(lists("market", CODE["v1"]))


def test_cost() -> None:
    """All contracts of a network are looked at in one request."""
    source = MadeSource(BlendLedger().chain(), {})

    async def program(view: LedgerView) -> list[Drift]:
        return await check_lists(view, NETWORKS["mainnet"].deployments)

    asyncio.run(read_at_one_ledger(source, program))

    assert 1 == len(source.log)
