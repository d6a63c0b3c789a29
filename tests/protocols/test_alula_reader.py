"""Reading Alula markets from a chain: what is read, what is not and why, and that nothing is lost in silence."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, u32
from exporter.ledger.source import ContractCall
from tests.protocols.alula_chain import (
    AlulaLedger,
    all_pools,
    candidate,
    deployed_market,
    market_instance,
    pool,
)
from tests.protocols.made_ledger import (
    account,
    bare_token,
    contract,
    lastprice,
    pools_of,
)

A, B = contract("A"), contract("B")


def two_markets() -> AlulaLedger:
    """A market A with XLM and USDC, and a frozen market B with USDC."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["XLM", "USDC"])
    ledger.add_market("B", ["USDC"], "FrozenByAdmin")
    return ledger


ALL = {(A, contract("XLM")), (A, contract("USDC")), (B, contract("USDC"))}


class TestReading:
    """What is read when all is well."""

    def test_requests(self) -> None:
        """Three waves: markets, pools with tokens, and the calls; an oracle's decimals are asked once."""
        ledger = two_markets()
        ledger.read([candidate("A"), candidate("B")])
        assert ledger.source is not None

        waves = [(kind, keys) for kind, keys, _ in ledger.source.log]
        assert [("entries", 4), ("entries", 3 + 2 + 2)] == waves
        expected = [ContractCall(contract(f"{name} oracle"), "decimals") for name in "AB"]
        expected += [lastprice("A oracle", "XLM"), lastprice("A oracle", "USDC"), lastprice("B oracle", "USDC")]
        assert dict.fromkeys(expected, 1) == Counter(ledger.source.calls)


class TestRecords:
    """The market manager that a market names has a record of it."""

    def test_verified(self) -> None:
        """The manager's record makes a market verified, an archived record, too."""
        ledger = two_markets()
        ledger.archive(deployed_market("B"))
        reading = ledger.read([candidate("A"), candidate("B")]).result

        assert {A: contract("manager"), B: contract("manager")} == reading.verified
        assert [] == reading.notices

    @pytest.mark.parametrize("manager", [None, address(account("manager")), address(contract("other")), u32(1)])
    def test_no_record(self, manager: ScVal | None) -> None:
        """A market without a record at the manager it names is read all the same, with a notice."""
        ledger = two_markets()
        ledger.replace(market_instance("B", storage={"DeployerHost": manager}))
        tables = ledger.compute([candidate("A"), candidate("B")])
        assert ledger.reading is not None

        assert ALL == pools_of(tables)
        assert {A: contract("manager")} == ledger.reading.verified
        assert [f"market {B} names "] == [notice[: len(f"market {B} names ")] for notice in tables.notices]
        assert "has no record of it" in tables.notices[0]


class TestTokens:
    """Symbols and decimals: the token's own first, the pool's copy where it has none."""

    def test_copy_where_the_token_says_nothing(self) -> None:
        """Where the token cannot be read the pool's copy is shown, once and with the reason."""
        ledger = two_markets()
        ledger.replace(bare_token("USDC"))
        reading = ledger.read([candidate("A"), candidate("B")]).result

        assert ("COPY", 7) == (reading.tokens[contract("USDC")].symbol, reading.tokens[contract("USDC")].decimals)
        assert 1 == len(reading.notices)
        assert "does not give its symbol" in reading.notices[0]
        assert ALL == pools_of(ledger.compute([candidate("A"), candidate("B")]))

    def test_pool_with_another_address_than_its_token(self) -> None:
        """Where pool and token differ both are kept, and token and price are the token's."""
        ledger = two_markets()
        ledger.replace(
            all_pools("B", ["P"]),
            pool("B", "USDC", "P", pool_address=address(contract("P"))),
        )
        tables = ledger.compute([candidate("B")])

        assert [(contract("P"), contract("USDC"), "USDC")] == tables.pools.select(
            "pool", "token_address", "symbol"
        ).rows()
        assert [] == tables.unpriced
