"""Checking a tree: a good one passes, and each single fault is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.check.checker import TreeChecker
from exporter.check.faults import TreeFaultsError
from exporter.errors import CheckError
from exporter.localnet.blend import reserve_config
from exporter.localnet.chain import Change
from exporter.localnet.made import MadeNetwork
from exporter.tree.documents import page_token
from exporter.tree.families import POINTER_KEY
from tests.check.trees import (
    RUNS,
    SIZES,
    Files,
    add_listed,
    add_page,
    change,
    check,
    encoded,
    good_tree,
    keys,
    lie,
    manifest_of,
    seal,
    small_tree,
    status_of,
    tree_of,
)


@pytest.fixture
def files() -> Files:
    """A good tree of its own."""
    return good_tree()


def faults(files: Files, sample: int | None = None) -> list[str]:
    """What the checker finds wrong."""
    with pytest.raises(TreeFaultsError) as caught:
        check(files, sample)
    assert caught.value.total == len(caught.value.faults)
    return [str(fault) for fault in caught.value.faults]


def assert_named(files: Files, key: str, text: str) -> None:
    """The checker names a key, with a text (a regular expression) about it."""
    found = faults(files)
    assert any(re.match(f"{re.escape(key)}: .*{text}", fault) for fault in found), found


def first(files: Files, start: str, end: str = ".json") -> str:
    """The first key of the run with this start and end."""
    return keys(files, start, end)[0]


def market_with_pools(files: Files, least: int = 1) -> str:
    """The key of a market document with at least so many pools listed."""
    return next(key for key in keys(files, "v1/markets/") if len(json.loads(files[key])["pools"]) >= least)


class TestGoodTree:
    """What a run published."""

    def test_passes_and_says_how_much_was_looked_at(self, files: Files) -> None:
        """Every file of the run, all rows, walks and history files are counted."""
        looked = check(files)

        rows = len(json.loads(files["v1/assets/limit/5.json"])["data"])
        status = status_of(files)
        listed = manifest_of(files)["files"]
        heads = keys(files, "v1/assets/", "/index.json")
        assert looked.pools == status["pool_count"] - len(status["unread"])
        assert looked.pools > rows
        assert looked.markets == status["market_count"]
        assert looked.walks == len(heads) * (len(SIZES) + 2)
        assert (looked.history_files, looked.ledger) == (RUNS, status["observed_ledger"])
        assert looked.documents["AssetsPage"] == len(keys(files, "v1/pages/")) + len(heads) * (len(SIZES) + 2) + 1
        assert sum(looked.files.values()) >= len(listed) + 3
        assert looked.complete

    def test_sample(self, files: Files) -> None:
        """A sample reads less, walks over all pools once, and says that it is one."""
        whole, sample = check(files), check(files, sample=2)

        assert sample.pools == whole.pools
        assert 0 < sum(sample.files.values()) < sum(whole.files.values())
        assert not sample.complete
        assert "a sample" in sample.lines()[0]

    def test_files_of_earlier_runs_may_stand(self, files: Files) -> None:
        """A page and a document that the manifest does not list are none of the run's."""
        page = encoded({"data": [], "next_cursor": None})
        files[f"v1/pages/{page_token(page)}.json"] = page
        files["v1/markets/" + "C" * 56 + ".json"] = b"of a market that vanished"

        assert check(files).ledger

    def test_no_pools(self) -> None:
        """A run in which no market has a pool is legal, because the status says so."""
        looked = check(small_tree(0))

        assert (looked.pools, looked.rows) == (0, 0)
        assert looked.markets > 0

    def test_sealing_changes_nothing(self, files: Files) -> None:
        """The tests' own way to make a manifest anew gives a good tree again."""
        seal(files)

        assert check(files).pools


