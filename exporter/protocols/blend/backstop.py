"""The backstop of a pool: what insures it, what its depositors are paid, and what status it leads to.

Numbers are the contracts' own (docs/protocols/blend.md, "Backstop"), in plain integers: there are a few dozen pools.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.exact import JSON_INTEGER_MAX
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.observation import Entry
from exporter.ledger.tokens import Token
from exporter.protocols.base import RewardPrice
from exporter.protocols.blend.emissions import RATE_DECIMALS, Emission, backstop_emission_key, decode_emission
from exporter.protocols.blend.funding import Funding, FundingEntries, decode_emitter, known
from exporter.protocols.blend.layout import PoolInstance
from exporter.protocols.blend.records import Entries
from exporter.tree.values import RewardReason

ONE = 10**7  # 7 decimals
_LP_PER_USDC = 5
"""The backstop takes USDC for a fifth of what Comet's pool holds, whatever its weights say."""

_THRESHOLDS = {"v1": 200_000**5, "v2": 100_000**5}
_INT128_MAX = 2**127 - 1
_YEAR = 31_536_000


def comet_keys(comet: str) -> tuple[bytes, bytes]:
    """The ledger keys of what the pool holds, by token, and of how many shares there are."""
    return variant_key(comet, "AllRecordData"), variant_key(comet, "TotalShares")


@dataclass(frozen=True, slots=True)
class Comet:
    """The pool of Comet whose shares are the backstop's token: balances and weights of both tokens, each above zero.

    Prices are in USDC with 7 decimals, each step rounded down as in the contracts (docs/protocols/blend.md, "Price of
    BLND"). The price of a thin pool can be moved within one ledger: no value of a lending pool has any of it in it.
    """

    blnd: int
    blnd_weight: int
    usdc: int
    usdc_weight: int
    shares: int

    @property
    def blnd_in_usdc(self) -> int:
        """The price of one BLND in USDC without the fee: fl(fl(usdc / its weight) / fl(blnd / its weight))."""
        return self.usdc * ONE // self.usdc_weight * ONE // (self.blnd * ONE // self.blnd_weight)

    @property
    def blnd_per_share(self) -> int:
        return self.blnd * ONE // self.shares

    @property
    def usdc_per_share(self) -> int:
        return self.usdc * ONE // self.shares

    @property
    def share_in_usdc(self) -> int:
        """The value of one share in USDC."""
        return self.usdc_per_share * _LP_PER_USDC


def decode_comet(records: Entry | None, shares: Entry | None, blnd: str, usdc: str) -> Comet:
    """Raises `DecodeError` where an entry is missing or archived, or anything in them is not above zero."""
    if records is None or shares is None or records.archived or shares.archived:
        raise DecodeError("Comet: its records or shares are missing or archived")
    found: dict[str, int] = {}
    for key, value in expect(records.value, scval.MAP, "Comet: AllRecordData"):
        for name, token in (("blnd", blnd), ("usdc", usdc)):
            if key == (scval.ADDRESS, token):
                record = Fields.of(value, f"Comet: record of {token}")
                found |= {name: record.i128("balance"), f"{name}_weight": record.i128("weight")}
    if len(found) < 4:
        raise DecodeError("Comet: it does not hold both tokens of the backstop")
    comet = Comet(**found, shares=expect(shares.value, scval.I128, "Comet: TotalShares"))
    if min(found.values()) <= 0 or comet.shares <= 0 or comet.blnd * ONE < comet.blnd_weight:
        raise DecodeError("Comet: a balance, a weight or the number of shares is not above zero")
    return comet


class BackstopTokens(NamedTuple):
    """The contracts that a backstop's instance names: the token that is deposited, which is a pool of Comet, and what
    that holds.
    """

    lp: str
    blnd: str
    usdc: str


