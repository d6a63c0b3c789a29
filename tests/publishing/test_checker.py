"""Checking a tree: a good one passes, and each single fault is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import CheckError, NothingPublishedError
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.blend.layout import market_keys
from exporter.publishing.faults import TreeFaultsError
from exporter.tree.documents import page_token
from exporter.tree.families import HISTORY_MANIFEST_KEY, OPENAPI_KEY, STATUS_KEY
from exporter.tree.run_listing import RunListing
from tests.audit.trees import (
    RUNS,
    Change,
    Files,
    add_listed,
    assert_named,
    change,
    check,
    encoded,
    faults,
    keys,
    lie,
    listed_of,
    manifest_of,
    seal,
    small_tree,
    status_of,
    summaries,
    tree_of,
)
from tests.examples import examples
from tests.localnet.recorded import BLEND_V1, BLEND_V2, with_status


def first(files: Files, start: str, end: str = ".json") -> str:
    return keys(files, start, end)[0]


def market_with_pools(files: Files, least: int = 1) -> str:
    return next(key for key in summaries(files) if len(json.loads(files[key])["pools"]) >= least)


def test_passes_and_says_how_much_was_looked_at(files: Files) -> None:
    """Every file of the run, its pools and history files are counted."""
    looked = check(files)

    status = status_of(files)
    listed = listed_of(files)
    heads = [key for key in keys(files, "v1/assets/") if key.endswith("/index.json") or "/limit/" in key]
    assert looked.pools == status["pool_count"] - len(status["unread"])
    assert looked.markets == status["market_count"]
    assert (looked.history_files, looked.ledger) == (RUNS, status["observed_ledger"])
    assert looked.documents["AssetsPage"] == len(keys(files, "v1/pages/")) + len(heads) + 1
    assert sum(looked.files.values()) >= len(listed) + 3
    assert (1, 1) == (looked.documents["RunManifest"], looked.documents["HistoryManifest"])
    state = looked.documents["WatchedValues"]  # which the API does not describe
    assert looked.validated == sum(looked.documents.values()) - state
    assert looked.complete


def test_a_sample_reads_less_and_says_so(files: Files) -> None:
    """A sample reads less, and says that it is one."""
    whole, sample = check(files), check(files, sample=2)

    assert sample.pools < whole.pools
    assert 0 < sum(sample.files.values()) < sum(whole.files.values())
    assert not sample.complete
    assert "a sample" in sample.lines()[0]
    lie(files, market_with_pools(files), put(observed_ledger=1))
    assert any("the run is of ledger" in fault for fault in faults(files, sample=100))


def test_files_of_earlier_runs_may_remain(files: Files) -> None:
    """A page and a document that the manifest does not list are none of the run's."""
    page = encoded({"data": [], "next_cursor": None, "observed_ledger": 1})
    files[f"v1/pages/{page_token(page)}.json"] = page
    files["v1/markets/" + "C" * 56 + ".json"] = b"of a market that vanished"

    assert check(files).ledger


def test_a_run_without_pools_is_legal() -> None:
    """A run in which no market has a pool is legal, because the status says so; its totals have empty histories."""
    network = RecordedNetwork(without=[market_keys(market)[1] for market in (BLEND_V1, BLEND_V2)])
    for market in (BLEND_V1, BLEND_V2):
        network.close(with_status(network, market, 6))  # it is set up
    files = tree_of(network, "blend")
    looked = check(files)

    assert 0 == looked.pools
    assert looked.markets > 0
    for key in ("v1/protocol/summary/history/1d.json", f"v1/markets/{BLEND_V1}/history/1d.json"):
        assert [] == json.loads(files[key])["data"]


def test_what_leads_to_the_files(files: Files) -> None:
    """The run's listing, the manifest that names it and the status document are there, and the listing is one."""
    manifest_key, key = status_of(files)["manifest_key"], manifest_of(files)["files_key"]
    files[key] = b"PAR1"
    change(files, manifest_key, lambda manifest: manifest.update(files_sha256=sha256(b"PAR1").hexdigest()))
    with pytest.raises(CheckError, match="is not a listing of files"):
        check(files)
    for lost, error in ((key, CheckError), (manifest_key, CheckError), (STATUS_KEY, NothingPublishedError)):
        del files[lost]
        with pytest.raises(error, match=f"{lost} is missing"):
            check(files)


