"""The types of a reading: candidates go into a protocol's reader, and markets, pools and the rest come out of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from exporter.deployments import Deployment, KnownContract
from exporter.ledger.oracles import PriceKey, Quote
from exporter.ledger.tokens import Token
from exporter.protocols.numbers import BackstopFrameRow, PoolFrameRow, Rewards
from exporter.tables import SHARED, PoolKey
from exporter.tree.documents import Absent, Unread
from exporter.tree.values import RewardReason


class Origin(StrEnum):
    """How a run came to know a candidate. If several ways apply, the first one counts."""

    CONFIGURATION = "configuration"
    DEPLOYMENT = "deployment"
    REMEMBERED = "remembered"
    EVENT = "event"
    NAMED_BY_CONTRACT = "contract"
    CENSUS = "census"
    SNAPSHOT = "snapshot"


UNKNOWN_SINCE = 2**32
"""The value of ``known_since`` for a candidate that no earlier run heard of."""


class Candidate(Struct, frozen=True):
    """An address that should be a market or, if it has a ``pool``, a pool of that market that nothing else lists."""

    protocol: str
    address: str
    origin: Origin = Origin.DEPLOYMENT
    pool: str | None = None
    voucher: str | None = None
    """The protocol's contract that should have a record of the market; None if it is not known."""
    known_since: int = UNKNOWN_SINCE
    """The ledger at which the candidate was first heard of; 0 if a list has it."""

    @property
    def configured(self) -> bool:
        """Whether the operator's configuration names the candidate, which makes it listed."""
        return self.origin is Origin.CONFIGURATION


class Liquidation(NamedTuple):
    """One token of an auction, of bad debt or of a claim, as an event of a market states it.

    ``token_address`` is None if the event names no token. ``amount`` is in shares of debt or of supply, or in base
    units of the token of a backstop or a reward. ``percent`` is the part of the position that is put up for auction, or
    the part of the auction that is filled.
    """

    event: str
    auction: str | None = None
    user: str | None = None
    filler: str | None = None
    percent: int | None = None
    side: str | None = None
    token_address: str | None = None
    amount: int | None = None


class DeploymentRole(NamedTuple):
    """A role in a deployment, such as its factory. ``label`` is the deployment's."""

    label: str
    role: str


LEARNED = "named by the chain"
"""The source of a contract that the chain itself names, and that no list has."""


def with_contract(deployment: Deployment, role: str, address: str) -> Deployment:
    """The deployment with one more contract, which the chain itself names."""
    contract = KnownContract(address, role, LEARNED, datetime.date.min)
    return replace(deployment, contracts=(*deployment.contracts, contract))


class Market(Struct, frozen=True):
    """A market as it was read.

    ``members`` are the ids of all its pools, whether they could be read or not. ``config_hash`` is 16 hex digits that
    change if and only if the market's configuration does.
    """

    address: str
    protocol: str
    version: str
    name: str
    status: str
    oracle: str | None
    config_hash: str
    wasm_hash: str | None
    members: tuple[str, ...]


class Parameter(Struct, frozen=True):
    """A parameter of a rate model, or a limit.

    Its number is ``value`` divided by 10^``decimals``. A yes is 1, a no is 0. With ``no_limit`` the contract takes the
    value to mean that there is no limit.
    """

    name: str
    value: int
    decimals: int
    no_limit: bool = False


class Pending(Struct, frozen=True):
    """A change of terms, admin, code or oracle that is queued and not in effect yet.

    ``pool`` is None if the change concerns the whole market. ``takes_effect`` is the time (unix seconds) from which on
    somebody can put the change into effect; None if the contracts state no time.
    """

    market: str
    pool: str | None
    kind: str
    value: str
    takes_effect: int | None = None


class PriceLimits(NamedTuple):
    """Limits that a market itself sets for prices, in addition to its protocol's rule. None sets no limit.

    ``max_age`` is in seconds. ``decimals`` are the decimals that the market's oracle must have. A market that
    ``refuses_future`` takes no price whose time is after the ledger's.
    """

    max_age: int | None = None
    decimals: int | None = None
    refuses_future: bool = False


NOBODY = "none"
"""The value of a `Control` that says that nobody has the role."""


class Control(Struct, frozen=True):
    """An admin, a code or an oracle of a market. The run reports if one changes.

    ``subject`` is a role or a contract, and ``value`` the address or the hash.
    """

    market: str
    kind: str
    subject: str
    value: str


class TokenOfMarket(NamedTuple):
    """A token in one market. Both are addresses."""

    market: str
    token: str


class RewardPrice(Struct, frozen=True):
    """The price of a reward token in another token.

    One whole reward token is worth ``rate`` / 10^``decimals`` whole tokens of ``priced_in``, which an oracle prices.
    ``source`` says where the rate is from; empty if the oracle prices the reward token itself.
    """

    priced_in: str
    rate: int = 1
    decimals: int = 0
    source: str = ""


State = TypeVar("State")


