"""The risk of listed markets: what a census adds up, what a run shows of it, and what is derived again."""

from __future__ import annotations

import asyncio
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest
from msgspec import structs

from exporter.audit.added_risk import add_risk
from exporter.audit.census import take_census
from exporter.audit.derived_risk import is_unshown_risk, judge_risk
from exporter.audit.fetched_tree import fetch
from exporter.audit.risk_tally import MarketTally, PoolFacts
from exporter.audit.unproven import UnprovenReason
from exporter.audit.verify import verify_tree
from exporter.console import Console, Silence
from exporter.deployments.networks import derived_address, network_id
from exporter.errors import RefutedError
from exporter.job.evidence import Evidence
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    ARCHIVED,
    TEMPORARY,
    ContractData,
    data_key,
    decode_contract_data,
    encode_contract_data,
)
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.player import RecordedNetwork
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.trusted_organisations import trust_of
from exporter.past.archive_source import FromArchive
from exporter.protocols.base import Market
from exporter.protocols.blend.layout import market_keys, reserve_data_key
from exporter.protocols.blend.positions import POSITION_RULES, USER_LIQUIDATION, positions_key
from exporter.protocols.positions import PoolTerms, Position
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from exporter.tree.decoding import decode_json
from exporter.tree.families import RISK, RISK_TABLE
from exporter.tree.risk_documents import RiskDocument, RiskOfMarket
from tests.job.recorded_archive import CHECKPOINT, recorded_archive
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V2
from tests.snapshot_files import write_snapshot
from tests.stores.bucket_simulator import content

HOLDERS = 6
"""Who shares what the market has, in parts of 1, 2, 3, ...; the last has the rest."""

KEY = RISK.key(checkpoint=CHECKPOINT)
Entries = dict[bytes, RawEntry]


def assets_of(entries: Mapping[bytes, RawEntry]) -> list[str]:
    """The tokens of the market, in the order of its list."""
    listed = decode_contract_data(entries[market_keys(BLEND_V2)[1]].data).value
    return [item[1] for item in listed[1]]


