"""Questions about lending markets, answered from the files of a published tree.

Answers are plain JSON with the names and units of the API and of the history, exactly as they are published, each with
the ledger that it speaks of. Each method's text is what an assistant gets from the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from datetime import datetime
from typing import Literal

import polars as pl
import polars.selectors as cs
from msgspec import ValidationError, convert

from exporter.best import in_order, is_listed, with_ranks
from exporter.deployments.networks import common_symbol
from exporter.errors import ConfigError
from exporter.render.site.risk_sentences import risk_words
from exporter.render.site.text import cut
from exporter.serve.assistant.dates import Period, is_in, period_of
from exporter.serve.assistant.form import Detail, Json, listed, shortened
from exporter.serve.assistant.histories import (
    History,
    history_of_pool,
    history_of_totals,
    read_buckets,
    short_bucket,
)
from exporter.serve.assistant.names import (
    MOST_ASKED,
    MOST_CANDIDATES,
    market_named,
    names_token,
    one_pool,
    pools_of,
    there_are,
)
from exporter.serve.assistant.pool_rows import (
    MOST_ROWS,
    POOL_COLUMNS,
    bounded,
    plain_row,
    pool_row,
    shown_pools,
    why_in_words,
)
from exporter.serve.assistant.tree_reader import MOMENT, TreeReader
from exporter.stores.tree_sources import TreeSource
from exporter.tree.documents import timestamp
from exporter.tree.families import (
    CHANGES,
    MARKET,
    POOL_DOCUMENT,
    STATUS_KEY,
    TOKEN,
)
from exporter.tree.risk_documents import MarketRisk
from exporter.tree.values import CHANGE_KINDS, CONTRACT, POOL

MOST_BUCKETS = 500

MOST_UTILIZATION_BPS = 10**9
"""The largest utilization that can be asked for. Published ones are far smaller."""

FOR_PROGRAMS = (
    *("format", "manifest_key", "manifest_sha256", "evidence_key", "risk_key", "risk_sha256", "previous_run_id"),
    *("page_sizes", "default_page_size", "market_pools_cap", "retention_hours", "proof_checkpoint"),
)
"""Fields of the status that a short answer leaves out: they are for programs that follow and check the files."""

NOT_IN_SHORT = ("id", "previous_ledger")
"""Fields of a change that short lists leave out."""

NOT_IN_SHORT_MARKETS = ("observed_ledger", "supplied_usd_cents", "mean_supply_apy_bps", "mean_borrow_apy_bps")
"""Fields of a market that short lists leave out: yields that do not compare, and what the value says nearly."""

NOT_IN_SHORT_OFFERS = ("apy_bps", "comparable_apy_bps", "total_supplied", "available_to_withdraw", "room")
"""Fields of a token's best pools that short lists leave out: they have the yield with the reward, and dollars."""

OF_DOCUMENTS = (
    *("app_url", "first_seen_ledger", "supply_compounding", "borrow_compounding"),
    *("operations", "rate_model", "rate_curve", "periods", "pending"),
)
"""Fields of a pool's document that its row lacks; an older tree may lack some."""

UNIDENTIFIED = "not on the list of identified tokens: anybody can give a token any symbol"
"""The warning next to a token that is not on the list of identified ones."""

Operation = Literal["supply", "withdraw", "borrow", "repay", "liquidate"]