class PoolReading(Struct, Generic[State], frozen=True):
    """One pool as it was read: its market and token, and the state from which its protocol's math computes."""

    market: Market
    pool: str
    """The pool's id inside its market."""
    token_address: str
    decimals: int
    """The token's decimals, as the market computes with them."""
    oracle: str | None
    """The contract that prices the token for this pool; usually the market's."""
    state: State

    @property
    def key(self) -> PoolKey:
        """What identifies the pool."""
        return PoolKey(self.market.address, self.pool)

    def identity(self) -> dict[str, object]:
        """The values of the columns `SHARED`, which identify a pool."""
        market = self.market
        values = (
            *(market.address, self.pool, self.token_address, self.decimals, market.protocol, market.version),
            *(market.name, market.status, self.oracle, market.wasm_hash),
        )
        return dict(zip(SHARED, values, strict=True))


AnyPool = PoolReading[Any]
"""A pool of any protocol."""

NO_REWARDS = Rewards(
    supply_reward_per_second=0,
    borrow_reward_per_second=0,
    reward_decimals=0,
    supply_reward_reason=RewardReason.NONE,
    borrow_reward_reason=RewardReason.NONE,
)
"""The rewards of a protocol whose contracts pay nothing in addition to interest."""


class ProtocolReading(Struct):
    """Everything that was read of one protocol.

    Attributes:
        protocol: the protocol's name.
        markets: the markets that were read.
        pools: the pools that were read, from which `exporter.protocols.protocol.Protocol.project` computes.
        unread: markets and pools that could not be read. The reason is one of `exporter.tree.values.UnreadReason`.
        absent: candidates that have no contract and that the operator did not name.
        notices: what the operator should know.
        tokens: the tokens of the pools and of their rewards, by address.
        quotes: the oracles' answers.
        entry_keys: for each pool the ledger keys of the entries that its numbers follow from, including the instances
            of its market, token and oracle.
        archived: the pools that have an archived entry, which the next call restores (docs/decisions.md, "Absent,
            archived, unread"). `exporter.protocols.containment.read_contained` finds them.
        frozen: for each pool that needs a key which the network froze, the reason why nothing is possible there.
        price_limits: for each pool the limits that the market itself sets for prices.
        parameters: for each pool the parameters that are shown to people. Nothing is computed from them.
        verified: for each market that has been verified, the protocol's contract whose record says that it is genuine.
            The next run remembers it.
        contracts: the addresses of contracts of deployments that only the chain names. The next run remembers them.
        unknown_code: the markets that run code which no source names.
        controls: who decides over markets, and which code they run.
        pending: changes that are queued.
        reward_prices: what reward tokens are worth.
        backstops: for each market a function that gives the row of the backstops frame at a close time (unix seconds),
            without its value in US cents.
        named: markets that the protocol's own contracts name, and that were not among the candidates. They are not
            read yet.
    """

    protocol: str
    markets: list[Market] = field(default_factory=list)
    pools: list[AnyPool] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    quotes: Mapping[PriceKey, Quote] = field(default_factory=dict)
    entry_keys: dict[PoolKey, tuple[bytes, ...]] = field(default_factory=dict)
    archived: set[PoolKey] = field(default_factory=set)
    frozen: dict[PoolKey, str] = field(default_factory=dict)
    price_limits: dict[PoolKey, PriceLimits] = field(default_factory=dict)
    parameters: dict[PoolKey, tuple[Parameter, ...]] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    contracts: dict[DeploymentRole, str] = field(default_factory=dict)
    unknown_code: set[str] = field(default_factory=set)
    controls: list[Control] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    reward_prices: dict[TokenOfMarket, RewardPrice] = field(default_factory=dict)
    backstops: dict[str, Callable[[int], BackstopFrameRow]] = field(default_factory=dict)
    named: list[Candidate] = field(default_factory=list)

    def at_close_time(self, close_time: int) -> None:
        """Adapt the reading to a ledger's close time, if something in it depends on time alone.

        It may be called more than once. Here nothing depends on it.
        """

    def remove_markets(self, removed: Collection[str]) -> None:
        """Remove markets from the reading, by address, and everything that is computed or shown of them.

        Who holds their roles and queued changes stay out with them. That they are genuine, and that they run unknown
        code, are true of markets that do not count, too: the next run remembers the one, and a notice says the other.
        Every collection is made anew, so a shallow copy of the reading keeps what it had.
        """
        self.markets = [market for market in self.markets if market.address not in removed]
        self.pools = [pool for pool in self.pools if pool.market.address not in removed]
        self.unread = [item for item in self.unread if item.market not in removed]
        self.controls = [item for item in self.controls if item.market not in removed]
        self.pending = [item for item in self.pending if item.market not in removed]
        self.backstops = {market: row for market, row in self.backstops.items() if market not in removed}
        self.entry_keys = {pool: keys for pool, keys in self.entry_keys.items() if pool.market not in removed}
        self.archived = {pool for pool in self.archived if pool.market not in removed}
        self.frozen = {pool: reason for pool, reason in self.frozen.items() if pool.market not in removed}
        self.parameters = {pool: values for pool, values in self.parameters.items() if pool.market not in removed}
        self.price_limits = {pool: limits for pool, limits in self.price_limits.items() if pool.market not in removed}
        self.reward_prices = {
            token: price for token, price in self.reward_prices.items() if token.market not in removed
        }


class ComputedPool(Struct, frozen=True):
    """A pool as it was read, and its row of the pools frame."""

    pool: AnyPool
    row: PoolFrameRow
