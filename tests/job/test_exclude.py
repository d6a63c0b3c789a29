"""What becomes of pools that the operator excludes, as far as no run is needed to see it."""

from __future__ import annotations

import pytest

from exporter.job.exclude import remove_excluded
from exporter.ledger.observation import EXCLUDED
from exporter.ledger.oracles import Quote
from exporter.protocols.base import ProtocolReading
from exporter.tree.documents import Unread
from exporter.tree.values import SkipReason, UnreadReason

MARKET, OTHER = "CMARKET", "COTHER"


@pytest.mark.parametrize(("excluded", "markets"), [(f"{MARKET}/POOL", [MARKET]), ("POOL", [MARKET, OTHER])])
def test_a_pool_that_cannot_be_read_is_left_alone(excluded: str, markets: list[str]) -> None:
    """An excluded pool counts as excluded even if its entries cannot be read, so that no run ends with 7 for it."""
    whole = Unread(MARKET, None, "blend", UnreadReason.ABSENT, "it is gone")
    pools = [Unread(market, "POOL", "blend", UnreadReason.UNDECODABLE, "it is odd") for market in (MARKET, OTHER)]
    reading = ProtocolReading("blend", unread=[whole, *pools])
    remove_excluded(reading, [excluded])

    assert whole in reading.unread
    assert markets == [item.market for item in reading.unread if item.reason == SkipReason.EXCLUDED]
    assert 3 == len(reading.unread)


def test_the_price_of_an_excluded_oracle_is_not_known() -> None:
    """The market itself may have a price, so nothing is closed for the lack of one. Other oracles' prices stay."""
    excluded, other = (Quote(oracle, "TOKEN", 7, 5, 1_000) for oracle in ("COLD", "CWARM"))
    reading = ProtocolReading("blend", quotes={quote.key: quote for quote in (excluded, other)})
    remove_excluded(reading, ["COLD"])

    expected = [Quote("COLD", "TOKEN", failure=EXCLUDED, is_known=False), other]
    assert expected == [reading.quotes[excluded.key], reading.quotes[other.key]]
