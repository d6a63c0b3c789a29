"""Reading every Peridot market: which keys, in which waves, and what becomes of each vault that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.deployments import Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import CallResult
from exporter.ledger.oracles import by_address, by_symbol, read_asset_quotes
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.balances import Balance, balance_key, read_balances
from exporter.protocols.base import Candidate, Market, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, oracle_keys
from exporter.protocols.peridot import layout, queued
from exporter.protocols.peridot.math import TERM_COLUMNS, UNSURE_COLUMNS, VAULT_COLUMNS
from exporter.protocols.shared_columns import TEXTS

NAME = "peridot"
VAULT = "vault"
"""The role of a vault in the lists of deployments."""

MARKET_NAME = "Peridot"
"""The contracts have no name of their own."""

MAX_TOKEN_DECIMALS = 38

COLUMNS = (*TEXTS, "decimals", "reward_token", *VAULT_COLUMNS, *TERM_COLUMNS, *UNSURE_COLUMNS)

Answers = Mapping[ContractCall, CallResult]
Balances = Mapping[tuple[str, str], Balance]


@dataclass(slots=True)
class PeridotReading(ProtocolReading):
    """The reading, with the controllers, because their pauses end by themselves."""

    controllers: dict[str, layout.Controller] = field(default_factory=dict)

    def settle(self, close_time: int) -> None:
        """Say of markets and pools what is paused at the close time."""
        columns = self.columns
        self.markets = [
            replace(market, status=self.controllers[market.address].status_of(market.members, close_time))
            for market in self.markets
        ]
        statuses = {market.address: market.status for market in self.markets}
        columns["market_status"] = [statuses[str(market)] for market in columns["market"]]
        for key, shown in self.parameters.items():
            pauses = layout.shown_pauses(self.controllers[key[0]], key[1], close_time)
            names = {pause.name for pause in pauses}
            self.parameters[key] = (*(item for item in shown if item.name not in names), *pauses)


@dataclass(slots=True)
class _Found:
    """A market on the way: its controller, the vaults that somebody names, and those that were decoded."""

    controller: layout.Controller
    vaults: tuple[str, ...] = ()
    decoded: dict[str, layout.Vault] = field(default_factory=dict)


class _Reader(Collector):
    reading: PeridotReading

    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(NAME, candidates, COLUMNS)
        self.reading = PeridotReading(NAME, columns=self.reading.columns)
        self.deployments = deployments
        self.markets: dict[str, _Found] = {}
        self.listed: dict[str, dict[str, None]] = {}
        self.named = {(item.address, item.pool) for item in candidates if item.demanded and item.pool is not None}
        for deployment in deployments:
            for market in deployment.markets:
                self.listed.setdefault(market, {}).update(dict.fromkeys(deployment.addresses(VAULT)))
        for candidate in candidates:
            vaults = self.listed.setdefault(candidate.address, {})
            if candidate.pool is not None:
                vaults[candidate.pool] = None

    def take_market(self, market: str, entries: layout.Entries) -> None:
        """Decode a controller, or say why its market is not read."""
        instance = entries[instance_key(market)]
        (listed,) = layout.entry_keys(market, ("SupportedMarkets",))
        if not self.market_is_usable(market, instance, entries[listed], "list of vaults"):
            return
        archived = layout.archived_entry(market, layout.CONTROLLER_ENTRIES, entries)
        if archived is not None:
            self.unread(market, None, "archived", f"the controller's entry {archived} is archived; it can be restored")
            return
        with self.noting(market):
            controller = layout.decode_controller(market, entries)
            if controller.supported is None and not self.listed.get(market):
                raise DecodeError("controller: entry SupportedMarkets is missing, and no vault of it is known")
            self.check_code(market, controller.wasm_hash, self.deployments, layout.VERSION)
            if controller.supported is None:
                self.notice(f"market {market} has no list of its vaults; the known ones were read")
            if controller.age_multiplier != layout.USUAL_AGE_MULTIPLIER:
                self.notice(
                    f"market {market} takes prices of up to {controller.age_multiplier} times its oracle's resolution; "
                    f"the exporter refuses those older than {layout.USUAL_AGE_MULTIPLIER} times"
                )
            self.take_admin(market, "admin", entries.get(variant_key(market, queued.ADMIN)))
            queued.take(self, (market, None), market, queued.OF_CONTROLLER, entries)
            known = {*self.listed.get(market, ()), *(controller.supported or ())}
            self.markets[market] = _Found(controller, tuple(sorted(known)))

    def take_vaults(self, market: str, entries: layout.Entries) -> None:
        """Decode a market's vaults; one that cannot be read does not cost the others."""
        found = self.markets[market]
        kept = []
        for vault in found.vaults:
            supported = found.controller.supported is None or vault in found.controller.supported
            if entries[instance_key(vault)] is None:
                if supported or (market, vault) in self.named:
                    kept.append(vault)
                    self.unread(market, vault, "absent", "the ledger has no contract at this vault's address")
                else:
                    self.notice(f"the known vault {vault} does not exist, and market {market} does not list it")
                continue
            kept.append(vault)
            if not supported:
                self.notice(f"market {market} does not list the known vault {vault} (any more); it was read anyway")
            self.take_code(market, f"vault {vault}", entries[instance_key(vault)])
            self.take_admin(market, f"admin of vault {vault}", entries.get(variant_key(vault, queued.ADMIN)))
            queued.take(self, (market, vault), vault, queued.OF_VAULT, entries)
            queued.take(self, (market, vault), market, queued.OF_VAULT_AT_CONTROLLER, entries, vault)
            with self.noting(market, vault):
                archived = layout.archived_entry(vault, layout.NUMBERED_ENTRIES, entries)
                if archived is not None:
                    raise UnreadError("archived", f"the vault's entry {archived} is archived; it can be restored")
                decoded = layout.decode_vault(vault, entries)
                if decoded.controller not in (None, market):
                    raise UnreadError("inconsistent", f"the vault says that its controller is {decoded.controller}")
                found.decoded[vault] = decoded
        found.vaults = tuple(kept)

    def append_market(self, market: str, entries: layout.Entries, answers: Answers, balances: Balances) -> None:
        """Append a market and those of its vaults of which everything is known."""
        found = self.markets[market]
        models = {vault.model for vault in found.decoded.values() if vault.model is not None}
        controller = found.controller
        self.reading.controllers[market] = controller
        self.reading.markets.append(
            Market(
                address=market,
                protocol=NAME,
                version=layout.VERSION,
                name=MARKET_NAME,
                status="",  # set by `PeridotReading.settle`
                oracle=controller.oracle,
                config_hash=layout.config_hash(market, found.vaults, models, entries),
                wasm_hash=controller.wasm_hash,
                members=found.vaults,
            )
        )
        for vault, decoded in found.decoded.items():
            if decoded.model is not None:
                queued.take(self, (market, vault), decoded.model, queued.of_model(decoded.model), entries)
            with self.noting(market, vault):
                token = self.reading.tokens[decoded.token]
                balance = _contradicted(decoded, balances[decoded.token, vault])
                archived = _archived_elsewhere(market, vault, decoded, entries)
                if archived is None and balance.archived and decoded.numbers["total_borrowed"]:
                    archived = f"its balance of {decoded.token}"
                if archived is not None:
                    raise UnreadError("archived", f"{archived} is archived; it can be restored")
                if token.decimals is None:
                    raise DecodeError(f"its token gives no decimals: {token.failure}")
                if token.decimals > MAX_TOKEN_DECIMALS:
                    raise DecodeError(f"its token has {token.decimals} decimals, more than {MAX_TOKEN_DECIMALS}")
                curve = _curve(decoded, entries)
                cash = _cash(vault, decoded, balance, answers)
                supply = _receipt_supply(vault, decoded, answers)
                factor = decoded.numbers["collateral_factor"]
                if decoded.controller is not None:
                    factor = layout.decode_collateral_factor(entries[layout.collateral_factor_key(market, vault)])
                row = {"market": market, "pool": vault, "token_address": decoded.token, "oracle": controller.oracle}
                row |= {"market_name": MARKET_NAME, "market_status": "", "wasm_hash": controller.wasm_hash}
                numbers = {"decimals": token.decimals, "receipt_supply": supply, **cash}
                numbers["fixed_rate"] = -1 if decoded.fixed_rate is None else decoded.fixed_rate
                terms = _terms(vault, decoded, controller) | {"collateral_factor": factor}
                if balance.amount is None:
                    self.notice(
                        f"market {market}: what vault {vault} can pay out cannot be determined; {balance.failure}"
                    )
                speeds = (layout.decode_speed(entries[key]) for key in layout.speed_keys(market, vault))
                rewards: dict[str, object] = {
                    f"{side}_speed": speed for side, speed in zip(layout.SPEEDS, speeds, strict=True)
                }
                rewards["reward_token"] = controller.reward_token if any(rewards.values()) else None
                self.append({**row, **numbers, **curve, **decoded.numbers, **terms, **rewards})
                self.reading.parameters[market, vault] = layout.shown_parameters(
                    decoded, curve, factor, controller.incentive
                )

    async def read_prices(self, view: LedgerView, entries: layout.Entries) -> None:
        """Ask each market's oracle for the tokens' prices, by the symbols that its controller keeps for some."""
        assets: dict[tuple[str, str], ScVal] = {}
        columns = self.reading.columns
        for market, oracle, token in zip(columns["market"], columns["oracle"], columns["token_address"], strict=True):
            if oracle is None:
                continue
            name = None
            try:
                name = layout.decode_oracle_symbol(entries[layout.oracle_symbol_key(str(market), str(token))])
            except DecodeError as error:
                self.notice(f"market {market}, token {token}: {error}; its price is asked for by its address")
            assets[str(oracle), str(token)] = by_address(str(token)) if name is None else by_symbol(name)
        self.reading.quotes = await read_asset_quotes(view, assets)


