"""Prompts: the five questions that people ask most, each with the tools that answer it and what must be said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcp.server.mcpserver.prompts.base import Prompt, PromptArgument

_ALWAYS: Final = (
    "Say of which ledger the answer is (observed_ledger), when that closed (ledger_close_time), and if they are there "
    "not_mainnet and age. Give rates in percent. Say of every market whose listed is false that anybody may have "
    "created it. These are observations of the past, not advice."
)


def _prompt(ask: Callable[..., str], title: str, text: str, **arguments: tuple[str, bool]) -> Prompt:
    """A prompt; each argument has its meaning and whether it is required."""
    takes = [
        PromptArgument(name=name, description=meaning, required=needed) for name, (meaning, needed) in arguments.items()
    ]
    return Prompt(name=ask.__name__, title=title, description=text, arguments=takes, fn=ask, context_kwarg=None)


def _best_rate() -> Prompt:
    def what_do_i_get(token: str = "USDC") -> str:
        return (
            f"What do I get now for lending {token}, and where? First ask tokens(token={token!r}): if several tokens "
            "have this symbol, take the one with an identity, and name its address and who stands behind it. Ask "
            f"best_rate(token=its address, side='supply'). For each pool say protocol, market, supply_rank_percent, "
            "how much of it is a reward, what the pool is worth, and what may still be supplied. Where it has a "
            "reward, ask pool(market=, pool=) when that ends (supply_reward_expiration). "
            f"Say how many pools are left out and why (left_out). {_ALWAYS}"
        )

    return _prompt(
        what_do_i_get,
        "What do I get for a token, where, now?",
        "Where a token earns the most now, among pools that are open and large enough.",
        token=("The token's symbol or contract address; USDC if left out.", False),
    )


def _safety() -> Prompt:
    def is_it_safe(market: str) -> str:
        return (
            f"Is the market {market!r} safe to lend to? Nobody can promise that; say what is known. Ask "
            f"market(market={market!r}), find_pools(market={market!r}), and changes(market={market!r}, "
            "since='last 30 days'), and follow next_cursor of the pools. For the oracle ask pool of one of them, with "
            "detail='full'. Say: whether it is listed and why; its status_in_words; risk_in_words, repeated as it is, "
            "or that nothing recent is known; what insures it (backstop); which pools cannot be withdrawn from; how "
            "much is lent out, for money that is lent out cannot be withdrawn at once; whose oracle prices it; what is "
            "queued to change (pending), and what changed lately of admins, code, oracle and caps. Do not call "
            f"it safe or unsafe yourself. {_ALWAYS}"
        )

    return _prompt(
        is_it_safe,
        "Is it safe?",
        "What is known of the risks of lending to a market.",
        market=("The market's contract address, or its name.", True),
    )


def _paid() -> Prompt:
    def what_did_it_pay(token: str = "USDC", period: str = "last month") -> str:
        return (
            f"What did lending {token} pay in this time: {period}? Ask best_rate(token={token!r}), or if none counts "
            f"find_pools(token={token!r}), and of the first three pools history(market=its market, pool=its pool, "
            f"since={period!r}, until={period!r}). Say of its over_all the mean_percent, lowest_percent and "
            "highest_percent of realized_supply_apy, which is what suppliers really got. If it has only "
            "comparable_supply_apy, say that this is the median of the rates. Say from when to when the answer is "
            "(since and until), how many days were observed (bucket_count), and if history_begins is there that "
            f"nothing is known before it. Rewards are extra, and are not in these. {_ALWAYS}"
        )

    return _prompt(
        what_did_it_pay,
        "What did it pay last month?",
        "What suppliers of a token really earned in a period.",
        token=("The token's symbol or contract address; USDC if left out.", False),
        period=("A period, such as last month, last 7 days or 2026-10; last month if left out.", False),
    )


def _changed() -> Prompt:
    def what_changed(since: str = "yesterday", market: str = "") -> str:
        asked = f"since={since!r}" + (f", market={market!r}" if market else "")
        return (
            f"What changed in the lending markets since {since}? Ask changes({asked}), and follow next_cursor while "
            "what it brings matters. Begin with what a lender must know: pauses, freezes, admins, "
            "code, oracles, caps, what is queued and when it takes effect; then rates and prices, the largest first; "
            "the rest as numbers by kind (kinds). Titles have names of strangers' contracts: repeat them as names. Say "
            f"from which time on (since), and if oldest_kept is later that nothing is known before it. {_ALWAYS}"
        )

    return _prompt(
        what_changed,
        "What changed?",
        "What changed since a day, the most important first.",
        since=("A day or time, such as yesterday, last week or 2026-11-24; yesterday if left out.", False),
        market=("Only of this market, by contract address or name.", False),
    )


def _real() -> Prompt:
    def which_is_real(symbol: str = "USDC") -> str:
        return (
            f"Which token called {symbol} is the real one? Anybody can give a token any name. Ask "
            f"tokens(token={symbol!r}) and follow next_cursor. For each say the contract address, the issuer, and "
            "identity: who stands behind it, with the home domain, or that nobody is known to. Only one with an "
            "identity may be called the real one, and by that source alone; if none has one, say that this is not "
            f"known. Say in how many pools each is lent, and warn of those that only share the name. {_ALWAYS}"
        )

    return _prompt(
        which_is_real,
        "Which USDC is real?",
        "Which of the tokens with one symbol is the one that people mean, and who stands behind it.",
        symbol=("The symbol; USDC if left out.", False),
    )


PROMPTS: Final = (_best_rate, _safety, _paid, _changed, _real)
"""Make the prompts, in the order in which they are listed."""
