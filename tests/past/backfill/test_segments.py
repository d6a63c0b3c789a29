"""A backfill watches whole contracts, single keys of tokens, and nothing that a reading did not look at."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments.networks import network_of
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import is_instance_key, variant_key
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.contract_storage import StoredSource
from exporter.localnet.chain import Chain
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.past.backfill.segments import BoundaryReading, Close, Segment, read_state, replay_segment
from exporter.past.lake.extract import pack
from exporter.past.lake.watch import DATA, Watch
from exporter.protocols import storage_answers
from exporter.protocols.base import Candidate, Origin
from tests.job_runs import settings_for
from tests.localnet.recorded import BLEND_V1, only, pools_of
from tests.protocols.protocol_facts import recorded_pools


def test_what_a_reading_looks_at_is_watched() -> None:
    """Contracts with an entry of their own that was read are watched whole; tokens, which everybody moves, by key."""
    chain, settings = RecordedNetwork().chain, settings_for()
    state = chain.state(chain.latest)
    source = StoredSource(state.get, chain.latest, chain.close_time(chain.latest), "recorded", storage_answers)
    readings, watched = read_state(source, settings, network_of(settings.passphrase).deployments, [])
    tokens = {token for reading in readings for token in reading.tokens}
    by_key = {strkey.decode(token)[1] for token in tokens}
    looked_at = [key for key in source.asked if key[:4] == DATA]
    with_own_entry = {key[8:40] for key in looked_at if not is_instance_key(key)}

    assert recorded_pools() == sum(len(reading.pools) for reading in readings)
    assert set() == with_own_entry - by_key - watched.contracts
    assert set() == by_key & watched.contracts
    assert {32} == {len(contract) for contract in watched.contracts}
    assert {key for key in looked_at if key[8:40] not in watched.contracts} == watched.keys


def replayed(chain: Chain, settings: Settings, *candidates: Candidate) -> BoundaryReading | str | None:
    """The outcome of a boundary at the newest ledger of a chain."""
    state, close = chain.state(chain.latest), Close(chain.latest, chain.close_time(chain.latest), 25)
    deployments = network_of(settings.passphrase).deployments if settings.discovery.enabled else ()
    work = Segment("a", settings, *close[::2], state, pack([]), (close,), Watch(), deployments, (), candidates)
    return replay_segment(replace(work, watched=replay_segment(work).unwatched)).outcomes[chain.latest]


def test_only_listed_markets_count_as_unread() -> None:
    """A pool that cannot be read counts if its market is listed: a market of a stranger changes no exit code."""
    network = RecordedNetwork()
    token = pools_of(network, BLEND_V1)[0].token
    broken = [network.deploy("a stranger's market"), BLEND_V1]
    network.close(dict.fromkeys(variant_key(market, "ResData", address(token)) for market in broken))
    outcome = replayed(network.chain, settings_for(), Candidate("blend", broken[0], Origin.EVENT))

    assert isinstance(outcome, BoundaryReading)
    assert outcome.part is not None
    assert broken[0] in set(pl.read_parquet(outcome.part.file.data)["market"])
    assert [f"{BLEND_V1}/{token}"] == outcome.unread


def test_what_is_excluded_has_no_numbers_as_in_a_run() -> None:
    """An excluded pool has no row and counts as no failure, and an excluded oracle gives no price."""
    network = RecordedNetwork()
    chain, pool = network.chain, pools_of(network, BLEND_V1)[0].token
    settings = settings_for(exclude=[ORACLE, f"{BLEND_V1}/{pool}"], **only(BLEND_V1))
    outcome = replayed(chain, settings)

    assert isinstance(outcome, BoundaryReading)
    assert outcome.part is not None
    assert [] == outcome.unread
    rows = pl.read_parquet(outcome.part.file.data)
    assert {token.token for token in pools_of(network, BLEND_V1)} - {pool} == set(rows["pool"])
    assert [None] == rows["oracle_price"].unique().to_list()