class TestMissingAndDamaged:
    """Files that are not there, or not what was written."""

    def test_nothing(self) -> None:
        """No file at all is no good tree."""
        with pytest.raises(CheckError, match=r"status\.json is missing"):
            check({})
        with pytest.raises(CheckError, match="not one file"):
            TreeChecker(1).finish()

    def test_no_status(self, files: Files) -> None:
        """Without a pointer nothing is published."""
        del files[POINTER_KEY]

        with pytest.raises(CheckError, match=r"status\.json is missing"):
            check(files)

    def test_no_manifest(self, files: Files) -> None:
        """The pointer must lead to the run's manifest."""
        del files[status_of(files)["manifest_key"]]

        with pytest.raises(CheckError, match=r"v1/runs/.*is missing"):
            check(files)

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("v1/pages/", ".json"),
            ("v1/assets/index", ".json"),
            ("v1/assets/market/", "/limit/1.json"),
            ("v1/assets/token/", "/limit/0.json"),
            ("v1/assets/empty", ".json"),
            ("v1/markets/", ".json"),
            ("v1/markets", ".json"),
            ("v1/tokens/", ".json"),
            ("v1/protocol/", ".json"),
            ("index", ".html"),
            ("history/", ".parquet"),
        ],
    )
    def test_dropped_file(self, files: Files, start: str, end: str) -> None:
        """A file that the manifest lists is missed, whatever its kind."""
        key = first(files, start, end)
        del files[key]

        assert_named(files, key, "is missing, though the run's manifest lists it")

    @pytest.mark.parametrize("start", ["v1/markets/", "v1/assets/index", "v1/tokens/", "v1/pages/"])
    def test_truncated_json(self, files: Files, start: str) -> None:
        """JSON that is cut off does not decode, and has not the listed bytes."""
        key = first(files, start)
        files[key] = files[key][:-5]

        assert_named(files, key, "does not decode")
        assert_named(files, key, "does not have the bytes")

    def test_empty_file(self, files: Files) -> None:
        """A file without a byte is named."""
        files["index.html"] = b""

        assert_named(files, "index.html", "is empty")

    def test_other_form(self, files: Files) -> None:
        """A document that says the same in another form is refused: there is one form only."""
        key = first(files, "v1/markets/")
        files[key] = json.dumps(json.loads(files[key]), indent=1).encode()
        seal(files)

        assert_named(files, key, "not in canonical form")

    def test_flipped_digit(self, files: Files) -> None:
        """One digit of one amount in one page is found, by the page's name and by the manifest."""
        key = next(key for key in keys(files, "v1/pages/") if b'"total_supplied":"1' in files[key])
        files[key] = files[key].replace(b'"total_supplied":"1', b'"total_supplied":"2', 1)

        assert_named(files, key, "its content has the token")
        assert_named(files, key, "does not have the bytes")

    def test_stranger_file(self, files: Files) -> None:
        """A file that no key of the API names cannot be part of a run."""
        add_listed(files, "v1/strange.json", b"{}")
        add_listed(files, "v1/strange.exe", b"MZ")

        assert_named(files, "v1/strange.json", "no document has such a key")
        assert_named(files, "v1/strange.exe", "no file of a tree has such an extension")

    @settings(max_examples=80, deadline=None)
    @given(data=st.data())
    def test_any_single_byte(self, data: st.DataObject) -> None:
        """Any change of any byte of any file that the run lists, or of its records, is detected."""
        files = good_tree()
        listed = sorted([entry["key"] for entry in manifest_of(files)["files"]])
        own = [status_of(files)["manifest_key"], "v1/history.json"]
        key = data.draw(st.sampled_from([*listed, *own, *own]))
        position = data.draw(st.integers(0, len(files[key]) - 1))
        byte = data.draw(st.integers(1, 255))
        changed = bytearray(files[key])
        changed[position] ^= byte
        files[key] = bytes(changed)

        with pytest.raises(CheckError):
            check(files)


