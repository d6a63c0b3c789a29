"""The market of the archive as it was: our reading and projection against the deployed contracts' own answers."""

from __future__ import annotations

import random

import pytest

from exporter.ledger.codec.entries import decode_contract_data, instance_key
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.blend.layout import decode_instance, reserve_config_key, reserve_data_key
from tests.host.blend_judge import Sample, compare
from tests.host.blend_world import POOL
from tests.host.machine import Machine
from tests.past.archive.archive_snapshot import CheckpointState

HOUR = 3_600


def entry_of(state: CheckpointState, key: bytes) -> Entry:
    return Entry(key, state.entries[key])


@pytest.fixture
def assets(untouched: Machine) -> list[str]:
    return [item[1] for item in untouched.call(POOL, "get_reserve_list").given()[1]]


@pytest.mark.parametrize("seconds", [0, 1, 5, HOUR, 24 * HOUR, 90 * 24 * HOUR])
def test_reserves_are_what_the_contract_says_later_on(
    untouched: Machine, archive_state: CheckpointState, assets: list[str], seconds: int
) -> None:
    """Every field of ``get_reserve`` equals our projection of the stored entries, at once and months later."""
    later = untouched.info.after(seconds)
    untouched.at(later)
    rate = decode_instance(entry_of(archive_state, instance_key(POOL))).backstop_rate
    samples = []
    for asset in assets:
        config, data = (archive_state.entries[key(POOL, asset)] for key in (reserve_config_key, reserve_data_key))
        answer = untouched.call(POOL, "get_reserve", address(asset)).given()
        samples.append(
            Sample(f"{asset} after {seconds} s", POOL, asset, later.close_time, config, data, rate, answer, None)
        )
    differences = compare(samples)

    assert [] == differences
    assert 4 == len(samples)


def test_made_up_reserves_have_a_result_exactly_where_the_contract_gives_one(
    untouched: Machine, archive_state: CheckpointState, assets: list[str], states: int
) -> None:
    """Any numbers in the entries, up to those for which the contract overflows."""
    chance = random.Random(12)
    config, data = (archive_state.entries[key(POOL, assets[0])] for key in (reserve_config_key, reserve_data_key))
    info = untouched.info
    samples = [made_up(untouched, chance, assets[0], config, data) for _ in range(states)]
    untouched.at(info)
    differences = compare(samples)
    refused = sum(sample.answer is None for sample in samples)

    assert [] == differences[:10], chr(10).join(map(str, differences[:10]))
    assert 0 < refused < len(samples) / 2


def made_up(machine: Machine, chance: random.Random, asset: str, config: RawEntry, data: RawEntry) -> Sample:
    """A reserve with entries of our own, and what the deployed code computes from it."""
    most = chance.choice([10**12, 10**20, 10**30, 2**127 - 1])
    supply = chance.choice([0, 1, chance.randint(0, most), chance.randint(most // 2, most)])
    rates = sorted(chance.choice([0, chance.randint(0, 10**8), 2**31 - 10**8]) for _ in range(3))
    seconds = chance.choice([0, 1, chance.randint(0, 10**5), chance.randint(0, 10**9)])
    scale = chance.choice([10**12, 10**12, chance.randint(1, 10**13), chance.randint(1, 10**20), 0])
    values = {
        "b_rate": scale,
        "d_rate": chance.choice([10**12, chance.randint(10**12, 10**13), chance.randint(1, 10**20), scale]),
        "ir_mod": chance.choice([10**6, 10**7, 10**8, chance.randint(10**6, 10**8)]),
        "b_supply": supply,
        "d_supply": chance.choice(
            [
                0,
                1,
                supply,
                chance.randint(0, supply),
                int(supply * chance.choice([0.92, 0.94, 0.97])),
                min(supply * 2, 2**127 - 1),
            ]
        ),
        "backstop_credit": chance.choice([0, chance.randint(0, 10**12), chance.choice([0, 2**127 - 1])]),
        "last_time": machine.info.close_time,
    }
    settings = {
        "util": chance.choice([0, 1, 5_000_000, 9_000_000, chance.randint(0, 9_000_000)]),
        "r_base": chance.choice([0, 1_000, 9_999_999]),
        "r_one": rates[0],
        "r_two": rates[1],
        "r_three": rates[2],
        "reactivity": chance.choice([0, 1, 50, 1_000]),
        "decimals": chance.choice([0, 6, 7, 18]),
    }
    stored = changed(config, settings), changed(data, values)
    machine.put({reserve_config_key(POOL, asset): stored[0], reserve_data_key(POOL, asset): stored[1]})
    before = machine.info
    later = before.after(seconds, 1)
    machine.at(later)
    outcome = machine.call(POOL, "get_reserve", address(asset))
    machine.at(before)
    where = f"{settings} {values} after {seconds} s"
    return Sample(where, POOL, asset, later.close_time, *stored, 1_000_000, outcome.result, outcome.error)


def changed(entry: RawEntry, values: dict[str, int]) -> RawEntry:
    """The entry of a struct with some of its numbers changed."""
    from exporter.ledger.codec.entries import encode_contract_data

    data = decode_contract_data(entry.data)
    pairs = tuple((key, (old[0], values[key[1]]) if key[1] in values else old) for key, old in data.value[1])
    return RawEntry(
        encode_contract_data(data._replace(value=(data.value[0], pairs))), entry.last_modified, entry.live_until
    )


def test_rates_whose_sum_needs_more_than_32_bits_have_no_result(
    untouched: Machine, archive_state: CheckpointState, assets: list[str]
) -> None:
    """Above 95% utilization the contract fails when r_base + r_one + r_two is 2^32 or more (interest.rs, calc_accrual).

    An administrator may set such rates (429 times a year and more); then the pool cannot use that reserve any more.
    """
    keys = reserve_config_key(POOL, assets[0]), reserve_data_key(POOL, assets[0])
    config = changed(archive_state.entries[keys[0]], {"r_two": 2**32 - 1, "r_three": 2**32 - 1})
    data = changed(archive_state.entries[keys[1]], {"b_supply": 10**9, "d_supply": 10**9 - 1})
    untouched.put(dict(zip(keys, (config, data), strict=True)))
    outcome = untouched.call(POOL, "get_reserve", address(assets[0]))
    sample = Sample("", POOL, assets[0], untouched.info.close_time, config, data, 10**6, outcome.result, outcome.error)

    assert "Error(WasmVm, InvalidAction)" == outcome.error
    assert [] == compare([sample])
