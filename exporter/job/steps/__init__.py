"""The steps of a run, in their order: read, gather, publish, and those after publishing. They share a `Job`."""