class TestStatus:
    """The pointer, which no digest covers: what it says must be what the rest says."""

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("observed_ledger", 65_000_002, "ledger 65000002"),
            ("market_count", 3, "market_count is 3"),
            ("pool_count", 3, "pool_count is 3"),
            ("token_count", 3, "token_count is 3"),
            ("ledger_close_time", "2026-01-01T00:00:00Z", "close time"),
            ("generated_at", "2026-01-01T00:00:00Z", "generated_at"),
            ("network", "another", "network"),
            ("schema_version", 9, "schema_version is 9"),
            ("page_sizes", [1, 2], "limit/5.json: is of a size"),
            ("page_sizes", [1, 2, 5, 10], "limit/10.json: is missing"),
            ("page_sizes", [2, 5], "1 must be one of them"),
            ("page_sizes", [5, 2, 1], "does not ascend"),
            ("default_page_size", 5, "index.json: "),
            ("manifest_sha256", "0" * 64, "digest"),
            ("unread", [], "unread"),
            ("unpriced", [], "unpriced"),
        ],
    )
    def test_field(self, files: Files, field: str, value: Any, said: str) -> None:
        """A field that contradicts the tree is found."""
        if field in ("unread", "unpriced"):
            change(files, POINTER_KEY, lambda status: status.update({f"{field}_count": 0}))
        change(files, POINTER_KEY, lambda status: status.update({field: value}))

        if field == "unpriced":
            assert status_of(good_tree())["unpriced"]  # or this case would show nothing
        assert any(said in fault for fault in faults(files)), faults(files)

    def test_field_at_its_bound(self) -> None:
        """A yield at the largest number is named, with every pool there; to leave out or to make up one is found."""
        network = MadeNetwork(pools=2)
        market = network.markets[0]
        reserve = market.reserves[0]
        reserve.config = replace(reserve.config, r_base=2**32 - 1)
        network.chain.close(
            [Change(*reserve_config(market, reserve), 2**32 - 1)], close_time=network.chain.close_time(65_000_000) + 5
        )
        files = tree_of(network)
        named = [(item["market"], item["pool"], item["field"]) for item in status_of(files)["bounded"]]

        check(files)  # no fault
        assert [(market.address, reserve.token, "borrow_apy_bps")] == [item for item in named if "borrow" in item[2]]
        change(files, POINTER_KEY, lambda status: status.update(bounded=[]))
        assert_named(files, POINTER_KEY, f"does not name borrow_apy_bps of {market.address} {reserve.token}")
        made_up = {"market": market.address, "pool": reserve.token, "field": "utilization_bps", "bound": "9" * 16}
        change(files, POINTER_KEY, lambda status: status.update(bounded=[made_up]))
        assert_named(files, POINTER_KEY, f"names utilization_bps of {market.address} {reserve.token}")


def _edit(name: str, value: Any) -> Callable[[Any], None]:
    return lambda document: document.update({name: value})


