"""What the exporter compares with contracts' views: every field for real, and while the network moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from exporter.deployments import deployments_of
from exporter.errors import DecodeError
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import i128, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView, Reading, ViewLimits, read_at_one_ledger
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Compared, ProtocolReading, Row, ViewCall
from exporter.protocols.compute import Tables, compute
from exporter.protocols.xoxno.views import XoxnoViews
from tests.job.contract_views import ContractViews
from tests.localnet.direct_source import DirectSource

COMPARED = ("alula", "blend", "k2", "peridot", "xoxno")
"""Protocols whose views somebody answers here; Slender's deployed code answers its own in tests/protocols."""


def read(source: DirectSource, *protocols: str) -> Reading[list[ProtocolReading]]:
    """What the exporter reads of the listed markets."""

    async def program(view: LedgerView) -> list[ProtocolReading]:
        found = []
        for name in protocols or tuple(PROTOCOLS):
            lists = [item for item in deployments_of(NETWORK) if item.protocol == name]
            markets = [Candidate(name, each) for item in lists for each in item.markets]
            found.append(await PROTOCOLS[name].read(view, markets, lists))
        return found

    return asyncio.run(read_at_one_ledger(source, program, ViewLimits(max_rounds=8)))


def tables_of(reading: Reading[list[ProtocolReading]], chain: Chain) -> Tables:
    """What the exporter makes of it."""
    ledger = reading.certificate.ledger
    return compute(reading.result, PROTOCOLS, ledger, chain.close_time(ledger))


def rows_of(reading: ProtocolReading, tables: Tables) -> dict[str, dict[str, Row]]:
    """The exporter's numbers by market and pool, with what was read of each."""
    keys = list(zip(reading.columns["market"], reading.columns["pool"], strict=True))
    found: dict[str, dict[str, Row]] = {}
    for row in tables.pools.iter_rows(named=True):
        if (row["market"], row["pool"]) in keys:
            position = keys.index((row["market"], row["pool"]))
            raw = {name: values[position] for name, values in reading.columns.items()}
            found.setdefault(row["market"], {})[row["pool"]] = row | {"raw": raw}
    return found


def compared(
    network: RecordedNetwork, reading: ProtocolReading, rows: Mapping[str, Mapping[str, Row]]
) -> Iterator[Compared]:
    """Every field of every view that is answered."""
    ledger, views = network.chain.latest, PROTOCOLS[reading.protocol].views
    for asked in views.calls(reading):
        for view in (asked, *asked.instead) if isinstance(asked, ViewCall) else ():
            result = network.contracts.simulate(network.chain, ledger, view.call).result
            if result is not None:
                time = network.chain.close_time(ledger)
                yield from views.compare(view, decode_scval(result), rows.get(view.market, {}), time)


def increased(value: object) -> object:
    """A number that is one too large; a raw one, of which a view may show a rounded part or ratio, is squared."""
    if isinstance(value, dict):
        return {
            name: increased(item**2 + len(name) if isinstance(item, int) and item > 38 else item)
            for name, item in value.items()
        }
    return value + 1 if isinstance(value, int) else f"not {value}"


@pytest.mark.parametrize("protocol", COMPARED)
def test_every_difference_shows(protocol: str) -> None:
    """Each field that is compared is compared for real: with other numbers of ours none of them agrees."""
    network = RecordedNetwork()
    network.contracts = ContractViews(network)
    reading = read(DirectSource(network), protocol)
    (found,) = reading.result
    rows = rows_of(found, tables_of(reading, network.chain))
    wrong = {
        market: {pool: {name: increased(value) for name, value in row.items()} for pool, row in pools.items()}
        for market, pools in rows.items()
    }
    right = list(compared(network, found, rows))
    different = {item.field for item in compared(network, found, wrong) if not item.agrees}

    assert [] == [item for item in right if not item.agrees]
    assert {item.field for item in right} - {"accrued_to", "pools"} == different
    assert {"pools"} >= {item.field for item in compared(network, found, {})}


def test_views_of_xoxno_that_cannot_be_compared() -> None:
    """An answer of another length is none."""
    asked = ViewCall("C", ("1-A",), ContractCall("C", "get_bulk_indexes"))

    with pytest.raises(DecodeError, match="0 results for 1 pools"):
        list(XoxnoViews().compare(asked, vec(), {}, 0))
    assert (None, []) == (XoxnoViews().time_of(i128(1)), list(XoxnoViews().refused(asked, "HostError", {})))


def test_reading_while_the_network_moves() -> None:
    """While ledgers close between the answers, what is read is the state of one ledger; the rest is named."""
    network = RecordedNetwork()
    for _ in range(4):
        network.advance(network.pools)
    first, chain = network.chain.latest, network.chain
    reading = read(DirectSource(network, moving=True))
    moved, ledger = tables_of(reading, chain), reading.certificate.ledger
    still = Chain(chain.state(ledger), start_ledger=ledger, start_time=chain.close_time(ledger))
    alone = tables_of(read(DirectSource(LocalNetwork(still, network.passphrase, 28))), still)

    assert chain.latest > first
    assert chain.state(first) != chain.state(chain.latest)
    pools = {(row["market"], row["pool"]): row for row in alone.pools.iter_rows(named=True)}
    assert 24 == len(pools) == moved.pools.height + len(moved.unread)
    assert moved.pools.height > 12
    for row in moved.pools.iter_rows(named=True):
        expected = pools[row["market"], row["pool"]]
        # A price that moved meanwhile may not be known at the reading's ledger; then there is none.
        priced = {name for name in row if row[name] is None and expected[name] is not None}
        different = {name for name in row if row[name] != expected[name]} - priced
        assert different <= ({"price_reason", "can_reason"} if row["oracle_price"] is None else set())