def available_call(vault: str) -> ContractCall:
    """The view that says what a boosted vault could pay out: its cash less reserves and admin fees, at least 0."""
    return ContractCall(vault, "get_available_liquidity")


def _questions(vault: str, decoded: layout.Vault) -> list[ContractCall]:
    """The calls for what a vault's entries do not show."""
    calls = [] if decoded.cash_is_stored else [available_call(vault)]
    if decoded.receipt_supply is None:
        calls.append(ContractCall(vault, "get_total_ptokens"))
    return calls


def _archived_elsewhere(market: str, vault: str, decoded: layout.Vault, entries: layout.Entries) -> str | None:
    """The archived entry that a vault's numbers need in addition to its own; None where none is archived."""
    archived = None if decoded.model is None else layout.archived_entry(decoded.model, layout.CURVE.values(), entries)
    if archived is not None:
        return f"entry {archived} of its rate model {decoded.model}"
    factor = entries.get(layout.collateral_factor_key(market, vault))
    return "the controller's entry MarketCF of it" if factor is not None and factor.archived else None


def _answer(call: ContractCall, answers: Answers) -> int:
    """The number that a call gave. Raises `DecodeError` where it failed."""
    result = answers[call]
    if result.value is None:
        raise DecodeError(f"{call.function}() failed: {result.reason}")
    return layout.decode_amount(result.value, f"{call.function}()")


