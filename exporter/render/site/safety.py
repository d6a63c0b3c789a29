"""What a run read that matters for the safety of a market or pool, and what is not known (docs/site.md).

It is no grade. Each fact follows from an entry or a list that the run read, and names what was not read. Whose
positions could be lost is in `exporter.render.site.risk_sentences`, if a census added them up.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from exporter.errors import lasting, pluralize
from exporter.protocols.base import Pending
from exporter.protocols.numbers import BackstopFrameRow, MarketFrameRow
from exporter.protocols.protocol import Protocol
from exporter.render.site.rows import NamedPool
from exporter.render.site.text import (
    SYMBOL_LENGTH,
    cut,
    dollars,
    dollars_at_most,
    factor_percent,
    harmless,
    is_serious,
    no_price,
    percent,
    percent_at_most,
    round_amount,
    round_amount_at_most,
    small_amount,
    why,
    words,
)

MAX_NAMED = 6
"""Largest number of admins and of tokens that a fact names."""

_ACCOUNT = "G"
"""The first letter of an account's address; a contract's is C."""


class SafetyFact(Struct, frozen=True):
    """One question of a lender, and the answer in sentences. ``is_known`` is false if the answer is that nobody knows.

    ``warns`` marks an answer that a lender should not miss.
    """

    question: str
    answer: str
    is_known: bool = True
    warns: bool = False
    command: str | None = None
    """A command line after the answer, which ends in a colon then."""


class MarketFacts(Struct, frozen=True):
    """What the pages of a market and of its pools have in common.

    Attributes:
        pools: the pools of the market that were read.
        admins: the addresses that may change the market, as far as they were read, each once.
        backstop: its row of the backstops frame; None if there is none.
        pending: the changes that are queued for the market or its pools.
    """

    market: MarketFrameRow
    protocol: Protocol
    pools: Sequence[NamedPool]
    admins: Sequence[str]
    backstop: BackstopFrameRow | None
    pending: Sequence[Pending]


def of_market(facts: MarketFacts, *, has_risk: bool) -> list[SafetyFact]:
    """The facts of a market's page. ``has_risk`` says whether the page has the sums over all positions."""
    return [
        _listing(facts.market),
        _changes(facts),
        _prices_of(facts),
        _leaving_market(facts.pools),
        _cover_of_market(facts.pools),
        _collateral(facts.pools),
        _backstop(facts),
        _status(facts),
        *(() if has_risk else (_positions(facts),)),
    ]


def of_pool(pool: NamedPool, facts: MarketFacts, *, has_risk: bool) -> list[SafetyFact]:
    """The facts of a pool's page. ``has_risk`` says whether the page has the sums over all positions."""
    return [
        _listing(facts.market),
        _changes(facts),
        _price_of(pool),
        _leaving_pool(pool),
        _cover_of_pool(pool),
        _collateral(facts.pools),
        _backstop(facts),
        _status(facts),
        *(() if has_risk else (_positions(facts),)),
    ]


def _listing(market: MarketFrameRow) -> SafetyFact:
    question = "Who vouches for the market?"
    if market["listed"]:
        source = cut(market["listed_source"] or "the publisher's configuration", 300)
        return SafetyFact(question, f"It is listed. Source: {source}. That is no judgement of its safety.")
    answer = "Nobody: it is not listed. Anybody can create such a market, with an oracle that says any price."
    return SafetyFact(question, answer, warns=True)


def _changes(facts: MarketFacts) -> SafetyFact:
    question = "Who may change it?"
    queued = f" {pluralize(len(facts.pending), 'change')} queued; see above." if facts.pending else ""
    if not facts.admins:
        return SafetyFact(question, f"Not known: no admin was read.{queued}", is_known=False)
    named = ", ".join(
        f"the {'account' if admin.startswith(_ACCOUNT) else 'contract'} {admin}" for admin in facts.admins[:MAX_NAMED]
    )
    more = f" and {len(facts.admins) - MAX_NAMED} more" if len(facts.admins) > MAX_NAMED else ""
    is_several = len(facts.admins) > 1
    answer = (
        f"{'The admins are' if is_several else 'The admin is'} {named}{more}. "
        f"Who signs for {'them' if is_several else 'it'} was not read.{queued}"
    )
    return SafetyFact(question, answer, warns=bool(facts.pending))


def _age(pool: NamedPool) -> str:
    """The age of a pool's price when the ledger closed, in words."""
    seconds = pool["ledger_close_time"] - (pool["price_timestamp"] or 0)
    if seconds < 0:
        return "dated after the ledger's close"
    return (
        "of the very second of the ledger's close" if not seconds else f"{lasting(seconds)} old at the ledger's close"
    )


