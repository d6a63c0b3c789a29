"""The protocols the exporter knows: one line each."""

from __future__ import annotations

from exporter.protocols.alula import Alula
from exporter.protocols.base import ProtocolModule
from exporter.protocols.blend import Blend
from exporter.protocols.k2 import K2
from exporter.protocols.peridot import Peridot
from exporter.protocols.slender import Slender
from exporter.protocols.xoxno import Xoxno

PROTOCOLS: dict[str, ProtocolModule] = {
    module.name: module for module in (Alula(), Blend(), K2(), Peridot(), Slender(), Xoxno())
}