class Answers:
    """Answers from one tree."""

    def __init__(self, source: TreeSource) -> None:
        self._tree = TreeReader(source)

    async def status(self, detail: Detail = "short") -> Json:
        """Which run is published: its ledger and close time, when the next run is due, the network, how much was read.

        `unread` and `absent` name what is missing from the data, with the reason. `notices` say what is doubtful.

        Args:
            detail: full leaves nothing out; a short answer names in ask_full_for what it leaves out.
        """
        keep = ("observed_ledger", "ledger_close_time", "next_expected_at", "network_name", "unread_count")
        answer = await self._tree.document(STATUS_KEY) | await self._tree.moment()
        return shortened(answer, detail, (*keep, *MOMENT), FOR_PROGRAMS)

    async def summary(self, detail: Detail = "short") -> Json:
        """How many listed markets and pools there are, and their value (US cents), together and by protocol.

        `unlisted_` fields have what other markets claim, which anybody may have created. No other number includes it.

        Args:
            detail: full leaves nothing out; a short answer names in ask_full_for what it leaves out.
        """
        answer = await self._tree.moment() | await self._tree.document("v1/protocol/summary.json")
        return shortened(answer, detail, MOMENT)

    async def list_markets(
        self, protocol: str | None = None, detail: Detail = "short", cursor: str | None = None
    ) -> Json:
        """All lending markets: protocol, name, status in the protocol's own words, value (US cents) and mean yields.

        Listed markets come first, and of these the largest. If `listed` is false, anybody can have created the market,
        with any prices.

        Args:
            protocol: only markets of this protocol, such as blend.
            detail: full gives all markets at once; short ends at 3,000 bytes.
            cursor: the next_cursor of an earlier answer, which goes on with the list.
        """
        every = await self._tree.document("v1/markets.json")
        markets = [market for market in every["data"] if protocol is None or protocol.lower() == market["protocol"]]
        if not markets:
            protocols = ", ".join(sorted({market["protocol"] for market in every["data"]}))
            raise ConfigError(
                f"no market of the protocol {str(protocol)[:80]!r} was read; the protocols are {protocols}"
            )
        markets = [market | {"name": cut(market["name"])} for market in sorted(markets, key=_listed_and_large_first)]
        facts = await self._tree.moment() | {"count": len(markets)}
        if detail == "short":
            markets = [_without(market, NOT_IN_SHORT_MARKETS) for market in markets]
        return listed(facts, "markets", markets, limit=len(markets), cursor=cursor, detail=detail)

    async def market(self, market: str, detail: Detail = "short") -> Json:
        """One market: status, value, mean yields, queued changes, and for Blend what insures it (the backstop).

        `status` is the protocol's own word, and `status_in_words` says what it means. `find_pools` has the pools.
        `risk` has what borrowers owe and hold, at a checkpoint before the run, and is null if nothing recent is known.
        `risk_in_words` says it in two sentences: repeat them as they are. It is not a prediction.

        Args:
            market: the market's contract address, or its name.
            detail: full leaves nothing out; a short answer names in ask_full_for what it leaves out.
        """
        entry = await self._market(market)
        document = await self._tree.document(MARKET.key(market=entry["market"]))
        shown = {name: value for name, value in document.items() if name != "pools"}
        answer = {
            **await self._tree.moment(),
            **entry,
            **shown,
            "status_in_words": await self._status_in_words(document),
            "risk_in_words": _risk_in_words(document.get("risk"), await self._tree.native()),
        }
        return shortened(answer, detail, (*MOMENT, *entry, "status_in_words", "risk_in_words", "pending"))

    async def tokens(self, token: str | None = None, detail: Detail = "short", cursor: str | None = None) -> Json:
        """Tokens that are lent: issuer (of classic assets), identity, number and value of pools, best rates.

        Numbers are of listed markets; `unlisted_` fields have the other pools.

        Anybody can give a token any name. The address says which token it is, and the issuer can make more of it.
        `identity` says who stands behind that contract, by a list with sources, such as Circle, circle.com. It is null
        if the token is not on the list. Identified tokens come first, and of these the largest. If `best_supply` or
        `best_borrow` is null, no pool counts, and best_rate says why.

        Args:
            token: only the token with this contract address, those with this symbol in any case, or CODE:ISSUER.
            detail: full gives all tokens at once; short ends at 3,000 bytes, without what is null or zero.
            cursor: the next_cursor of an earlier answer, which goes on with the list.
        """
        every, native = await self._tree.document("v1/tokens.json"), await self._tree.native()
        wanted = [entry for entry in every["data"] if token is None or names_token(token, entry, native)]
        wanted.sort(key=_identified_and_large_first)
        if not wanted:
            of_listed = [each for each in every["data"] if each["market_count"]]
            symbols = [common_symbol(each["symbol"], each["address"], native) for each in of_listed]
            raise ConfigError(f"no token {str(token)[:MOST_ASKED]!r} was read; {there_are(str(token), symbols)}")
        facts = await self._tree.moment() | {"count": len(wanted)}
        if detail == "short":
            wanted = [_short_token(entry) for entry in wanted]
        return listed(facts, "tokens", wanted, limit=MOST_ROWS, cursor=cursor, detail=detail)

    async def changes(
        self,
        market: str | None = None,
        kind: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
        detail: Detail = "short",
        cursor: str | None = None,
    ) -> Json:
        """Changes from run to run, newest first: statuses, prices, yields, rewards, caps, admins, new markets.

        `count` is how many of the kept changes (300, at most 25 of a market) match; `kinds` counts them by kind.
        `oldest_kept` is when the oldest kept change was, null if there is none: what was before is not known here.
        Words for dates are counted from the close time of the run's ledger, in UTC; the answer says which dates they
        mean.

        Args:
            market: only of this market, by contract address or name.
            kind: only of this kind, such as paused, price, supply_rate, supply_cap or unread.
            since: from the beginning of this day, week or month: 2026-11-24, yesterday, last week, 3 days ago.
            until: to the end of this day, week or month. If since and until are both last week, it is that whole week.
            limit: the most changes to give, up to 200.
            detail: full gives all fields, and as many changes as the limit says; short ends at 3,000 bytes.
            cursor: the next_cursor of an earlier answer, which goes on with the list.
        """
        if kind is not None and kind not in CHANGE_KINDS:
            raise ConfigError(f"there is no kind {cut(kind)!r}; the kinds are {', '.join(CHANGE_KINDS)}")
        times, said = await self._period(since, until)
        every = await self._tree.document(CHANGES.only_key)
        address = None if market is None else (await self._market(market))["market"]
        matching = [
            change
            for change in every["data"]
            if address in (None, change["market"]) and is_in(times, change["ledger_close_time"])
        ]
        kinds = Counter(change["kind"] for change in matching)
        if kind is not None:
            matching = [change for change in matching if change["kind"] == kind]
        facts = await self._tree.moment() | {
            "count": len(matching),
            "kinds": dict(kinds),
            "oldest_kept": min((change["ledger_close_time"] for change in every["data"]), default=None),
            **said,
        }
        if detail == "short":
            matching = [_short_change(change) for change in matching]
        limit = bounded(limit, MOST_ROWS)
        return listed(facts, "changes", matching, limit=limit, cursor=cursor, detail=detail)

    async def find_pools(
        self,
        token: str | None = None,
        protocol: str | None = None,
        market: str | None = None,
        open_for: Operation | None = None,
        min_utilization_bps: int | None = None,
        sort_by: Literal["tvl", "supply_apy", "borrow_apy", "utilization", "market"] = "tvl",
        limit: int = 50,
        detail: Detail = "short",
        cursor: str | None = None,
    ) -> Json:
        """Lending pools by token, protocol, market, or what can be done there now.

        Rates and utilizations are in basis points (100 are 1 %), amounts in base units of the token (divide by
        10^decimals), money in US cents. `count` is how many match, `pools` the first of them. A pool whose `shortfall`
        is above zero is insolvent: it owes its suppliers that much more than it has. Closed, tiny and insolvent pools
        are here, too; `best_rate` leaves them out.

        Args:
            token: the token's contract address, or its symbol in any case. XLM is the network's own asset. Anybody can
                give a token any name: compare `token_address` if several tokens have one symbol.
            protocol: only pools of this protocol, such as blend.
            market: the market's contract address, or its name.
            open_for: only pools whose contract lets anybody do this now; `unknown_count` says for how many more pools
                that is not known.
            min_utilization_bps: only pools with at least this utilization.
            sort_by: the largest first; `market` is by market and pool, ascending. Pools of listed markets come first.
                Yields are compounded daily, so that protocols compare.
            limit: the most pools to give, up to 200.
            detail: full gives more columns, and as many pools as the limit says; short ends at 3,000 bytes.
            cursor: the next_cursor of an earlier answer, which goes on with the list.
        """
        address = None if market is None else (await self._market(market))["market"]
        pools = pools_of(await self._tree.pools(), token, protocol, address)
        facts: Json = await self._tree.moment()
        if open_for is not None:
            gate = pl.col(f"can_{open_for}")
            facts["unknown_count"] = pools.filter(gate.is_null()).height
            pools = pools.filter(gate.fill_null(value=False))
        if min_utilization_bps is not None:
            most = MOST_UTILIZATION_BPS
            pools = pools.filter(pl.col("utilization_bps") >= max(min(min_utilization_bps, most), -most))
        if sort_by != "market":
            column = {"tvl": "tvl_usd_cents", "utilization": "utilization_bps"}.get(
                sort_by, f"comparable_{sort_by}_bps"
            )
            pools = pools.sort(column, descending=True, nulls_last=True, maintain_order=True)
        pools = pools.sort(is_listed(), descending=True, maintain_order=True)
        return shown_pools(pools, limit, cursor, detail, facts=facts)

    async def pool(self, market: str, pool: str, detail: Detail = "short") -> Json:
        """Everything that is known of one pool: rates, amounts, price, what can be done, risk parameters, rate model.

        `why_in_words` says why it pays what it pays. Collateral worth 100 dollars lets one owe at most 100 times the
        `collateral_factor` of its own pool, divided by the `liability_factor` of the pool of the loan (1 if that is
        null), in the same market. `periods` (detail full) has the means and realized yields of 24 hours, 7 and 30 days.

        Args:
            market: the market's contract address, or its name.
            pool: the pool's id in the market, as `find_pools` gives it, or its token's address or symbol.
            detail: full gives everything; a short answer names in ask_full_for what it leaves out.
        """
        row = await self._pool(market, pool)
        document = await self._tree.document(POOL_DOCUMENT.key(market=row["market"], pool=row["pool"]))
        facts = {name: document[name] for name in OF_DOCUMENTS if name in document}
        if detail == "short":
            shown = pool_row(row, POOL_COLUMNS)
            facts["operations"] = _without(facts.get("operations", {}), row)  # the row has them
        else:
            shown = pool_row(row, [name for name in row if name != "common_symbol"])
        answer = await self._tree.moment() | {"pool": shown, "why_in_words": why_in_words(row)} | facts
        return shortened(answer, detail, (*MOMENT, "pool", "why_in_words"))

    async def history(
        self,
        market: str | None = None,
        pool: str | None = None,
        token: str | None = None,
        protocol: str | None = None,
        bucket: Literal["5m", "1h", "1d", "1w"] = "1d",
        count: int = 30,
        since: str | None = None,
        until: str | None = None,
        detail: Detail = "short",
        cursor: str | None = None,
    ) -> Json:
        """The newest closed time buckets of a pool, or of the totals of a market, a token, a protocol or the network.

        Buckets ascend. Without market, token and protocol they are of the whole network. A pool's bucket has means of
        amounts and medians of rates and prices. A bucket of totals has sums in US cents, mean yields weighted by
        these, and the best rates. `next_cursor` leads to older buckets. `over_all` has the mean, lowest and highest of
        all buckets from `since` to `until`, not only of those in the answer. `history_begins` is there if the history
        begins later than was asked for. Words for dates are counted from the close time of the run's ledger, in UTC;
        the answer says which dates they mean.

        Args:
            market: a market's contract address, or its name.
            pool: a pool's id in that market, or its token's address or symbol.
            token: without a market: a token's contract address or symbol.
            protocol: without the others: a protocol such as blend.
            bucket: the length of a bucket; totals have only days.
            count: how many buckets, up to 500; a time in which nothing was observed has no bucket.
            since: only buckets that begin on this day or later: 2026-11-24, yesterday, last month, 7 days ago.
            until: only buckets that begin before the end of this day, week or month.
            detail: full gives all fields, and as many buckets as count says; short ends at 3,000 bytes.
            cursor: the next_cursor of an earlier answer, which goes on with older buckets.
        """
        times, said = await self._period(since, until)
        count = bounded(count, MOST_BUCKETS)
        history = await self._history(market, pool, token, protocol, bucket)
        read = await read_buckets(self._tree, history, times, count if times is None else MOST_BUCKETS, cursor)
        buckets = read.buckets if detail == "full" else [short_bucket(bucket) for bucket in read.buckets]
        facts = await self._tree.moment() | history.facts | said | {"count": count} | read.facts(times)
        answer = listed(
            facts,
            "buckets",
            buckets[::-1],
            limit=count,
            cursor=cursor,
            detail=detail,
            goes_on=read.goes_on,
            ledger=read.ledger,
        )
        shown = answer["buckets"][::-1]
        return answer | {"count": len(shown), "buckets": shown}

    async def best_rate(
        self,
        token: str,
        side: Literal["supply", "borrow"] = "supply",
        protocol: str | None = None,
        limit: int = 5,
        detail: Detail = "short",
        cursor: str | None = None,
    ) -> Json:
        """Where a token earns the most, or is borrowed for the least, among pools that are open for that now.

        `tokens` says which tokens these are, and who stands behind each (`identity`, as the tool tokens has it).
        A pool counts if its market is listed, it is not insolvent and is open for this now, its price is at most a day
        old and not far from those of other listed markets, it is worth at least 1,000 US dollars and has room for as
        much. `count` is how many do, `pools` the first of them. The order is by `supply_rank_bps` or
        `borrow_rank_bps`: the rate compounded daily, plus the funded reward to supply, minus the reward to borrow. A
        high rate says nothing about the risk. If no pool counts, `next_step` says what to ask. `left_out`
        counts the other pools by reason.

        Args:
            token: the token's contract address, or its symbol in any case; see find_pools.
            side: supply gives the highest yields, borrow the lowest costs.
            protocol: only pools of this protocol.
            limit: the most pools to give, up to 200.
            detail: full gives more columns, and as many pools as the limit says; short ends at 3,000 bytes.
            cursor: the next_cursor of an earlier answer, which goes on with the list.
        """
        every = await self._tree.pools()
        matching = pools_of(with_ranks(every.with_columns(cs.datetime().dt.epoch("s"))), token, protocol, None)
        pools, why_not = in_order(matching, side), matching[f"no_{side}"].drop_nulls()
        known = {entry["address"]: entry for entry in (await self._tree.document("v1/tokens.json"))["data"]}
        tokens = [
            plain_row(row) | {"identity": known.get(row["token_address"], {}).get("identity")}
            for row in matching.select("token_address", "symbol").unique(maintain_order=True).to_dicts()
        ]
        tokens.sort(key=lambda row: row["identity"] is None)
        facts: Json = await self._tree.moment() | {
            "side": side,
            "left_out": dict(Counter(why_not)),
            "tokens": tokens[:MOST_CANDIDATES],
        }
        if pools.is_empty():
            facts["next_step"] = (
                f"no pool of {cut(token, 80)} can be ranked, for the reasons in left_out; find_pools with this token "
                "shows each with its rates, and says in can_reason and price_reason what is missing"
            )
        return shown_pools(pools, limit, cursor, detail, f"{side}_rank_bps", facts=facts)

    async def _period(self, since: str | None, until: str | None) -> tuple[Period | None, Json]:
        """The times that two dates limit, and these as facts of an answer. Raises `ConfigError`."""
        if since is None and until is None:
            return None, {}
        closed = (await self._tree.document(STATUS_KEY))["ledger_close_time"]
        now = datetime.fromisoformat(closed)
        start = datetime.min.replace(tzinfo=now.tzinfo) if since is None else period_of(since, now).start
        end = datetime.max.replace(tzinfo=now.tzinfo) if until is None else period_of(until, now).end
        if start >= end:
            raise ConfigError(
                f"since is {_written(start)} and until {_written(end)}, which is not later; exchange them"
            )
        said = {"since": since and _written(start), "until": until and _written(end), "dates_counted_from": closed}
        return Period(start, end), {name: value for name, value in said.items() if value is not None}

    async def _history(
        self, market: str | None, pool: str | None, token: str | None, protocol: str | None, bucket: str
    ) -> History:
        """The history that is meant. Raises `ConfigError` if there is none, or if it is not clear which."""
        if pool is not None:
            if market is None:
                raise ConfigError("a pool is asked for with its market")
            if re.fullmatch(CONTRACT, market) is None or re.fullmatch(POOL, pool) is None:
                row = await self._pool(market, pool)
                market, pool = row["market"], row["pool"]
            return history_of_pool(market, pool, bucket)
        if bucket != "1d":
            raise ConfigError("histories of totals have buckets of a day; ask for one pool to have shorter ones")
        return history_of_totals(*await self._scope(market, token, protocol))

    async def _scope(self, market: str | None, token: str | None, protocol: str | None) -> tuple[str, str]:
        if market is not None:
            return "market", (await self._market(market))["market"]
        if token is not None:
            return "token", await self._token(token)
        if protocol is not None:
            return "protocol", (await self.list_markets(protocol, "full"))["markets"][0]["protocol"]
        return "network", "network"

    async def _token(self, token: str) -> str:
        """The address of the one token that is meant: of several, the only identified one.

        Raises `ConfigError` with the candidates if it is not clear which.
        """
        entries = (await self.tokens(token, "full"))["tokens"]
        identified = [entry for entry in entries if entry.get("identity") is not None]
        if len(entries) > 1 and len(identified) != 1:
            candidates = "; ".join(
                f"{entry['address']} of {entry['issuer'] or 'no issuer'}" for entry in entries[:MOST_CANDIDATES]
            )
            raise ConfigError(f"{len(entries)} tokens fit; ask for one by its address: {candidates}")
        address: str = entries[0]["address"]
        return address

    async def _status_in_words(self, document: Json) -> str | None:
        """What a market's status means, as the document of one of its pools has it; None without pools."""
        for pool in document["pools"][:1]:
            key = POOL_DOCUMENT.key(market=document["market"], pool=pool["pool"])
            meaning: str | None = (await self._tree.document(key))["operations"].get("market_status_meaning")
            return meaning
        return None

    async def _market(self, market: str) -> Json:
        """The entry of the one market that is meant. Raises `ConfigError` with the candidates if there are several."""
        return market_named(market, (await self._tree.document("v1/markets.json"))["data"])

    async def _pool(self, market: str, pool: str) -> Json:
        """The row of the one pool that is meant. Raises `ConfigError` with the candidates if there are several."""
        entry = await self._market(market)
        return one_pool(await self._tree.pools(), entry["market"], pool)

    async def document(self, key: str) -> Json:
        """A published document, unchanged. Raises `SourceError`."""
        await self._tree.document(STATUS_KEY)  # which refuses a tree of another format
        return await self._tree.document(key)

    async def market_document(self, market: str) -> Json:
        """The document of one market, by address or name. Raises `ConfigError`, `SourceError`."""
        return await self.document(MARKET.key(market=(await self._market(market))["market"]))

    async def token_document(self, token: str) -> Json:
        """The document of one token, by address or symbol. Raises `ConfigError`, `SourceError`."""
        return await self.document(TOKEN.key(address=await self._token(token)))

    async def pool_document(self, market: str, pool: str) -> Json:
        """The document of one pool, by addresses or names. Raises `ConfigError`, `SourceError`."""
        row = await self._pool(market, pool)
        return await self._tree.document(POOL_DOCUMENT.key(market=row["market"], pool=row["pool"]))