def _price_of(pool: NamedPool) -> SafetyFact:
    question = "Whose price?"
    if pool["oracle"] is None:
        return SafetyFact(question, "The market has no oracle.", warns=True)
    oracle = f"the market's own oracle, the contract {pool['oracle']}"
    if pool["oracle_price_usd"] is None:
        answer = f"By {oracle}. There is no valid price here: {no_price(pool['price_reason'])}."
        return SafetyFact(question, answer, is_known=False, warns=True)
    return SafetyFact(question, f"By {oracle}. The price is valid by the market's rules, and {_age(pool)}.")


def _prices_of(facts: MarketFacts) -> SafetyFact:
    question = "Whose prices?"
    oracles = sorted({pool["oracle"] for pool in facts.pools if pool["oracle"] is not None})
    if not oracles:
        oracles = [facts.market["oracle"]] if facts.market["oracle"] is not None else []
    if not oracles:
        return SafetyFact(question, "The market has no oracle.", warns=True)
    named = f"the contract {oracles[0]}" if len(oracles) == 1 else f"{len(oracles)} contracts"
    priced = [pool for pool in facts.pools if pool["oracle_price_usd"] is not None]
    if not priced:
        answer = f"By the market's own oracle, {named}. No pool has a valid price at this ledger."
        return SafetyFact(question, answer, is_known=False, warns=True)
    oldest = min(priced, key=lambda pool: pool["price_timestamp"] or 0)
    return SafetyFact(
        question,
        f"By the market's own oracle, {named}. {len(priced)} of {pluralize(len(facts.pools), 'pool')} "
        f"{'has' if len(priced) == 1 else 'have'} a valid price; the oldest is {_age(oldest)}.",
        warns=len(priced) < len(facts.pools),
    )


