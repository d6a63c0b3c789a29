"""A pool's terms in words: what can be done now and how much of it, at what risk, and which rewards are paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec

from markupsafe import Markup, escape

from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Pending
from exporter.render.site import text
from exporter.render.site.cells import fact
from exporter.tree.decoding import decode_json

Row = Mapping[str, Any]
_P = ParamSpec("_P")


def _lines(terms: Callable[_P, Iterable[str]]) -> Callable[_P, Markup]:
    return wraps(terms)(lambda *args, **kwargs: Markup("\n".join(terms(*args, **kwargs))))


_DOINGS = (
    ("Supply", "can_supply", "available_to_supply", "available_to_supply_usd_cents", "no cap"),
    ("Withdraw", "can_withdraw", "available_to_withdraw", "available_usd_cents", ""),
    ("Borrow", "can_borrow", "available_to_borrow", "available_to_borrow_usd_cents", ""),
    ("Repay", "can_repay", None, None, ""),
    ("Liquidate a debt", "can_liquidate", None, None, ""),
)
_UNKNOWN = "not known"
_REASONS = {
    "none": "none: this protocol pays no rewards",
    "no_emissions": "none: no reward is set up for this pool",
    "expired": "none: the reward ended or is paused",
    "not_funded": "promised, but not claimable yet: the backstop has no BLND for it",
    "nothing_supplied": "no suppliers",
    "nothing_borrowed": "no borrowers",
    "no_backstop": "not known: the backstop could not be read",
    "no_token_price": "paid, but the pool's token has no price, so there is no rate",
    "no_reward_price": "paid, but the reward token has no price, so there is no rate",
    "several_tokens": "paid in several tokens, so there is no single rate",
    "unread": "not known: its entry could not be read",
    "not_read": "not known: not read in this run",
}
"""A `exporter.tree.values.RewardReason` other than valid, for people."""

_SCOPES = {
    "market": "the whole market",
    "reserve": "this pool",
    "spoke": "the best spoke; caps are all spokes' together",
}


@_lines
def operations(row: Row) -> Iterator[str]:
    """The open operations, their amounts, and the meaning of the statuses."""
    for label, gate, room, worth, unbounded in _DOINGS:
        if row[gate] is None:
            yield fact(label, f"{_UNKNOWN}: {_why(row['can_reason'] or 'the protocol does not say')}")
        elif not row[gate]:
            configured = gate == "can_borrow" and row["can_be_borrowed"] is False
            yield fact(label, "closed: nothing is lent out of this pool" if configured else "closed")
        elif room is None or (row[room] is None and not unbounded):
            yield fact(label, "open")
        elif row[room] is None:
            yield fact(label, f"open, {unbounded}")
        else:
            before = "open, up to " if row[room] else "open, but nothing is left: "
            yield _amount(label, row, row[room], before, row[worth] if worth else None)
    if row["min_first_supply"]:
        yield _amount("A first supply", row, row["min_first_supply"], "at least ")
    if row["can_reason"] and not any(row[gate] is None for _, gate, *_ in _DOINGS):
        yield fact("Closed because", _why(row["can_reason"]))
    module = PROTOCOLS.get(row["protocol"])
    for label, status, meanings in (
        ("The market is", row["market_status"], module.statuses if module else {}),
        ("The pool is", row["pool_status"], module.pool_statuses if module else {}),
    ):
        if status:
            meaning = meanings.get(status)
            yield fact(label, text.words(status) + (f": {meaning}" if meaning else ""))


def _why(reason: str) -> str:
    """A reason without what follows in the exporter's own words, if it could not read something."""
    return text.cut(reason.partition(": ")[0] if NOT_FROM_STORAGE.strip(": ") in reason else reason, 200)


@_lines
def risk(row: Row) -> Iterator[str]:
    """The terms at which the pool is lent to and borrowed from."""
    if row["risk_scope"] is None:
        yield fact("Terms", _UNKNOWN)
        return
    if row["can_be_collateral"] is False:
        yield fact("Collateral factor", "none: it is not accepted as collateral")
    else:
        yield fact("Collateral factor", _percent(row["collateral_factor_bps"]))
        yield fact("Liquidation threshold", _percent(row["liquidation_threshold_bps"]))
    yield fact(
        "A debt counts",
        f"{_percent(row['liability_factor_bps'])} of its value"
        if row["liability_factor_bps"] is not None
        else "nothing: it cannot be borrowed",
    )
    bonus = row["liquidation_bonus_bps"]
    kinds = {
        "auction": "auction",
        "dynamic": "bonus that depends on the debt",
        "fixed": f"bonus of {_percent(bonus)}",
        "range": f"bonus that varies, {_percent(bonus)} at one end",
    }
    yield fact("Liquidation", kinds.get(row["liquidation_kind"], _UNKNOWN))
    for label, column in (("Supply cap", "supply_cap"), ("Borrow cap", "borrow_cap")):
        if row[column]:
            yield _amount(label, row, row[column], "", row[f"{column}_usd_cents"])
        else:
            yield fact(label, "no cap" if row[column] is None else "closed")
    most = row["max_utilization_bps"]
    yield fact("Borrowing stops at a utilization of", "no limit" if most is None else _percent(most))
    yield fact("Reserve factor", f"{_percent(row['reserve_factor_bps'])} of the interest")
    yield fact("This holds for", _SCOPES.get(row["risk_scope"], text.words(row["risk_scope"])))


