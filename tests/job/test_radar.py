"""What moves money without moving a number: who decides, which code runs, who gives the prices, run after run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pytest

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, instance_key
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores.memory import MemoryStore
from exporter.tree.documents import ChangeList, RunChange
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only, without_oracle
from tests.protocols.made_ledger import UNKNOWN_CODE, account

Written = Mapping[bytes, bytes | None]
Scenario = Callable[[RecordedNetwork], Written]

SOMEBODY = account("somebody")
MARKET = dict(LISTED)


def instance_with(market: str, storage: Mapping[str, ScVal] = {}, code: bytes | None = None) -> Scenario:
    """The market's instance with these values under its own keys, or new symbols, and with other code."""

    def written(network: RecordedNetwork) -> Written:
        key = instance_key(market)
        data = decode_contract_data(network.look(key) or b"")
        held: ContractInstance = data.value[1]
        pairs = [
            (name, storage.get(next(iter(named([(name, value)])), ""), value)) for name, value in held.storage or ()
        ]
        variants = held.storage is not None and held.storage[0][0][0] == scval.VEC
        missing = storage.keys() - named(held.storage).keys()
        pairs += [(vec(symbol(name)) if variants else symbol(name), storage[name]) for name in sorted(missing)]
        changed = ContractInstance(held.executable, code or held.wasm_hash, None, tuple(pairs))
        return {key: encode_contract_data(data._replace(value=(scval.CONTRACT_INSTANCE, changed)))}

    return written


def changes_of(protocol: str, scenario: Scenario) -> list[RunChange]:
    """What the second of two runs says that changed, where a ledger with this closed in between."""
    network, store = RecordedNetwork(), MemoryStore()
    with running(create_app(network)) as url:
        settings = settings_for(None, url, **only(protocol))
        run(settings, store)
        network.close(scenario(network))
        run(settings, store)
    stored = store.get("v1/changes.json")
    assert stored is not None
    return msgspec.json.decode(stored.data, type=ChangeList).data


@pytest.mark.parametrize(
    ("protocol", "name", "role"),
    [
        ("blend", "Admin", "admin"),
        ("alula", "Admin", "admin"),
        ("k2", "PADMIN", "pool admin"),
        ("k2", "EADMIN", "emergency admin"),
        ("k2", "ADMIN", "admin of upgrades"),
        ("xoxno", "Owner", "owner"),
        ("slender", "Admin", "admin"),
    ],
)
def test_another_admin_is_a_change(protocol: str, name: str, role: str) -> None:
    """Whoever decides over a market is named before and after, with the role."""
    found = changes_of(protocol, instance_with(MARKET[protocol], {name: address(SOMEBODY)}))
    [change] = [item for item in found if item.kind == "admin"]

    assert (MARKET[protocol], None, SOMEBODY) == (change.market, change.pool, change.after)
    assert change.title.endswith(f": the {role} changed")
    assert change.before not in (None, SOMEBODY)


def test_an_admin_of_another_form_is_not_compared() -> None:
    """A value that is no address costs the note of it, not the market, and is not reported as a change."""
    found = changes_of("xoxno", instance_with(MARKET["xoxno"], {"Owner": (scval.U32, 7)}))

    assert [] == found


def test_other_code_is_a_change() -> None:
    """The hash of the code that a market runs is named before and after."""
    found = changes_of("k2", instance_with(MARKET["k2"], code=UNKNOWN_CODE))

    assert [("code", UNKNOWN_CODE.hex())] == [(item.kind, item.after) for item in found]


def test_another_oracle_is_a_change() -> None:
    """The oracle that a market asks is named before and after; that its configuration changed is listed, too."""
    found = changes_of("blend", lambda network: without_oracle(network, BLEND_V2))
    changes = {item.kind: item for item in found}

    assert {"configuration", "oracle", "price", "status"} == changes.keys()  # without a price some gates close
    assert (ORACLE, strkey.encode_contract(bytes(32))) == (changes["oracle"].before, changes["oracle"].after)