def test_a_history_that_lost_its_files(files: Files) -> None:
    """A history's manifest that names no file reaches to no ledger, and the files that are there are not its own."""
    change(files, HISTORY_MANIFEST_KEY, lambda manifest: manifest.update(files=[]))

    ledger = status_of(files)["observed_ledger"]
    said = f"$.files reaches to ledger 0, but the run is of ledger {ledger}"
    assert f"{HISTORY_MANIFEST_KEY}: {said}" in faults(files)


def test_each_file_by_itself(files: Files) -> None:
    """Whatever its kind, a file that is missing, cut off, empty or of no known kind is named; so is another digit."""
    add_listed(files, "v1/strange.exe", b"MZ")
    starts = ("v1/pages/", "v1/assets/market/", "v1/tokens/", "v1/protocol/")
    lost = ["v1/assets/empty.json", "404.html", *(first(files, start) for start in starts)]
    lost.append(first(files, "history/", ".parquet"))
    cut = [first(files, start) for start in ("v1/markets/", "v1/assets/index", "v1/assets/token/")]
    page = [key for key in keys(files, "v1/pages/") if b'"total_supplied":"1' in files[key]][-1]
    assert page not in lost
    files[page] = files[page].replace(b'"total_supplied":"1', b'"total_supplied":"2', 1)
    files["index.html"] = b""
    for key in lost:
        del files[key]
    for key in cut:
        files[key] = files[key][:-5]

    assert_named(files, page, "its content has the token")
    assert_named(files, "index.html", "is empty")
    assert_named(files, "v1/strange.exe", "no file of a tree has such an extension")
    for key in lost:
        assert_named(files, key, "is missing, though the run's manifest lists it")
    for key in cut:
        assert_named(files, key, "does not decode")
        assert_named(files, key, "does not have the bytes")


@examples(fast=8, thorough=200)
@given(data=st.data())
def test_any_single_byte(data: st.DataObject) -> None:
    """A change of a byte of a file that the run lists, or of its records, is detected.

    Which file, byte and change are drawn: a few here, more in the random suite.
    """
    files = small_tree()
    listed = [entry.key for entry in listed_of(files)]
    own = [status_of(files)["manifest_key"], manifest_of(files)["files_key"], "v1/history.json"]
    key = data.draw(st.sampled_from([*listed, *own, *own]))
    position = data.draw(st.integers(0, len(files[key]) - 1))
    byte = data.draw(st.integers(1, 255))
    changed = bytearray(files[key])
    changed[position] ^= byte
    files[key] = bytes(changed)

    with pytest.raises(CheckError):
        check(files)


def test_a_field_that_contradicts_the_tree_is_found(files: Files) -> None:
    """A field that contradicts the tree is found."""
    lies: dict[str, Any] = {
        "observed_ledger": 65_000_002,
        "generated_at": "2026-01-01T00:00:00Z",
        "evidence_key": f"v1/evidence/{64 * '0'}.jsonl.gz",
        "manifest_sha256": "0" * 64,
    }
    change(files, STATUS_KEY, put(**lies))

    for said in ("ledger 65000002", "generated_at is 2026-01-01", "which is missing", "does not have the digest"):
        assert any(said in fault for fault in faults(files)), faults(files)


def put(**fields: Any) -> Change:
    return lambda document: document.update(fields)


def priced_detail(number: int) -> Callable[[Files], str]:
    def key_in(files: Files) -> str:
        details = [key for key in keys(files, "v1/assets/C") if "/history/" not in key]
        return [key for key in details if json.loads(files[key])["oracle_price_usd"]][number]

    return key_in