def _contradicted(decoded: layout.Vault, balance: Balance) -> Balance:
    """The balance, if the vault's own book does not say that it must be more than nothing."""
    if decoded.implied_cash and not balance.stored:
        failure = f"it has no balance of its token, although it counts {decoded.implied_cash} as its own"
        return Balance(None, failure, stored=False)
    return balance


def _cash(vault: str, decoded: layout.Vault, balance: Balance, answers: Answers) -> dict[str, int | None]:
    """The columns of a vault's cash: what it counts as its own, what it gives its rate model, what it could pay out.

    Raises `DecodeError` where a call failed.
    """
    if not decoded.counts_cash:
        raise DecodeError(
            "vault: entries ManagedCash and RatesReady are missing: it has the form of before 2026, in which suppliers "
            "earn in another way"
        )
    borrowed, factors = (
        decoded.numbers["total_borrowed"],
        decoded.numbers["reserve_factor"] + decoded.numbers["admin_fee"],
    )
    if borrowed and factors > layout.SCALE and decoded.rule is not layout.BoostRule.QUOTED:
        raise DecodeError("its reserve factor and admin fee are together above 1: the contract refuses to accrue")
    aside = decoded.numbers["total_reserves"] + decoded.numbers["total_admin_fees"]
    managed = decoded.implied_cash
    net_cash = managed - aside if decoded.cash_is_stored else _cash_by_views(vault, borrowed, answers)
    quoted = 0
    if decoded.boosted is not None:
        quoted = net_cash + aside - managed
        if quoted < 0:
            raise DecodeError(f"what it can pay out is less than the {managed} that it keeps itself")
    if borrowed and balance.amount is None:
        raise DecodeError(balance.failure)
    return {
        "net_cash": net_cash,
        "managed_cash": managed,
        "live_cash": balance.amount or 0,
        "boost_quoted": quoted,
        "boost_rule": int(decoded.rule),
        "payable": None if balance.amount is None else balance.amount + quoted,
    }


def _terms(vault: str, decoded: layout.Vault, controller: layout.Controller) -> dict[str, int | None]:
    """The columns of what can be done with a vault, and at what risk."""
    governed = decoded.controller is not None
    return {
        **{
            f"{what}_paused_until": controller.paused_until(what, vault) if governed else layout.NOT_PAUSED
            for what in layout.PAUSES
        },
        "governed": int(governed),
        "listed": None if controller.supported is None else int(vault in controller.supported),
        "rates_ready": int(decoded.rates_ready),
        "borrow_principal": decoded.borrow_principal,
        "incentive": controller.incentive,
    }


