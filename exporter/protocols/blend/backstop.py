"""The backstop of a Blend pool: its value, what its depositors are paid, whether that is funded, and its status.

docs/protocols/blend.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import DecodeError
from exporter.exact import INT128_MAX, JSON_INTEGER_MAX, ceil_divide
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, instance_key, variant_key
from exporter.ledger.codec.fields import Fields, decoded_or_none, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.tokens import Token
from exporter.protocols.balances import balance_key as token_balance_key
from exporter.protocols.balances import decode_balance
from exporter.protocols.base import RewardPrice
from exporter.protocols.blend.emissions import RATE_DECIMALS, Emission, backstop_emission_key, decode_emission
from exporter.protocols.blend.layout import PoolInstance, named_contracts, storage_of
from exporter.protocols.numbers import BackstopFrameRow
from exporter.tables import YEAR
from exporter.tree.values import RewardReason

ONE = 10**7  # 7 decimals

ALLOTMENT = 10_000_000 * ONE
"""The most BLND, in base units, that a v2 backstop may promise before the emitter pays it."""

_LP_PER_USDC = 5
"""The backstop counts USDC as a fifth of what Comet's pool holds, whatever the pool's weights say."""

_THRESHOLDS = {"v1": 200_000**5, "v2": 100_000**5}
_UPDATED = ("admin_active", "active", "admin_on_ice", "on_ice", "frozen")


class EmissionSource(StrEnum):
    """The source of the BLND that a backstop promises next."""

    EMITTER = "emitter"
    """The emitter pays this backstop."""
    BACKFILL = "backfill"
    """The BLND comes from the allotment, which is minted at once when the emitter begins to pay this backstop."""
    NONE = "none"
    """The emitter pays another backstop now."""


class Funding(NamedTuple):
    """The BLND of a backstop. None means that it is not known.

    If it is ``funded``, the backstop has all that it promised, so that a claim succeeds. ``remaining`` is what is left
    of the allotment, in base units, as long as promises come from it.
    """

    source: EmissionSource | None = None
    funded: bool | None = None
    remaining: int | None = None


class BackstopTokens(NamedTuple):
    """The tokens that a backstop's instance names: ``lp``, which is a pool of Comet, and the two that it holds."""

    lp: str
    blnd: str
    usdc: str