def shares_of(entries: Mapping[bytes, RawEntry], name: str) -> list[list[int]]:
    """All shares of a kind, divided among the holders, one list a holder."""
    totals = [
        Fields.of(decode_contract_data(entries[reserve_data_key(BLEND_V2, asset)].data).value, "ResData").i128(name)
        for asset in assets_of(entries)
    ]
    whole = sum(range(1, HOLDERS + 1))
    parts = [[total * (holder + 1) // whole for holder in range(HOLDERS - 1)] for total in totals]
    rests = [[total - sum(own)] for own, total in zip(parts, totals, strict=True)]
    return [list(each) for each in zip(*([*own, *rest] for own, rest in zip(parts, rests, strict=True)), strict=True)]


def entry_of(key: scval.ScVal, value: scval.ScVal, like: RawEntry, durability: int = 1) -> tuple[bytes, RawEntry]:
    """An entry of the market that lives as long as another."""
    data = encode_contract_data(ContractData(BLEND_V2, key, durability, value))
    return data_key(BLEND_V2, key, durability), RawEntry(data, like.last_modified, like.live_until)


def shares_map(shares: Mapping[int, int]) -> scval.ScVal:
    """A map of shares by index, as the contract keeps it."""
    return (scval.MAP, tuple((u32(index), i128(count)) for index, count in sorted(shares.items())))


def position(holder: int, collateral: list[int], debt: list[int], like: RawEntry) -> tuple[bytes, RawEntry]:
    """A holder's position with all of its supply as collateral."""
    named = {"collateral": collateral, "liabilities": debt, "supply": []}
    value = struct_map({name: shares_map(dict(enumerate(shares))) for name, shares in named.items()})
    return entry_of(vec(symbol("Positions"), address(derived_address(f"holder {holder}"))), value, like)


def with_positions(entries: Entries) -> None:
    """Give all shares of the market to the holders; the first one's position is archived, the second one's on sale."""
    like = entries[market_keys(BLEND_V2)[0]]
    supplied, owed = shares_of(entries, "b_supply"), shares_of(entries, "d_supply")
    for holder in range(HOLDERS):
        key, entry = position(holder, supplied[holder], owed[holder], like)
        entries[key] = RawEntry(entry.data, entry.last_modified, CHECKPOINT - 1) if holder == 0 else entry
    for holder, until in ((1, CHECKPOINT + 10), (2, CHECKPOINT - 1)):  # the third one's auction is over
        user = struct_map({"auct_type": u32(USER_LIQUIDATION), "user": address(derived_address(f"holder {holder}"))})
        bid = struct_map({"bid": (scval.MAP, ()), "block": u32(1), "lot": (scval.MAP, ())})
        key, entry = entry_of(vec(symbol("Auction"), user), bid, like, TEMPORARY)
        entries[key] = RawEntry(entry.data, entry.last_modified, until)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FromArchive]:
    """A tree whose run shows the risk of the checkpoint that it is of, and the archive."""
    return _published(tmp_path_factory.mktemp("risk"), with_positions)


def _published(folder: Path, change: Callable[[Entries], None]) -> tuple[Path, FromArchive]:
    _, given = recorded_archive(folder, change)
    network = RecordedNetwork()
    chain = network.chain
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    closed = chain.close_time(chain.latest) + 300 - (CHECKPOINT - chain.latest)  # as the archive has it
    earlier = folder / "earlier.json"
    write_snapshot(LedgerSnapshot(28, chain.latest, closed, network_id(network.passphrase), entries), earlier)
    settings = settings_for(folder / "out")
    run(settings, snapshot=earlier)
    take_census(settings, given, open_store(str(folder / "out")), Silence())
    run(settings, archive=given)
    return folder / "out", given


def figures(out: Path) -> RiskOfMarket:
    """What the risk document of a tree says about the market."""
    document = msgspec.json.decode((out / KEY).read_bytes(), type=RiskDocument)
    return next(item for item in document.data if item.market == BLEND_V2)


def test_all_shares_are_explained(counted: tuple[Path, FromArchive]) -> None:
    """Archived positions are in the sums, which are those of the pools; nobody is named."""
    market = figures(counted[0])

    assert (BLEND_V2, HOLDERS, HOLDERS, 0) == (
        market.market,
        market.supplier_count,
        market.borrower_count,
        market.not_judged_count,
    )
    assert {("0", "0")} == {(pool.supply_shares_unexplained, pool.debt_shares_unexplained) for pool in market.pools}
    text = (counted[0] / KEY).read_text()
    assert not any(derived_address(f"holder {holder}") in text for holder in range(HOLDERS))


def test_sums_agree_with_each_other(counted: tuple[Path, FromArchive]) -> None:
    """All debt of the pools is secured; a larger fall counts more of it; the largest six owe all."""
    market = figures(counted[0])
    assert market.now is not None
    parts = [
        int(cents)
        for pool in market.pools
        for cents in (
            *(item.secured_usd_cents for item in pool.secured_by),
            pool.secured_by_others_usd_cents or 0,
            pool.not_secured_usd_cents or 0,
        )
    ]
    together = [fall for fall in market.falls if fall.token_address is None]

    assert 0 <= int(market.now.debt_usd_cents) - sum(parts) <= len(parts)  # each part is rounded down
    assert [500, 1_000, 2_000, 3_000, 5_000] == [fall.fall_bps for fall in together]
    assert market.largest_borrowers is not None
    assert 10_000 == market.largest_borrowers.largest_10_bps == market.largest_borrowers.largest_100_bps
    assert market.largest_borrowers.largest_1_bps < 10_000
    assert 0 < int(market.now.in_auction_usd_cents) < int(market.now.debt_usd_cents)


def test_the_run_shows_it(counted: tuple[Path, FromArchive]) -> None:
    """The market's document has its figures with the checkpoint, the status its digest, the pages two sentences."""
    out, _ = counted
    status = json.loads((out / "v1/system/status.json").read_bytes())
    risk = json.loads((out / f"v1/markets/{BLEND_V2}.json").read_bytes())["risk"]
    page = (out / f"markets/{BLEND_V2}.html").read_text()

    assert (KEY, CHECKPOINT) == (status["risk_key"], risk["checkpoint"])
    assert risk["figures"] == msgspec.to_builtins(figures(out))
    assert "that borrowers owe" in page
    assert "the ten largest borrowers owe" in page
    assert "Debt that can be liquidated if" in page
    assert all("that borrowers owe" in path.read_text() for path in (out / f"pools/{BLEND_V2}").iterdir())


def test_the_table_has_its_rows(counted: tuple[Path, FromArchive]) -> None:
    """The market has a row at present prices and one for each fall; a second census changes nothing."""
    out, given = counted
    before = (out / "history/risk.parquet").read_bytes(), (out / KEY).read_bytes()
    take_census(settings_for(out), given, open_store(str(out)), Silence())
    rows = pl.read_parquet(out / "history/risk.parquet").filter(market=BLEND_V2)
    market = figures(out)

    assert before == ((out / "history/risk.parquet").read_bytes(), (out / KEY).read_bytes())
    assert 1 + len(market.falls) == rows.height
    assert {CHECKPOINT} == set(rows["checkpoint"])


@pytest.mark.parametrize("left", ["an older copy", "nothing", "damage"])
def test_the_table_is_made_whole_again(counted: tuple[Path, FromArchive], left: str) -> None:
    """The rows that a table lost are made again from the risk documents, and the census says so."""
    document = decode_json((counted[0] / KEY).read_bytes(), RiskDocument)
    whole, store, said = MemoryStore(), MemoryStore(), io.StringIO()
    for number in range(4):
        add_risk(whole, structs.replace(document, checkpoint=127 + 64 * number), Silence())
    for number in range(3):
        add_risk(store, structs.replace(document, checkpoint=127 + 64 * number), Silence())
        if number == 0:
            older = content(store, RISK_TABLE.only_key)
    if left == "nothing":
        store.delete([RISK_TABLE.only_key])
    else:
        store.put(RISK_TABLE.only_key, older if left == "an older copy" else b"damage")
    add_risk(store, structs.replace(document, checkpoint=127 + 64 * 3), Console("text", said))

    assert content(whole, RISK_TABLE.only_key) == content(store, RISK_TABLE.only_key)
    lacked = "2 checkpoints" if left == "an older copy" else "3 checkpoints"
    assert f"history/risk.parquet lacked {lacked}" in said.getvalue()


def verified(out: Path, given: FromArchive, *, complete: bool) -> list[str]:
    """The statements that a verification of the tree names."""
    found = verify_tree(str(out), list(given.uris), given.trust, Silence(), complete=complete)
    return list(found.unproven.names.get(UnprovenReason.STATEMENTS, ()))


def test_it_is_derived_again(counted: tuple[Path, FromArchive]) -> None:
    """The risk document is proven with `--complete`, and a statement without it."""
    out, given = counted

    assert KEY not in " ".join(verified(out, given, complete=True))
    assert f"{KEY} (--complete derives it again)" in verified(out, given, complete=False)


def judged(counted: tuple[Path, FromArchive], folder: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """What is not proven of a risk document with a change, in the tree of the run that shows it."""
    out, given = counted
    (folder / "tree").mkdir()
    tree = asyncio.run(fetch(str(out), folder / "tree", 0))
    content = json.loads(tree.risk or b"")
    change(content)
    tree = structs.replace(tree, risk=msgspec.json.encode(msgspec.convert(content, RiskDocument)))
    evidence = Evidence.decode(tree.evidence, "evidence")
    archives = Archives.open(given.uris, folder / "buckets")
    return list(judge_risk(tree, evidence, archives, trust_of(tree.status.network, given.trust), folder, complete=True))


def test_another_number_is_refuted(counted: tuple[Path, FromArchive], tmp_path: Path) -> None:
    """A count of borrowers that the positions do not give contradicts the document."""

    def lied(content: dict[str, Any]) -> None:
        content["data"][-1]["borrower_count"] += 1

    with pytest.raises(RefutedError, match="are not what its positions give"):
        judged(counted, tmp_path, lied)


def test_a_document_that_lacks_a_listed_market(counted: tuple[Path, FromArchive], tmp_path: Path) -> None:
    """Figures of a listed market that are not there are named as not proven: its word alone says why."""
    said = judged(counted, tmp_path, lambda content: content["data"].clear())

    assert f"{KEY}: it lacks {BLEND_V2}, which is listed for the run" in said


@pytest.mark.slow
def test_a_run_that_shows_other_figures_is_refuted(counted: tuple[Path, FromArchive], tmp_path: Path) -> None:
    """A verification of a tree whose run shows another count of borrowers ends with a contradiction."""
    out, given = counted

    def lied(content: dict[str, Any]) -> None:
        content["data"][-1]["borrower_count"] += 1

    _lie(out, tmp_path / "out", lied)
    run(settings_for(tmp_path / "out"), archive=given)
    with pytest.raises(RefutedError, match="are not what its positions give"):
        verified(tmp_path / "out", given, complete=True)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (RISK_TABLE.only_key, True),
        (RISK.key(checkpoint=127), True),
        (RISK.key(checkpoint=63), False),  # the run shows it, so it is judged by itself
        ("v1/census.json", False),
    ],
)
def test_figures_that_the_run_does_not_show(key: str, expected: bool) -> None:
    """The table of all checkpoints, and the document of a checkpoint that the run does not show, are not the run's."""
    status: Any = SimpleNamespace(risk_key=RISK.key(checkpoint=63))

    assert expected == is_unshown_risk(key, status)