def _cash_by_views(vault: str, borrowed: int, answers: Answers) -> int:
    """Cash less reserves and admin fees, as the vault's views have it."""
    available = _answer(available_call(vault), answers)
    if available > 0:
        return available
    owned = _answer(ContractCall(vault, "get_total_underlying"), answers)  # with nothing available it can be less
    if owned == 0 and borrowed:
        raise DecodeError("the vault owes its suppliers nothing although it lends: what it lacks is not known")
    return owned - borrowed


def _receipt_supply(vault: str, decoded: layout.Vault, answers: Answers) -> int:
    if decoded.receipt_supply is not None:
        return decoded.receipt_supply
    return _answer(ContractCall(vault, "get_total_ptokens"), answers)


def _curve(decoded: layout.Vault, entries: layout.Entries) -> dict[str, int]:
    if decoded.model is not None:
        return layout.decode_model(decoded.model, entries)
    if decoded.fixed_rate is None:
        raise DecodeError("vault: entries InterestModel and BorrowYearlyRateScaled are missing")
    return layout.fixed_curve(decoded.fixed_rate)


def _reward_tokens(reader: _Reader, entries: layout.Entries) -> Iterator[str]:
    """The rewards of the controllers that pay any."""
    for market, found in reader.markets.items():
        keys = [key for vault in found.vaults for key in layout.speed_keys(market, vault)]
        if found.controller.reward_token is not None and any(layout.decode_speed(entries[key]) for key in keys):
            yield found.controller.reward_token


def _vaults_keys(vaults: Iterable[tuple[str, str]]) -> list[bytes]:
    """The ledger keys of vaults, given with their markets."""
    return [
        key
        for market, vault in sorted(vaults)
        for key in (
            *layout.vault_keys(vault),
            layout.collateral_factor_key(market, vault),
            *layout.speed_keys(market, vault),
            variant_key(vault, queued.ADMIN),
            *queued.keys(vault, queued.OF_VAULT),
            *queued.keys(market, queued.OF_VAULT_AT_CONTROLLER, vault),
        )
    ]


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read all Peridot markets: controllers with the known vaults, further listed vaults, models with tokens, calls.

    Raises `SourceError` when the source fails; anything wrong with one market or vault is in the reading.
    """
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    guessed = {(market, vault) for market in markets for vault in reader.listed.get(market, ())}
    keys: list[bytes] = []
    for market in markets:
        keys += [*layout.controller_keys(market), variant_key(market, queued.ADMIN)]
        keys += queued.keys(market, queued.OF_CONTROLLER)
    entries = dict(await view.read([*keys, *_vaults_keys(guessed)]))
    for market in markets:
        reader.take_market(market, entries)
    more = {(market, vault) for market, found in reader.markets.items() for vault in found.vaults} - guessed
    entries |= await view.read(_vaults_keys(more))
    for market in reader.markets:
        reader.take_vaults(market, entries)

    pools = [(market, *item) for market, found in reader.markets.items() for item in found.decoded.items()]
    tokens = list(dict.fromkeys((*(vault.token for _, _, vault in pools), *_reward_tokens(reader, entries))))
    models = list(dict.fromkeys(vault.model for _, _, vault in pools if vault.model is not None))
    keys = [key for model in models for key in layout.entry_keys(model, layout.CURVE.values())]
    keys += [key for model in models for key in queued.keys(model, queued.of_model(model))]
    keys += oracle_keys(found.controller.oracle for found in reader.markets.values())
    keys += [layout.oracle_symbol_key(market, decoded.token) for market, _, decoded in pools]
    keys += [balance_key(decoded.token, vault) for _, vault, decoded in pools]
    entries |= await view.read([*keys, *(instance_key(token) for token in tokens)])
    reader.reading.tokens = await read_tokens(view, tokens)

    balances = await read_balances(view, [(decoded.token, vault) for _, vault, decoded in pools])

    calls = list(dict.fromkeys(call for _, vault, decoded in pools for call in _questions(vault, decoded)))
    answers = dict(zip(calls, await view.call(calls), strict=True))
    # Where nothing is available, that does not show what suppliers own, so one more wave asks for it.
    empty = [
        ContractCall(call.contract, "get_total_underlying")
        for call, result in answers.items()
        if call == available_call(call.contract) and result.value == (scval.U128, 0)
    ]
    answers |= dict(zip(empty, await view.call(empty), strict=True))
    for market in reader.markets:
        reader.append_market(market, entries, answers, balances)
    await reader.read_prices(view, entries)
    return reader.reading