def _part(part: int, whole: int) -> str:
    return percent(part * 10_000 // whole) if part and whole else "nothing"


def _part_at_most(part: int, whole: int) -> str:
    return percent_at_most(part * 10_000 // whole) if part and whole else "nothing"


def _leaving_pool(pool: NamedPool) -> SafetyFact:
    question = "Can lenders leave?"
    if pool["can_withdraw"] is False:
        reason = f": {why(pool['can_reason'])}" if pool["can_reason"] else ""
        return SafetyFact(question, f"No: withdrawing is closed at this ledger{reason}.", warns=True)
    left, supplied = pool["available_to_withdraw"], pool["total_supplied"]
    if pool["can_withdraw"] is None or left is None:
        reason = why(pool["can_reason"]) if pool["can_reason"] else "the protocol does not say"
        return SafetyFact(question, f"Not known: {reason}.", is_known=False)
    if not supplied:
        return SafetyFact(question, "Nothing is supplied.")
    symbol, decimals = cut(pool["symbol"], SYMBOL_LENGTH), pool["decimals"]
    return SafetyFact(
        question,
        f"{round_amount_at_most(left, decimals)} of {round_amount(supplied, decimals)} {symbol} can be withdrawn at "
        f"this ledger ({_part_at_most(left, supplied)}); the rest can leave when borrowers repay or others supply.",
        warns=left * 100 < supplied,
    )


def _leaving_market(pools: Sequence[NamedPool]) -> SafetyFact:
    question = "Can lenders leave?"
    closed = sum(pool["can_withdraw"] is False for pool in pools)
    counted = [
        (pool["available_usd_cents"], pool["supplied_usd_cents"])
        for pool in pools
        if pool["available_usd_cents"] is not None and pool["supplied_usd_cents"] is not None
    ]
    shut = f" Withdrawing is closed in {pluralize(closed, 'pool')}." if closed else ""
    if not counted:
        answer = f"How much of the value can leave is not known: no pool has a price and an amount.{shut}"
        return SafetyFact(question, answer, is_known=False, warns=bool(closed))
    left, supplied = sum(cents for cents, _ in counted), sum(cents for _, cents in counted)
    of = "" if len(counted) == len(pools) else f" That is of {len(counted)} of {len(pools)} pools."
    answer = (
        f"{dollars_at_most(left)} of {dollars(supplied)} can be withdrawn at this ledger "
        f"({_part_at_most(left, supplied)}).{of}{shut}"
    )
    return SafetyFact(question, answer, warns=bool(closed))


_NOT_COUNTED = "how many tokens the contract holds was not read, so it could not be compared with what lenders are owed"


def _cover_of_pool(pool: NamedPool) -> SafetyFact:
    question = "Is what lenders are owed there?"
    if pool["shortfall"] is None:
        return SafetyFact(question, f"Not known: {_NOT_COUNTED}.", is_known=False)
    if pool["shortfall"]:
        symbol, decimals = cut(pool["symbol"], SYMBOL_LENGTH), pool["decimals"]
        missing = f"{small_amount(pool['shortfall'], decimals)} of {round_amount(pool['total_supplied'], decimals)}"
        rounding = "" if is_serious(pool["shortfall"], pool["total_supplied"]) else " So little can come from rounding."
        answer = f"No: {missing} {symbol} are missing. Suppliers are owed more than the pool has in tokens and loans."
        return SafetyFact(question, answer + rounding, warns=True)
    return SafetyFact(question, "Yes, as the contract counts its tokens and loans, if all loans are paid back.")


def _cover_of_market(pools: Sequence[NamedPool]) -> SafetyFact:
    question = "Is what lenders are owed there?"
    insolvent = [
        f"{small_amount(pool['shortfall'], pool['decimals'])} {cut(pool['symbol'], SYMBOL_LENGTH)}"
        for pool in pools
        if pool["shortfall"]
    ]
    unknown = sum(pool["shortfall"] is None for pool in pools)
    if insolvent:
        named = ", ".join(insolvent[:MAX_NAMED])
        where = pluralize(len(insolvent), "pool")
        answer = f"Not in {where}, where {named} are missing: suppliers are owed more than there is."
        return SafetyFact(question, answer, warns=True)
    if unknown:
        answer = f"Not known of {unknown} of {pluralize(len(pools), 'pool')}: {_NOT_COUNTED}."
        return SafetyFact(question, answer, is_known=False)
    if not pools:
        return SafetyFact(question, "Not known: no pool was read.", is_known=False)
    return SafetyFact(
        question, "Yes in every pool, as the contract counts tokens and loans, if all loans are paid back."
    )


def _collateral(pools: Sequence[NamedPool]) -> SafetyFact:
    question = "What secures the loans?"
    unknown = sum(pool["risk_scope"] is None for pool in pools)
    taken = [pool for pool in pools if pool["can_be_collateral"] and pool["collateral_factor_bps"] is not None]
    if not taken:
        if unknown or not pools:
            return SafetyFact(question, "Not known: the terms of collateral were not read.", is_known=False)
        return SafetyFact(question, "No token of the market is taken as collateral.", warns=True)
    taken.sort(key=lambda pool: (-(pool["tvl_usd_cents"] or 0), pool["symbol"], pool["pool"]))
    named = ", ".join(
        f"{cut(pool['symbol'], SYMBOL_LENGTH)} at {factor_percent(pool['collateral_factor_bps'] or 0)}"
        for pool in taken[:MAX_NAMED]
    )
    more = f" and {len(taken) - MAX_NAMED} more" if len(taken) > MAX_NAMED else ""
    missing = f" Of {unknown} of {len(pools)} pools that was not read." if unknown else ""
    return SafetyFact(question, f"Tokens of the market, each up to a part of its value: {named}{more}.{missing}")


def _backstop(facts: MarketFacts) -> SafetyFact:
    question = "Who bears a loss first?"
    backstop = facts.backstop
    if backstop is None:
        title = facts.protocol.words.coverage.title
        answer = f"Not known: no backstop or insurance fund of {title} is read, so it could be the lenders."
        return SafetyFact(question, answer, is_known=False)
    if backstop.lp_tokens is None:
        return SafetyFact(question, "A backstop. Its size is not known: it could not be read.", is_known=False)
    if not backstop.lp_tokens:
        return SafetyFact(question, "The lenders: the market's backstop is empty.", warns=True)
    held = ""
    if backstop.blnd is not None and backstop.usdc is not None:
        held = f", which holds {round_amount(backstop.blnd, 7)} BLND and {round_amount(backstop.usdc, 7)} USDC"
    queued = backstop.queued_part
    leaving = f" {percent(queued // 1_000)} of it is queued for withdrawal." if queued else ""
    if backstop.value_usd_cents is None:
        answer = f"A backstop{held}. Its worth is not known: there is no valid price of USDC here.{leaving}"
        return SafetyFact(question, answer, is_known=False)
    borrowed = facts.market["borrowed_usd_cents"]
    share = f", {_part(backstop.value_usd_cents, borrowed)} of what is borrowed in the market" if borrowed else ""
    return SafetyFact(question, f"A backstop{held}, worth {dollars(backstop.value_usd_cents)}{share}.{leaving}")


def _status(facts: MarketFacts) -> SafetyFact:
    status = facts.market["status"]
    meaning = facts.protocol.words.market_statuses.get(status)
    answer = f"The market is {words(status)}{f': {meaning}' if meaning else ''}."
    return SafetyFact("Is it running?", harmless(answer))


def _positions(facts: MarketFacts) -> SafetyFact:
    question = "Who owes, and what would a fall of prices do?"
    reason = (
        f"the exporter does not read positions of {facts.protocol.words.coverage.title}: {facts.protocol.no_positions}"
        if facts.protocol.positions is None
        else "positions are added up in listed markets only"
        if not facts.market["listed"]
        else None
    )
    if reason is not None:
        return SafetyFact(question, f"Not known: {reason}.", is_known=False)
    answer = (
        "Not known: nobody added up the positions in the 48 hours before this ledger. The publisher of the site can, "
        "at a checkpoint that the network's validators signed:"
    )
    return SafetyFact(question, answer, is_known=False, command="exporter census --out")
