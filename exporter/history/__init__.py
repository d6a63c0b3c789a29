"""The history: one Parquet file a run, the manifest that names them, and the buckets made from them."""
