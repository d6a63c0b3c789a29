"""Blend's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, changed, is_variant
from exporter.protocols.blend import layout, math


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    config = step.before(key.replace(encode_scval(symbol("ResData")), encode_scval(symbol("ResConfig")), 1))
    instance_entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    if config is None or instance_entry is None:
        was, is_now = (Fields.of(entry.value, "ResData").u64("last_time") for entry in changed(key, step))
        if was < is_now == step.time:
            raise UntriedError
        return
    instance = layout.decode_instance(instance_entry)
    old, new = (layout.decode_reserve(config, entry) for entry in changed(key, step))
    if not old["last_time"] < new["last_time"] == step.time or not old["b_supply"] or not old["d_supply"]:
        return
    own = {"bstop_rate": instance.backstop_rate, "generation": instance.generation, "close_time": step.time}
    yield Transition(old | own, {name: new[name] for name in math.ACCRUING})


RULE = AccrualRule(is_variant("ResData"), _read, lambda before: math.accrue(before, math.rates_of(before)))