class TestConsistentLies:
    """Documents that are wrong although every digest fits: what a bug in the renderer would publish."""

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("tvl_usd_cents", "1", "its pools sum up to"),
            ("pool_count", 60, "60"),
            ("truncated", None, "truncated"),
            ("observed_ledger", 65_000_001, "the run is of ledger"),
        ],
    )
    def test_market_document(self, files: Files, name: str, value: Any, said: str) -> None:
        """A wrong sum, count, flag or ledger of a market is named."""
        key = market_with_pools(files)
        if name == "truncated":
            value = not json.loads(files[key])["truncated"]
        lie(files, key, _edit(name, value))

        assert_named(files, key, said)

    def test_market_lists_another_pool(self, files: Files) -> None:
        """A pool in a market's document must be as the listing has it."""
        key = market_with_pools(files)
        lie(files, key, lambda document: document["pools"][0].update(borrow_apy_bps=1_234_567))

        assert_named(files, key, "borrow_apy_bps is 1234567, but the listing")

    def test_market_lists_more_than_the_cap(self, files: Files) -> None:
        """No market may list more pools than one that is cut, and a cut one must say so."""
        key = next(key for key in keys(files, "v1/markets/") if json.loads(files[key])["truncated"])
        lie(files, key, lambda document: document["pools"].pop())

        others = [other for other in keys(files, "v1/markets/") if len(json.loads(files[other])["pools"]) == 2]
        assert others
        assert_named(files, others[0], "another market is cut at 1")

    def test_market_without_a_document(self, files: Files) -> None:
        """A market whose document is neither there nor listed is missed by the counts and by its pools."""
        key = market_with_pools(files)
        del files[key]
        seal(files)

        assert_named(files, POINTER_KEY, "market_count")
        assert_named(files, POINTER_KEY, "has pools, but no document")

    @pytest.mark.parametrize(
        ("start", "name", "value", "said"),
        [
            ("v1/markets.json", "observed_ledger", 1, "another ledger|run is of ledger"),
            ("v1/protocol/summary.json", "market_count", 99, "99"),
            ("v1/tokens/", "symbol", "FAKE", "FAKE"),
            ("v1/tokens/", "observed_ledger", 65_000_001, "the run is of ledger"),
        ],
    )
    def test_overview(self, files: Files, start: str, name: str, value: Any, said: str) -> None:
        """The lists and summaries must say what the markets and pools say."""
        key = first(files, start.removesuffix(".json"))
        lie(files, key, _edit(name, value))

        assert_named(files, key, said)

    def test_token_without_one_of_its_pools(self, files: Files) -> None:
        """A token's document names all of its pools."""
        key = first(files, "v1/tokens/")
        lie(files, key, lambda document: document["pools"].pop())

        assert_named(files, key, "the listing of all pools has")

    def test_asset_detail(self, files: Files) -> None:
        """The detail of an asset begins with its snapshot, value for value."""
        key = next(key for key in keys(files, "v1/assets/C") if "/history/" not in key)
        lie(files, key, _edit("total_borrowed", "12345678901234567890"))

        assert_named(files, key, "total_borrowed is '12345678901234567890', but the listing")

    def test_missing_detail(self, files: Files) -> None:
        """Every pool has a detail and a history, also when the manifest forgot them."""
        detail = next(key for key in keys(files, "v1/assets/C") if "/history/" not in key)
        history = first(files, "v1/assets/C", "/history/1d.json")
        del files[detail], files[history]
        seal(files)

        assert_named(files, detail, "is missing")
        assert_named(files, history, "is missing")

    def test_other_ledger_in_one_row(self, files: Files) -> None:
        """All rows of a run are of one ledger."""
        key = "v1/assets/limit/1.json"
        lie(files, key, lambda page: page["data"][0].update(observed_ledger=65_000_001))

        assert_named(files, key, "is of ledger 65000001, but the run is of ledger 65000003")

    def test_row_differs_between_pages(self, files: Files) -> None:
        """A pool has the same values in all pages; the fault names field, value and file."""
        key = first(files, "v1/assets/token/", "/limit/1.json")
        lie(files, key, lambda page: page["data"][0].update(supply_apy_bps=77_777))

        assert_named(files, key, "supply_apy_bps is 77777, not")

    def test_repeated_row(self, files: Files) -> None:
        """A walk that gives a pool twice is named with the pool."""
        key = "v1/assets/limit/2.json"
        lie(files, key, lambda page: page["data"].__setitem__(1, page["data"][0]))

        assert_named(files, key, "a second time, where")

    def test_left_out_row(self, files: Files) -> None:
        """A walk that leaves a pool out is named."""
        key = "v1/assets/limit/5.json"
        lie(files, key, lambda page: page["data"].pop())

        assert_named(files, key, "has 4 rows, but 5 belong here")

    def test_order(self, files: Files) -> None:
        """Pools that change places in one filter are found by that walk."""
        market = next(key for key in keys(files, "v1/markets/") if json.loads(files[key])["truncated"])
        name = json.loads(files[market])["market"]

        lie(files, f"v1/assets/market/{name}/limit/2.json", lambda page: page["data"].reverse())

        assert_named(files, f"v1/assets/market/{name}/limit/2.json", "belongs")

    def test_order_of_the_listing_itself(self) -> None:
        """Pools ascend by market and id, even where most walks over all pools agree on another order."""
        files = small_tree(2)
        for name in ("index", "limit/2", "limit/5"):
            change(files, f"v1/assets/{name}.json", lambda page: page["data"].reverse())
        seal(files)

        assert_named(files, "v1/assets/index.json", "stands after .*; pools must ascend")

    def test_broken_cursor(self, files: Files) -> None:
        """A cursor that leads to no page is named, with the page that it names."""
        key = "v1/assets/limit/2.json"
        lie(files, key, _edit("next_cursor", "A" * 22))

        assert_named(files, key, "next_cursor leads to v1/pages/A{22}.json, which is not there")

    def test_cursor_to_another_filter(self, files: Files) -> None:
        """A cursor that leads into another chain is found by the rows there."""
        page = json.loads(files["v1/assets/limit/1.json"])
        lie(files, "v1/assets/limit/2.json", _edit("next_cursor", page["next_cursor"]))

        token = page["next_cursor"]
        assert_named(files, f"v1/pages/{token}.json", "belong")

    def test_walk_that_ends_early(self, files: Files) -> None:
        """A page that says it is the last one, but is not."""
        key = "v1/assets/limit/1.json"
        lie(files, key, _edit("next_cursor", None))

        assert_named(files, key, "ends here after 1 of")

    def test_walk_that_goes_on(self, files: Files) -> None:
        """A cursor behind the last row leads nowhere a reader should go."""
        token = add_page(files, {"data": [], "next_cursor": None})
        key = next(
            key
            for key in keys(files, "v1/assets/market/", "/limit/5.json")
            if not json.loads(files[key])["next_cursor"]
        )
        lie(files, key, _edit("next_cursor", token))

        assert_named(files, key, "though the last row stands here")

    def test_limit_zero(self, files: Files) -> None:
        """`limit=0` gives no row and leads to the first page."""
        lie(files, "v1/assets/limit/0.json", _edit("next_cursor", None))

        assert_named(files, "v1/assets/limit/0.json", "ends here after 0 of")

    def test_missing_head(self, files: Files) -> None:
        """Every filter has its first page in every size, also when the manifest forgot one."""
        key = first(files, "v1/assets/token/", "/limit/5.json")
        del files[key]
        seal(files)

        assert_named(files, key, "every filter has a first page in every size")

    def test_stale_filter(self, files: Files) -> None:
        """First pages of a token that no pool of the run has are stale."""
        key = "v1/assets/token/C" + "B" * 55 + "/index.json"
        add_listed(files, key, encoded({"data": [], "next_cursor": None}))

        assert_named(files, key, "no market or pool of the run")

    def test_broken_link_in_the_web_page(self, files: Files) -> None:
        """Links of the web page are followed."""
        files["index.html"] = b'<a href="v1/nowhere">x</a>' + files["index.html"]
        seal(files)

        assert_named(files, "index.html", "links to /v1/nowhere, but")

    def test_unlisted_record(self, files: Files) -> None:
        """A run's id is the digest of its files; another one is found."""
        manifest = manifest_of(files)
        key = status_of(files)["manifest_key"]
        manifest["files"] = [entry for entry in manifest["files"] if entry["key"] != "index.html"]
        files[key] = encoded(manifest)

        assert_named(files, key, "the files listed give")

    @pytest.mark.parametrize("name", ["total_supplied", "oracle_price_usd", "tvl_usd_cents"])
    def test_numbers_without_an_end(self, name: str) -> None:
        """A number of ten thousand digits is a fault, not the end of the check."""
        files = small_tree(1)

        def endless(page: Any) -> None:
            for row in page["data"]:
                row[name] = "9" * 10_000

        for key in [key for key in files if key.startswith("v1/assets/") and b'"utilization_bps":' in files[key]]:
            document = json.loads(files[key])
            if "data" in document and "bucket" not in document:
                change(files, key, endless)
        seal(files)

        assert_named(files, "v1/assets/index.json", f"{name} has more than 100 characters")

    def test_against_itself(self) -> None:
        """A row whose utilization does not follow from its totals is wrong, and the fault says what follows."""
        files = small_tree(1)
        for key in [key for key in files if b'"utilization_bps":' in files[key] and key.startswith("v1/assets/")]:
            document = json.loads(files[key])
            if "data" in document and "bucket" not in document:
                change(files, key, lambda page: page["data"][0].update(utilization_bps=9_999) if page["data"] else None)

        assert_named(files, "v1/assets/index.json", "utilization_bps is 9999, but its totals give")