class Balance(NamedTuple):
    """A pool's part of the backstop: all shares, the tokens behind them, and the shares queued for withdrawal."""

    shares: int
    tokens: int
    queued: int

    @property
    def queued_part(self) -> int:
        """The part of the shares that is queued, 7 decimals, rounded up."""
        return -(-self.queued * ONE // self.shares) if self.shares > 0 else 0

    @property
    def tokens_not_queued(self) -> int:
        """The tokens that earn emissions: all tokens less those of the queued shares, rounded down."""
        return self.tokens - self.queued * self.tokens // self.shares if self.shares > 0 else 0


def balance_key(backstop: str, market: str) -> bytes:
    """The ledger key of a pool's part of the backstop. Nobody ever deposited where there is none."""
    return variant_key(backstop, "PoolBalance", address(market))


def lp_value_key(backstop: str) -> bytes:
    """The ledger key of what a v1 backstop takes its token to be worth."""
    return data_key(backstop, symbol("LPTknVal"))


def decode_backstop_tokens(entry: Entry | None) -> BackstopTokens:
    """The tokens that a backstop's instance names. Raises `DecodeError`, also where there is none."""
    if entry is None:
        raise DecodeError("backstop: the instance is missing")
    storage = Fields(instance_of(entry.contract_data()).storage, "backstop instance")
    return BackstopTokens(*(storage.contract(name) for name in ("BToken", "BLNDTkn", "USDCTkn")))


def decode_balance(entry: Entry | None) -> Balance:
    """Raises `DecodeError`, also for an archived entry and for numbers that contradict each other."""
    if entry is None:
        return Balance(0, 0, 0)
    if entry.archived:
        raise DecodeError("PoolBalance: the entry is archived")
    fields = Fields.of(entry.value, "PoolBalance")
    balance = Balance(fields.i128("shares"), fields.i128("tokens"), fields.i128("q4w"))
    if min(balance) < 0 or balance.queued > balance.shares:
        raise DecodeError("PoolBalance: a number is below zero, or more shares are queued than there are")
    return balance


def decode_lp_value(entry: Entry | None) -> tuple[int, int]:
    """BLND and USDC behind one share of the token as a v1 backstop last noted them. Raises `DecodeError`."""
    items = () if entry is None or entry.archived else expect(entry.value, scval.VEC, "LPTknVal") or ()
    value = tuple(expect(item, scval.I128, "LPTknVal") for item in items)
    if len(value) != 2 or min(value) < 0:
        raise DecodeError("LPTknVal: not two amounts")
    return value


@dataclass(frozen=True, slots=True)
class PoolBackstop:
    """All that is known of one pool's backstop; what could not be read is None."""

    market: str
    generation: str
    status: str
    backstop: str
    tokens: BackstopTokens | None
    balance: Balance | None
    emission: Emission
    funding: Funding
    comet: Comet | None
    lp_value: tuple[int, int] | None
    """BLND and USDC behind one share of the token, as the contract takes it: v1 has noted it at some time."""
    in_reward_zone: bool | None

    @property
    def threshold_product(self) -> int | None:
        """BLND^4 * USDC in whole units, saturated as the contract does it."""
        if self.balance is None or self.lp_value is None:
            return None
        blnd, usdc = (self.balance.tokens * per_share // ONE // ONE for per_share in self.lp_value)
        return min(blnd**4 * usdc, _INT128_MAX)

    def status_after_update(self) -> str | None:
        """The status that `update_status` would set now; None where nobody can call it, or it is not known."""
        product = self.threshold_product
        if self.balance is None or product is None or self.status not in _UPDATED:
            return None
        queued, met = self.balance.queued_part, product >= _THRESHOLDS[self.generation]
        if self.status == "admin_on_ice":
            return "frozen" if queued >= 7_500_000 else self.status
        if self.status == "admin_active":
            return "on_ice" if not met or queued >= 5_000_000 else self.status
        if queued >= 6_000_000:
            return "frozen"
        return "on_ice" if queued >= 3_000_000 or not met else "active"

    def row(self, close_time: int) -> dict[str, object]:
        """The columns of `exporter.tables.BACKSTOPS` but the value in US cents, which hangs on the market's oracle."""
        product, balance, comet = self.threshold_product, self.balance, self.comet
        emission = self.emission.at(close_time)
        extra = RATE_DECIMALS[self.generation]
        apr, reason = self._apr_bps(emission, extra)
        row: dict[str, object] = {
            "market": self.market,
            "backstop": self.backstop,
            "emission_reason": reason,
            "emission_per_second": emission.eps,
            "emission_decimals": extra,
            "emission_per_year": None if emission.eps is None else emission.eps * _YEAR // 10**extra,
            "emission_expiration": emission.expiration,
            "emission_apr_bps": apr,
            "emission_source": self.funding.source,
            "emission_funded": self.funding.funded,
            "backfill_remaining": self.funding.remaining,
            "in_reward_zone": self.in_reward_zone,
            "status_after_update": self.status_after_update(),
        }
        if self.tokens is not None:
            row |= {"lp_token": self.tokens.lp, "emission_token": self.tokens.blnd}
        if balance is not None:
            row |= {"shares": balance.shares, "lp_tokens": balance.tokens, "queued_shares": balance.queued}
            row |= {"queued_part": balance.queued_part}
        if comet is not None:
            row |= {"lp_price_usdc": comet.share_in_usdc, "blnd_price_usdc": comet.blnd_in_usdc}
        if comet is not None and balance is not None:
            row |= {
                "blnd": balance.tokens * comet.blnd_per_share // ONE,
                "usdc": balance.tokens * comet.usdc_per_share // ONE,
            }
        if product is not None:
            threshold = _THRESHOLDS[self.generation]
            row |= {
                "threshold_met": product >= threshold,
                "threshold_product_bps": min(product * 10_000 // threshold, JSON_INTEGER_MAX),
            }
        return row

    def _apr_bps(self, emission: Emission, extra: int) -> tuple[int | None, str | None]:
        """The yield of the depositors that have not queued; the value in USDC of both tokens cancels the dollar."""
        if not emission.eps:
            return emission.eps, emission.reason
        if emission.reason == RewardReason.NOT_FUNDED:
            return None, emission.reason
        if self.balance is None:
            return None, RewardReason.UNREAD
        earning = self.balance.tokens_not_queued
        if earning == 0:
            return None, RewardReason.NO_BACKSTOP
        if self.comet is None or self.comet.share_in_usdc == 0:
            return None, RewardReason.NO_REWARD_PRICE
        paid = emission.eps * _YEAR * self.comet.blnd_in_usdc * 10_000
        return min(paid // (10**extra * earning * self.comet.share_in_usdc), JSON_INTEGER_MAX), RewardReason.VALID


class Insurance:
    """The backstops that pools name: which entries say what they are, and what these say."""

    def __init__(self, pools: Mapping[str, PoolInstance], entries: Entries) -> None:
        """``entries`` has the instances of the backstops, as far as they were read."""
        self._pools = {market: (pool, pool.backstop) for market, pool in pools.items() if pool.backstop is not None}
        self._tokens = {
            backstop: known(decode_backstop_tokens, entries.get(instance_key(backstop)))
            for _, backstop in self._pools.values()
        }
        self._funding = {
            (pool.generation, backstop): FundingEntries(
                pool.generation,
                backstop,
                decode_emitter(entries.get(instance_key(backstop))),
                None if (named := self._tokens[backstop]) is None else named.blnd,
            )
            for pool, backstop in self._pools.values()
        }

    def tokens(self) -> list[str]:
        """BLND and USDC, whose decimals the prices hang on."""
        return list(dict.fromkeys(token for named in self._tokens.values() if named for token in named[1:]))

    def busy_keys(self) -> list[bytes]:
        """What Comet's pools hold changes with every trade."""
        return list(dict.fromkeys(key for named in self._tokens.values() if named for key in comet_keys(named.lp)))

    def emitter_keys(self) -> list[bytes]:
        """The instances of the emitters that pay the backstops."""
        return list(dict.fromkeys(key for funding in self._funding.values() for key in funding.keys))

    def kept_keys(self) -> list[bytes]:
        """What is kept of each pool, and of what funds its backstop. Nothing removes it, and many have none of it."""
        keys = {lp_value_key(backstop): None for pool, backstop in self._pools.values() if pool.generation == "v1"}
        keys |= {key: None for funding in self._funding.values() for key in funding.kept}
        for market, (pool, backstop) in self._pools.items():
            keys[balance_key(backstop, market)] = None
            keys[backstop_emission_key(pool.generation, backstop, market)] = None
        return list(keys)

    def reward_prices(self, tokens: Mapping[str, Token], entries: Entries) -> dict[tuple[str, str], RewardPrice]:
        """The price of BLND in USDC, by market and BLND's address, where both have the 7 decimals that Comet takes."""
        prices = {}
        for market, (_, backstop) in self._pools.items():
            named, comet = self._tokens[backstop], self._comet(backstop, entries)
            if named and comet and all(tokens[token].decimals == 7 for token in named[1:]):
                prices[market, named.blnd] = RewardPrice(named.usdc, comet.blnd_in_usdc, 7, f"comet_spot {named.lp}")
        return prices

    def funding(self, market: str, entries: Entries) -> Funding:
        """How the backstop of a market is funded; nothing is known of one that names none."""
        if market not in self._pools:
            return Funding(None, None, None)
        pool, backstop = self._pools[market]
        return self._funding[pool.generation, backstop].decode(entries)

    def backstops(self, entries: Entries, zones: Mapping[str, Collection[str]]) -> list[PoolBackstop]:
        """All that is known of each pool's backstop. ``zones`` are the reward zones that were read, by backstop."""
        return [self._backstop(market, entries, zones) for market in self._pools]

    def _backstop(self, market: str, entries: Entries, zones: Mapping[str, Collection[str]]) -> PoolBackstop:
        pool, backstop = self._pools[market]
        comet = self._comet(backstop, entries)
        value = None if comet is None else (comet.blnd_per_share, comet.usdc_per_share)
        funding = self.funding(market, entries)
        return PoolBackstop(
            market=market,
            generation=pool.generation,
            status=pool.status,
            backstop=backstop,
            tokens=self._tokens[backstop],
            balance=known(decode_balance, entries[balance_key(backstop, market)]),
            emission=decode_emission(entries[backstop_emission_key(pool.generation, backstop, market)], funding.funded),
            funding=funding,
            comet=comet,
            lp_value=known(decode_lp_value, entries[lp_value_key(backstop)]) if pool.generation == "v1" else value,
            in_reward_zone=market in zones[backstop] if backstop in zones else None,
        )

    def _comet(self, backstop: str, entries: Entries) -> Comet | None:
        named = self._tokens[backstop]
        if named is None:
            return None
        return known(decode_comet, *(entries[key] for key in comet_keys(named.lp)), named.blnd, named.usdc)


_UPDATED = ("admin_active", "active", "admin_on_ice", "on_ice", "frozen")