LIES: list[tuple[Callable[[Files], str], Change, str]] = [
    (market_with_pools, put(observed_ledger=65_000_001), "the run is of ledger"),
    (lambda _: "v1/markets.json", put(observed_ledger=1), "the run is of ledger"),
    (lambda files: first(files, "v1/assets/C", "/history/1d.json"), put(observed_ledger=65_000_999), "the run is of"),
    (lambda _: "v1/assets/index.json", put(next_cursor="A" * 22), "next_cursor leads to v1/pages/A{22}.json, which is"),
    (priced_detail(0), put(utilization_bps=9_999), "utilization_bps is 9999, but its totals give"),
    (priced_detail(1), put(tvl_usd_cents="0"), "tvl_usd_cents is 0, but what is supplied alone is worth [1-9]"),
    (priced_detail(2), put(total_supplied="9" * 10_000), "cannot be read"),
]


def test_contradicting_documents_and_dead_links_are_named(files: Files) -> None:
    """Documents of another ledger, those that contradict themselves and links that lead nowhere are named."""
    for place, edit, _ in LIES:
        change(files, place(files), edit)
    files["index.html"] = b'<a href="v1/nowhere">x</a>' + files["index.html"]
    seal(files)

    for place, _, said in LIES:
        assert_named(files, place(files), said)
    assert_named(files, "index.html", "links to /v1/nowhere, but")


def test_a_wrong_run_id_count_or_listing_is_found(files: Files) -> None:
    """A run's id is the digest of its files; another one is found, and so are other counts and another listing."""
    key, files_key = status_of(files)["manifest_key"], manifest_of(files)["files_key"]
    files[files_key] = RunListing.of(listed_of(files)[1:]).parquet
    digest = sha256(files[files_key]).hexdigest()

    with pytest.raises(CheckError, match=f"{files_key} does not have the digest that the run's manifest gives"):
        check(files)
    change(files, key, lambda manifest: manifest.update(files_sha256=digest))
    assert_named(files, key, "the files listed give")
    assert_named(files, key, "but lists")


def test_an_unfinished_later_run_is_found(files: Files) -> None:
    """If a later run died while it replaced documents, the check says so."""
    change(files, "v1/system/intent.json", put(observed_ledger=65_000_008))
    assert 65_000_007 == check(files).ledger

    change(files, "v1/assets/limit/1.json", lambda page: page["data"][0].update(observed_ledger=65_000_008))

    assert_named(files, "v1/system/intent.json", "a run at ledger 65000008 began .* run again")


def test_the_first_are_listed_and_all_are_counted(files: Files) -> None:
    """A message lists twenty faults by key and says how many more there are."""
    files["index.html"] = b'<a href="v1/%b">x</a>' % (b"x" * 100_000)  # what a file says is repeated within bounds
    for key in keys(files, "v1/assets/token/"):
        files[key] = b"{"

    with pytest.raises(TreeFaultsError) as caught:
        check(files)
    shown = str(caught.value).splitlines()
    assert 22 == len(shown)
    assert max(map(len, map(str, caught.value.faults))) < 600
    assert f"  and {len(caught.value.faults) - 20} more" == shown[-1]
    assert [str(fault) for fault in caught.value.faults] == sorted(map(str, caught.value.faults))


def test_documents_and_schemas_disagree(files: Files) -> None:
    """A schema that the documents do not fit is found; one that cannot be used is named, and so is a missing one."""

    def stricter(document: Any) -> None:
        document["components"]["schemas"]["PoolSnapshot"]["properties"]["symbol"]["pattern"] = "^NONE$"

    lie(files, OPENAPI_KEY, stricter)
    assert_named(
        files, "v1/assets/index.json", r"is not as the OpenAPI document says: \$\.data\[0\]\.symbol: .* does not match"
    )
    change(files, OPENAPI_KEY, lambda document: document["components"].pop("schemas"))
    seal(files)
    assert_named(files, OPENAPI_KEY, "its schemas cannot be used")

    del files[OPENAPI_KEY]
    seal(files)
    assert_named(files, OPENAPI_KEY, "is missing")