class TestPriorities:
    """How faults are told."""

    def test_unfinished_run(self, files: Files) -> None:
        """Where a later run died while it replaced documents, the check says so."""
        change(files, "v1/system/intent.json", _edit("observed_ledger", 65_000_010))
        assert check(files).ledger == 65_000_003

        change(files, "v1/assets/limit/1.json", lambda page: page["data"][0].update(observed_ledger=65_000_010))

        assert_named(files, "v1/system/intent.json", "a run at ledger 65000010 began .* run again")

    def test_the_first_are_listed_and_all_are_counted(self, files: Files) -> None:
        """A message lists twenty faults by key and says how many more there are."""
        for key in keys(files, "v1/assets/token/"):
            files[key] = b"{"

        with pytest.raises(TreeFaultsError) as caught:
            check(files)
        shown = str(caught.value).splitlines()
        assert len(shown) == 22
        assert shown[-1] == f"  and {caught.value.total - 20} more"
        assert [str(fault) for fault in caught.value.faults] == sorted(map(str, caught.value.faults))

    def test_long_texts_are_cut(self, files: Files) -> None:
        """What a file says is not repeated without a bound."""
        key = first(files, "v1/tokens/")
        lie(files, key, _edit("symbol", "x" * 100_000))

        assert max(map(len, faults(files))) < 600

    def test_sample_finds_what_it_reads(self, files: Files) -> None:
        """A sample large enough to read everything of a kind finds its faults."""
        lie(files, market_with_pools(files), _edit("tvl_usd_cents", "1"))

        assert any("its pools sum up to" in fault for fault in faults(files, sample=100))