@_lines
def spokes(listed: str | None) -> Iterable[str]:
    """Each spoke's terms, one line each; ``listed`` is JSON (`exporter.tables.SPOKES`)."""
    return (
        fact(
            f"Spoke {spoke['spoke']}",
            "paused"
            if spoke["paused"]
            else f"collateral factor {_percent(spoke['collateral_factor_bps'])}, threshold "
            f"{_percent(spoke['liquidation_threshold_bps'])}; supply {_gate(spoke['can_supply'])}, "
            f"borrow {_gate(spoke['can_borrow'])}",
        )
        for spoke in decode_json((listed or "[]").encode(), list[dict[str, Any]])
    )


@_lines
def rewards(row: Row) -> Iterator[str]:
    """The reward of each side, or why it is not known."""
    symbol = text.cut(row["reward_symbol"] or "the reward token", 14)
    for label, side in (("To suppliers", "supply"), ("To borrowers", "borrow")):
        reason, apr = row[f"{side}_reward_reason"], row[f"{side}_reward_apr_bps"]
        if reason == "valid" and apr is not None:
            yield fact(label, f"{text.percent(apr)} a year in {symbol}", text.exact_percent(apr))
        else:
            yield fact(label, _REASONS.get(reason, _UNKNOWN))
        yearly, decimals, end = (
            row[f"{side}_reward_per_year"],
            row["reward_token_decimals"],
            row[f"{side}_reward_expiration"],
        )
        if yearly and decimals is not None:
            until = f", until {text.moment(end)}" if end is not None and end < _LAST_TIME else ""
            shown = f"{text.amount(yearly, decimals)} {symbol} a year{until}"
            yield fact("All of them together", shown, f"{text.exact_amount(yearly, decimals)} {symbol}")
    if row["reward_price_source"]:
        source = text.cut(row["reward_price_source"], 200)
        price = text.fixed_point(row["reward_price"], row["reward_price_decimals"])
        yield fact(f"Price of {escape(symbol)}", f"{price} USD ({source})")


_QUEUED = {"terms": "Other terms", "admin": "Another admin", "code": "Other code", "oracle": "Another oracle"}


@_lines
def pending(items: Iterable[Pending], close_time: int) -> Iterable[str]:
    """Queued changes, one line each, with the time from which it can be put into effect."""
    return (_pending(item, close_time) for item in items)


def _pending(item: Pending, close_time: int) -> str:
    if item.takes_effect is None:
        when = "no time is set"
    elif item.takes_effect > close_time:
        when = f"possible from {text.moment(item.takes_effect)}"
    else:
        when = f"possible since {text.moment(item.takes_effect)}"
    of = "" if item.pool is None else f" for pool {text.short_address(item.pool)}"
    what = f"{_QUEUED.get(item.kind, text.words(item.kind))}{of}, {when}"
    return f"<li><b>{escape(what)}</b>: {escape(text.cut(item.value, 500))}</li>"


@_lines
def backstop(row: Row) -> Iterator[str]:
    """A market's backstop, of a row of the backstops frame."""
    if row["lp_tokens"] is None:
        yield fact("Size", "not known: it could not be read")
        return
    yield fact("Worth", text.dollars(row["value_usd_cents"]), text.exact_dollars(row["value_usd_cents"]))
    yield fact("Deposited", f"{text.amount(row['lp_tokens'], 7)} tokens", text.exact_amount(row["lp_tokens"], 7))
    if row["blnd"] is not None and row["usdc"] is not None:
        yield fact("They hold", f"{text.amount(row['blnd'], 7)} BLND and {text.amount(row['usdc'], 7)} USDC")
    if row["queued_part"] is not None:
        yield fact("Queued for withdrawal", f"{text.fixed_point(row['queued_part'] * 100, 7)} %")
    if row["threshold_met"] is not None:
        part, met = row["threshold_product_bps"], row["threshold_met"]
        times = "" if part is None else f" ({f'{part // 10_000:,} times' if met else text.percent(part)})"
        yield fact("Minimum of the contract", f"{'met' if met else 'not met'}{times}")
    if row["status_after_update"]:
        yield fact("Status after the next update", text.words(row["status_after_update"]))
    apr, reason, end = row["emission_apr_bps"], row["emission_reason"], row["emission_expiration"]
    if reason == "valid" and apr is not None:
        yield fact("Paid to depositors in BLND", f"{text.percent(apr)} a year", text.exact_percent(apr))
    else:
        yield fact("Paid to depositors in BLND", _REASONS.get(reason, _UNKNOWN))
    if end is not None and end < _LAST_TIME:
        yield fact("Emission ends", text.moment(end))
    if row["backfill_remaining"] is not None:
        left = row["backfill_remaining"]
        yield fact("Left in the backfill", f"{text.amount(left, 7)} BLND", text.exact_amount(left, 7))


_LAST_TIME = 253_402_300_800
"""An end after the year 9999 is shown as no end."""


def _gate(is_open: bool | None) -> str:
    return _UNKNOWN if is_open is None else "open" if is_open else "closed"


def _percent(basis_points: int | None) -> str:
    return _UNKNOWN if basis_points is None else f"{text.fixed_point(basis_points, 2)}\N{NARROW NO-BREAK SPACE}%"


def _amount(label: str, row: Row, units: int, before: str = "", cents: int | None = None) -> str:
    symbol = text.cut(row["symbol"], 14)
    exact = f"{text.exact_amount(units, row['decimals'])} {symbol}"
    worth = "" if not cents else f" ({text.dollars(cents)})"
    return fact(label, f"{before}{text.round_amount(units, row['decimals'])} {symbol}{worth}", exact)