def _lie(out: Path, into: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A tree of the earlier run alone, with another risk document."""
    settings = settings_for(into)
    run(settings, snapshot=out.parent / "earlier.json")
    content = json.loads((out / KEY).read_bytes())
    change(content)
    (into / KEY).parent.mkdir(parents=True)
    (into / KEY).write_bytes(msgspec.json.encode(msgspec.convert(content, RiskDocument)))


@pytest.mark.slow
def test_positions_that_lack_shares(tmp_path: Path) -> None:
    """If a holder's position is missing, the document says how many shares nobody has. Few borrowers are counted."""

    def change(entries: Entries) -> None:
        with_positions(entries)
        for holder in (4, 5):
            del entries[positions_key(BLEND_V2, derived_address(f"holder {holder}"))]

    out, _ = _published(tmp_path, change)
    market = figures(out)
    page = (out / f"markets/{BLEND_V2}.html").read_text()

    assert all(int(pool.supply_shares_unexplained) > 0 for pool in market.pools)
    assert (4, None, None, []) == (market.borrower_count, market.now, market.largest_borrowers, market.falls)
    assert {(None, ())} == {(pool.largest_borrowers, tuple(pool.secured_by)) for pool in market.pools}
    assert "Fewer than 5 borrowers here can be judged" in page
    assert ARCHIVED < CHECKPOINT


def made_positions(count: int) -> Iterator[bytes]:
    """Entries of this many positions, of dust and all sizes, in two pools, each of another account."""
    for number in range(count):
        collateral = {number % 2: 1 if number % 3 else 10 ** (number % 15)}
        debt = {(number + 1) % 2: 1 if number % 5 else 10 ** (number % 14)} if number % 4 else {}
        value = struct_map(
            {"collateral": shares_map(collateral), "liabilities": shares_map(debt), "supply": shares_map({})}
        )
        key = vec(symbol("Positions"), address(derived_address(str(number))))
        yield encode_contract_data(ContractData(BLEND_V2, key, 1, value))


@pytest.mark.parametrize(("borrowers", "shown"), [(4, False), (5, True)])
def test_who_borrows_is_shown_from_five_holders_on(borrowers: int, shown: bool) -> None:
    """Sums of few positions would reveal a single one; the largest collateral comes first.

    A position with debt in a pool without a price cannot be judged, and is only counted.
    """
    terms = PoolTerms(10**12, 10**12, 10**12, 10**7, 7_500_000, 9_500_000, 0, 0)
    pools = [PoolFacts(name, name, name, 7, terms, 10**7, stable=False) for name in ("one", "two", "three")]
    pools.append(PoolFacts("four", "four", "four", 7, terms, None, stable=False))
    market = Market(BLEND_V2, "blend", "v2", "made", "active", None, "", "", tuple(pool.pool for pool in pools))
    tally = MarketTally(market, pools, 7, None, POSITION_RULES)
    for _ in range(borrowers):
        tally.add(Position(debt={2: 10**7}, collateral={0: 10**7, 1: 3 * 10**7}, supply={}))
    for _ in range(2):
        tally.add(Position(debt={3: 10**7}, collateral={0: 10**7}, supply={}))
    figures = tally.figures()
    secured_by = [(item.symbol, item.secured_usd_cents) for item in figures.pools[2].secured_by]

    assert (borrowers + 2, 2, shown) == (figures.borrower_count, figures.not_judged_count, figures.now is not None)
    assert ([("two", "375"), ("one", "125")] if shown else []) == secured_by


@pytest.mark.slow
def test_many_positions_need_no_more_memory_than_a_few() -> None:
    """Sums of 20,000 positions, most of them dust, are those of plain integers; nothing is kept of a position."""
    terms = PoolTerms(10**12, 10**12, 10**12, 10**7, 7_500_000, 9_500_000, 0, 0)
    pools = [PoolFacts(name, name, "X", 7, terms, 10**7, stable=False) for name in ("one", "two")]
    market = Market(BLEND_V2, "blend", "v2", "made", "active", None, "", "", ("one", "two"))
    tally, count = MarketTally(market, pools, 7, None, POSITION_RULES), 20_000
    positions = list(made_positions(count))
    tracemalloc.start()
    for data in positions:
        tally.take(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert tally.failure is None
    assert count == tally.suppliers
    assert count - count // 4 == tally.borrowers
    assert peak < 100_000  # to keep each position takes 11,000,000
    supplied = [sum(1 if n % 3 else 10 ** (n % 15) for n in range(place, count, 2)) for place in (0, 1)]
    assert supplied == [each.supply.total for each in tally.tallies]