class Comet(Struct, frozen=True):
    """The pool of Comet whose shares are the backstop's token.

    Its prices are in USDC, with 7 decimals, rounded down.
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
    def per_share(self) -> tuple[int, int]:
        """How much BLND and USDC is behind one share, with 7 decimals."""
        return self.blnd * ONE // self.shares, self.usdc * ONE // self.shares

    @property
    def share_in_usdc(self) -> int:
        """The price of one share in USDC, as the backstop computes it."""
        return self.per_share[1] * _LP_PER_USDC


class BackstopBalance(NamedTuple):
    """A pool's part of the backstop: all its shares, the tokens behind them, and how many shares are queued.

    Queued shares will be withdrawn.
    """

    shares: int
    tokens: int
    queued: int

    @property
    def queued_part(self) -> int:
        """The part of the shares that is queued, 7 decimals, rounded up."""
        return ceil_divide(self.queued * ONE, self.shares) if self.shares > 0 else 0

    @property
    def tokens_not_queued(self) -> int:
        """The tokens that earn emissions: all tokens without those of the queued shares, rounded down."""
        return self.tokens - self.queued * self.tokens // self.shares if self.shares > 0 else 0


class PoolBackstop(Struct, frozen=True):
    """Everything that is known of one pool's backstop. What could not be read is None."""

    market: str
    generation: str
    status: str
    backstop: str
    tokens: BackstopTokens | None
    balance: BackstopBalance | None
    emission: Emission
    funding: Funding
    comet: Comet | None
    lp_value: tuple[int, int] | None
    """How much BLND and USDC the contract counts for one share of the token. v1 uses a value that it once stored."""
    in_reward_zone: bool | None

    def reward_price(self, tokens: Mapping[str, Token]) -> RewardPrice | None:
        """The price of BLND in USDC. None if it is not known, or if one of them does not have Comet's 7 decimals."""
        if self.tokens is None or self.comet is None or {tokens[token].decimals for token in self.tokens[1:]} != {7}:
            return None
        return RewardPrice(self.tokens.usdc, self.comet.blnd_in_usdc, 7, f"comet_spot {self.tokens.lp}")

    @property
    def threshold_product(self) -> int | None:
        """BLND^4 * USDC in whole units, at most 2^127 - 1, as in the contract."""
        if self.balance is None or self.lp_value is None:
            return None
        blnd, usdc = (self.balance.tokens * per_share // ONE // ONE for per_share in self.lp_value)
        return min(blnd**4 * usdc, INT128_MAX)

    def status_after_update(self) -> str | None:
        """The status that `update_status` would set now. None if nobody can call it, or if it is not known."""
        product = self.threshold_product
        if self.balance is None or product is None or self.status not in _UPDATED:
            return None
        queued = self.balance.queued_part
        is_large_enough = product >= _THRESHOLDS[self.generation]
        if self.status == "admin_on_ice":
            return "frozen" if queued >= 7_500_000 else self.status
        if self.status == "admin_active":
            return "on_ice" if not is_large_enough or queued >= 5_000_000 else self.status
        if queued >= 6_000_000:
            return "frozen"
        return "on_ice" if queued >= 3_000_000 or not is_large_enough else "active"

    def row(self, close_time: int) -> BackstopFrameRow:
        """The row of the backstops frame at a close time (unix seconds), without the value in US cents.

        That follows from the price of the market's oracle, which is not known here.
        """
        product, balance, comet, tokens = self.threshold_product, self.balance, self.comet, self.tokens
        emission = self.emission.at(close_time)
        extra, threshold = RATE_DECIMALS[self.generation], _THRESHOLDS[self.generation]
        apr, reason = self._apr_bps(emission, extra)
        blnd = usdc = None
        if comet is not None and balance is not None:
            blnd, usdc = (balance.tokens * per_share // ONE for per_share in comet.per_share)
        return BackstopFrameRow(
            market=self.market,
            backstop=self.backstop,
            lp_token=None if tokens is None else tokens.lp,
            shares=None if balance is None else balance.shares,
            lp_tokens=None if balance is None else balance.tokens,
            queued_shares=None if balance is None else balance.queued,
            queued_part=None if balance is None else balance.queued_part,
            blnd=blnd,
            usdc=usdc,
            lp_price_usdc=None if comet is None else comet.share_in_usdc,
            blnd_price_usdc=None if comet is None else comet.blnd_in_usdc,
            threshold_product_bps=None if product is None else min(product * 10_000 // threshold, JSON_INTEGER_MAX),
            threshold_met=None if product is None else product >= threshold,
            status_after_update=self.status_after_update(),
            emission_token=None if tokens is None else tokens.blnd,
            emission_decimals=extra,
            emission_per_second=emission.eps,
            emission_per_year=None if emission.eps is None else emission.eps * YEAR // 10**extra,
            emission_expiration=emission.expiration,
            emission_apr_bps=apr,
            emission_reason=reason,
            emission_source=self.funding.source,
            emission_funded=self.funding.funded,
            backfill_remaining=self.funding.remaining,
            in_reward_zone=self.in_reward_zone,
        )

    def _apr_bps(self, emission: Emission, extra: int) -> tuple[int | None, str]:
        """The yield of the depositors that have not queued, in basis points, and the reason if there is none.

        Both the reward and the deposits are valued in USDC, so no price in dollars is needed.
        """
        if not emission.eps:
            return emission.eps, emission.reason or RewardReason.NO_EMISSIONS
        if emission.reason == RewardReason.NOT_FUNDED:
            return None, emission.reason
        if self.balance is None:
            return None, RewardReason.UNREAD
        earning = self.balance.tokens_not_queued
        if earning == 0:
            return None, RewardReason.NO_BACKSTOP
        if self.comet is None or self.comet.share_in_usdc == 0:
            return None, RewardReason.NO_REWARD_PRICE
        paid = emission.eps * YEAR * self.comet.blnd_in_usdc * 10_000
        return min(paid // (10**extra * earning * self.comet.share_in_usdc), JSON_INTEGER_MAX), RewardReason.VALID


class BackstopKeys:
    """The ledger keys of the backstop that a pool names. `read` decodes their entries."""

    def __init__(self, market: str, pool: PoolInstance, backstop: str, instance: Entry | None) -> None:
        self._market, self._pool, self._backstop = market, pool, backstop
        self._is_v2 = pool.generation == "v2"
        names = decoded_or_none(named_contracts, instance, "BToken", "BLNDTkn", "USDCTkn")
        self.tokens = None if names is None else BackstopTokens(*names)
        (emitter,) = decoded_or_none(named_contracts, instance, "Emitter") or (None,)
        self.keys: dict[str, bytes] = {}
        """The keys of entries that change, by name. Comet's pool changes with every trade."""
        self.never_removed = {
            "PoolBalance": variant_key(backstop, "PoolBalance", address(market)),
            "emission": backstop_emission_key(pool.generation, backstop, market),
        }
        """The keys of entries that nothing removes once they exist, by name."""
        own_names = ("Backfill", "BackfillEmis") if self._is_v2 else ("LPTknVal",)
        self.never_removed |= {name: data_key(backstop, symbol(name)) for name in own_names}
        if self.tokens is not None:
            self.keys = {name: variant_key(self.tokens.lp, name) for name in ("AllRecordData", "TotalShares")}
            if self._is_v2:
                self.never_removed["BLND"] = token_balance_key(self.tokens.blnd, backstop)
        if emitter is not None:
            self.keys["emitter"] = instance_key(emitter)
            emitter_names = ("LastDistro", "Dropped") if self._is_v2 else ("LastDistro",)
            self.never_removed |= {name: variant_key(emitter, name, address(backstop)) for name in emitter_names}
        self._entries: dict[str, Entry | None] = {}

    def read(self, entries: Entries, zones: Mapping[str, Collection[str]]) -> PoolBackstop:
        """The backstop, as its entries have it. ``zones`` are the markets in the reward zone of each backstop.

        An archived entry counts like another, because nobody can change it before it is restored.
        """
        self._entries = {name: entries[key] for name, key in (self.keys | self.never_removed).items()}
        source = decoded_or_none(self._source)
        promised = decoded_or_none(self._promised) if source == EmissionSource.BACKFILL else None
        remaining = None if promised is None else max(ALLOTMENT - promised, 0)
        funding = Funding(source, decoded_or_none(self._funded), remaining)
        comet = decoded_or_none(self._comet)
        if self._is_v2:
            lp_value = None if comet is None else comet.per_share
        else:
            lp_value = decoded_or_none(decode_lp_value, self._entries["LPTknVal"])
        return PoolBackstop(
            market=self._market,
            generation=self._pool.generation,
            status=self._pool.status,
            backstop=self._backstop,
            tokens=self.tokens,
            balance=decoded_or_none(decode_backstop_balance, self._entries["PoolBalance"]),
            emission=decode_emission(self._entries["emission"], funding.funded),
            funding=funding,
            comet=comet,
            lp_value=lp_value,
            in_reward_zone=self._market in zones[self._backstop] if self._backstop in zones else None,
        )

    def _entry(self, name: str) -> Entry | None:
        if name not in self._entries:
            raise DecodeError("the backstop's instance could not be read")
        return self._entries[name]

    def _value(self, name: str) -> ScVal | None:
        entry = self._entry(name)
        return None if entry is None else entry.value

    def _comet(self) -> Comet:
        """Comet's pool. Raises `DecodeError` if an entry is missing, or if a number in it is not above zero."""
        records, shares = self._entry("AllRecordData"), self._entry("TotalShares")
        if self.tokens is None or records is None or shares is None:
            raise DecodeError("Comet: its records or shares are missing")
        record_of = dict(expect(records.value, scval.MAP, "Comet: AllRecordData") or ())
        blnd, usdc = record_of.get(address(self.tokens.blnd)), record_of.get(address(self.tokens.usdc))
        if blnd is None or usdc is None:
            raise DecodeError("Comet: it does not hold both tokens of the backstop")
        of_blnd, of_usdc = Fields.of(blnd, "Comet: record of blnd"), Fields.of(usdc, "Comet: record of usdc")
        comet = Comet(
            blnd=of_blnd.i128("balance"),
            blnd_weight=of_blnd.i128("weight"),
            usdc=of_usdc.i128("balance"),
            usdc_weight=of_usdc.i128("weight"),
            shares=expect(shares.value, scval.I128, "Comet: TotalShares"),
        )
        least = min(comet.blnd, comet.blnd_weight, comet.usdc, comet.usdc_weight, comet.shares)
        if least <= 0 or comet.blnd * ONE < comet.blnd_weight:
            raise DecodeError("Comet: a balance, a weight or the number of shares is not above zero")
        return comet

    def _source(self) -> EmissionSource:
        if storage_of(self._entry("emitter"), "emitter").address("Backstop") == self._backstop:
            return EmissionSource.EMITTER
        was_paid = self._entry("LastDistro") is not None
        if was_paid or not self._is_v2 or self._value("Backfill") == (scval.BOOL, False):
            return EmissionSource.NONE
        return EmissionSource.BACKFILL

    def _funded(self) -> bool:
        promised = self._promised() if self._is_v2 else 0
        if promised == 0 or self._value("Dropped") == (scval.BOOL, True):
            return True
        return decode_balance(self._entry("BLND")) >= promised

    def _promised(self) -> int:
        value = self._value("BackfillEmis")
        return 0 if value is None else int(expect(value, scval.I128, "BackfillEmis"))


def decode_backstop_balance(entry: Entry | None) -> BackstopBalance:
    """A pool's part of the backstop. All is 0 without an entry, because then nobody ever deposited.

    Raises `DecodeError`, also if the numbers contradict each other.
    """
    if entry is None:
        return BackstopBalance(0, 0, 0)
    fields = Fields.of(entry.value, "PoolBalance")
    balance = BackstopBalance(fields.i128("shares"), fields.i128("tokens"), fields.i128("q4w"))
    if min(balance) < 0 or balance.queued > balance.shares:
        raise DecodeError("PoolBalance: a number is below zero, or more shares are queued than there are")
    return balance


def decode_lp_value(entry: Entry | None) -> tuple[int, int]:
    """How much BLND and USDC was behind one share of the token when a v1 backstop last stored it.

    Raises `DecodeError`.
    """
    items = () if entry is None else expect(entry.value, scval.VEC, "LPTknVal") or ()
    value = tuple(expect(item, scval.I128, "LPTknVal") for item in items)
    if len(value) != 2 or min(value) < 0:
        raise DecodeError("LPTknVal: not two amounts")
    return value
