"""Answers from entries: tokens, what has no rule, and what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from random import Random

import pytest

from exporter.deployments import deployments_of
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.contract_storage import StorageAnswers
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.storage_rules.host import (
    BUDGET,
    MAX_KEYS,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
)
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.protocols import storage_answers
from tests.ledger.storage_rules.stored import LEDGER, NOW, UNKNOWN_CODE, Stored, by_name, stellar
from tests.ledger.storage_rules.test_reflector import TOKEN as TOKEN_OF_K2
from tests.protocols.made_ledger import account, contract
from tests.protocols.test_k2_oracle_rule import BTC, FRESH, K2, PLAIN, with_adapter
from tests.recorded_entries import recorded_instance

TOKEN = contract("a token")
HOLDER = contract("a holder")


def token(wasm_hash: bytes | None = UNKNOWN_CODE) -> Stored:
    stored = Stored()
    metadata = {"decimal": u32(7), "name": string("A Token"), "symbol": string("TOK")}
    stored.deploy(TOKEN, by_name(METADATA=struct_map(metadata)), wasm_hash)
    return stored


def test_a_token_says_what_it_is() -> None:
    """Symbol, decimals and name are in the token's instance, a balance of a Stellar asset is an entry, or 0."""
    stored = token(wasm_hash=None)
    said = [stored.value(TOKEN, function) for function in ("symbol", "decimals", "name")]
    assert (
        [string("TOK"), u32(7), string("A Token")]
        == said
        == [token().value(TOKEN, function) for function in ("symbol", "decimals", "name")]
    )
    assert i128(0) == stored.value(TOKEN, "balance", address(HOLDER))
    balance = {"amount": i128(5), "authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
    stored.put(TOKEN, vec(symbol("Balance"), address(HOLDER)), struct_map(balance))

    assert i128(5) == stored.value(TOKEN, "balance", address(HOLDER))


def test_what_has_no_rule_says_so() -> None:
    """Unknown code, a function without a rule, a missing contract, and balances that are kept elsewhere are named."""
    stored = token()
    stored.deploy(HOLDER, by_name(Price=u32(1)))
    for error, words in (
        (stored.error(HOLDER, "lastprice"), f"no rule for {HOLDER}, which runs code 0001020304050607"),
        (stored.error(TOKEN, "mint", i128(1)), "no rule for mint() with 1 arguments"),
        (stored.error(contract("nowhere"), "decimals"), f"the instance of {contract('nowhere')} is not held"),
    ):
        assert f"not from storage: {words}" == error
    assert token(None).error(TOKEN, "balance", address(account("someone"))).startswith("not from storage: ")
    assert token().error(TOKEN, "balance", address(HOLDER)).startswith("not from storage: ")


class Calling:
    """A rule of contracts that call another one: themselves, or one that calls a further one."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self.others = others

    def recognises(self, host: StorageHost, contract: Contract) -> bool:
        return True

    def answer(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        return self._call(host, self.others[contract.address], call[0])

    def _call(self, host: StorageHost, other: str, function: str) -> ScVal:
        return host.call(other, function)


def test_contracts_that_call_without_end_fail() -> None:
    """The host lets no contract be entered again, and a chain of calls that is too long costs that call alone."""
    chain = [contract(f"{number}") for number in range(390)]
    stored = token()
    for each in chain:
        stored.deploy(each)
    rule = Calling({TOKEN: TOKEN, **dict(pairwise(chain))})
    errors = [
        StorageAnswers(stored.entries.get, LEDGER, NOW, [rule]).answer(ContractCall(each, "lastprice")).error or ""
        for each in (TOKEN, chain[0])
    ]

    assert "HostError: Error(Context, InvalidAction)" == errors[0]
    assert errors[1].startswith("not from storage: the rule failed: RecursionError")


class Trapping(Calling):
    """A rule of contracts that fail with an error of their own."""

    def answer(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        raise TrapError(self.others[contract.address])


def test_a_caller_goes_on_after_a_failure_within_its_budget() -> None:
    """A caller can handle another contract's failure, except for a budget that is used up."""
    errors = {TOKEN: "Error(Contract, #1)", HOLDER: BUDGET}
    stored = token()
    stored.deploy(HOLDER)
    host = StorageHost(stored.entries.get, NOW, [Trapping(errors)])

    assert host.try_call(TOKEN, "lastprice") is None
    with pytest.raises(TrapError, match="Budget"):
        host.try_call(HOLDER, "lastprice")


def test_a_call_looks_at_as_many_entries_as_a_transaction_may() -> None:
    """One more is not looked at."""
    host = StorageHost(lambda _: None, NOW, [])
    for number in range(MAX_KEYS):
        host.entry(b"%d" % number)

    with pytest.raises(NotFromStorageError, match="more than 400 entries"):
        host.entry(b"one more")


def test_every_mainnet_token_answers_from_its_instance(mainnet_snapshot: LedgerSnapshot) -> None:
    """Every token of the mainnet snapshot file answers from its instance; its other contracts have no rule."""
    answers = storage_answers(mainnet_snapshot.entries.get, mainnet_snapshot.ledger, NOW)
    symbols, without = {}, 0
    for strkey, _ in mainnet_snapshot.contract_instances():
        answer = answers.answer(ContractCall(strkey, "symbol"))
        if answer.result is None:
            without += (answer.error or "").startswith("not from storage: ")
        else:
            symbols[strkey[:6]] = decode_scval(answer.result)[1]

    assert {"CAS3FL": b"CPAL", "CAS3J7": b"native", "CCW67T": b"USDC", "CD25MN": b"BLND"} == symbols
    assert 3 == without


JUNK = (VOID, u64(2**64 - 1), i128(-(2**127)), (scval.U256, 2**256 - 1), vec(), (scval.VEC, None), (scval.MAP, None))


def scrambled(stored: dict[bytes, RawEntry], key: bytes, random: Random) -> RawEntry:
    """An entry with something else in one place of its value, or of an instance's storage."""
    entry = decode_contract_data(stored[key].data)
    junk = random.choice(JUNK)
    value = _scrambled(entry.value, junk, random)
    return RawEntry(encode_contract_data(entry._replace(value=value)), LEDGER, None)


def _scrambled(value: ScVal, junk: ScVal, random: Random) -> ScVal:
    kind, payload = value
    if kind == scval.CONTRACT_INSTANCE:
        pairs = list(payload.storage)
        place = random.randrange(len(pairs))
        pairs[place] = pairs[place][0], _scrambled(pairs[place][1], junk, random)
        return kind, payload._replace(storage=tuple(pairs))
    if kind in (scval.VEC, scval.MAP) and payload and random.random() < 0.7:
        place = random.randrange(len(payload))
        old = payload[place]
        changed = _scrambled(old, junk, random) if kind == scval.VEC else (old[0], _scrambled(old[1], junk, random))
        return kind, (*payload[:place], changed, *payload[place + 1 :])
    return junk


def test_damaged_entries_cost_a_call_at_most() -> None:
    """Whatever is in the place of what a call looks at, there is an answer or an error, and no rule breaks."""
    network = RecordedNetwork()
    ledger = network.chain.latest
    now, state = network.chain.close_time(ledger), network.chain.state(ledger)
    tokens = network.prices.tokens[:6]
    lists = {item.protocol: item for item in deployments_of(NETWORK)}
    aggregator = lists["xoxno"].address("price_aggregator") or ""
    priced = dict(recorded_instance("OracleKeys").storage or ())[vec(symbol("OracleKeys"))]
    by_token = [vec(symbol("Stellar"), address(token)) for token in tokens]
    calls = [
        *(ContractCall(ORACLE, "lastprice", (asset,)) for asset in by_token),
        *(ContractCall(ORACLE, "prices", (asset, u32(3))) for asset in by_token),
        ContractCall(aggregator, "quotes", (priced,)),
        ContractCall(aggregator, "prices", (priced,)),
        *(ContractCall(token, "symbol") for token in tokens[:3]),
    ]
    k2 = [ContractCall(K2, PLAIN, (vec(BTC, stellar(TOKEN_OF_K2)),)), ContractCall(K2, FRESH, (vec(BTC),))]
    cases = [*((state, now, call) for call in calls), *((with_adapter().entries, NOW, call) for call in k2)]
    random, failed = Random(1), Counter[str]()
    for state, now, call in cases:
        looked_at = storage_answers(state.get, ledger, now).answer(call).footprint
        held = [key for key in looked_at if key in state and key[:4] == b"\0\0\0\6"]
        for _ in range(60):
            key = random.choice(held)
            damaged = state | {key: scrambled(state, key, random)}
            answer = storage_answers(damaged.get, ledger, now).answer(call)
            assert (answer.result is None) != (answer.error is None)
            failed[(answer.error or "answered").split(":")[0]] += 1
            assert "the rule failed" not in (answer.error or "")

    assert {"answered", "not from storage", "HostError"} == set(failed)
