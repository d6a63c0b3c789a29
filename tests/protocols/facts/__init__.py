"""Facts of protocols for tests: a module a protocol with one `tests.protocols.protocol_facts.ProtocolFacts`."""