def _risk_in_words(risk: Json | None, native: str | None) -> str | None:
    """The two sentences of the site; None without a risk, or if a newer exporter has it in another form."""
    try:
        decoded = None if risk is None else convert(risk, MarketRisk)
    except ValidationError:
        return None
    symbols = (
        {}
        if decoded is None
        else {
            pool.token_address: cut(common_symbol(pool.symbol, pool.token_address, native))
            for pool in decoded.figures.pools
        }
    )
    words = risk_words(decoded, symbols)
    return None if words is None else " ".join(words.sentences)


def _listed_and_large_first(market: Json) -> tuple[bool, int]:
    return market["listed"] is False, -int(market["tvl_usd_cents"] or 0)


def _identified_and_large_first(token: Json) -> tuple[bool, int]:
    return token.get("identity") is None, -int(token["supplied_usd_cents"] or 0)


def _without(item: Json, names: Container[str]) -> Json:
    return {name: value for name, value in item.items() if name not in names}


def _short_token(entry: Json) -> Json:
    """A token without values that are null or zero, except for those whose null or zero means something."""
    telling = ("issuer", "identity", "best_supply", "best_borrow", "priced_count")
    short: Json = {"identity": None}  # a tree of an older exporter says nothing
    short |= {name: value for name, value in entry.items() if value not in (None, 0) or name in telling}
    short.pop("name", None)  # that of a classic asset is its symbol and issuer, any other is somebody's claim
    if short["identity"] is None:
        short["warning"] = UNIDENTIFIED
    for name in ("best_supply", "best_borrow"):
        if short[name] is not None:
            offer = _without(short[name], NOT_IN_SHORT_OFFERS)
            short[name] = {field: value for field, value in offer.items() if field != "reward_apr_bps" or value}
    return short


def _short_change(change: Json) -> Json:
    """A change without what only programs need. Of a configuration that would be hashes, so it says what they are."""
    short = {name: value for name, value in change.items() if name not in NOT_IN_SHORT}
    if change["kind"] != "configuration":
        return short
    meaning = "only the hash of the whole configuration is compared; parameters that are read have changes of their own"
    return {name: value for name, value in short.items() if name not in ("before", "after")} | {"meaning": meaning}


def _written(moment: datetime) -> str:
    return timestamp(int(moment.timestamp()))
