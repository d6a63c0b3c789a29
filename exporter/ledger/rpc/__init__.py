"""Stellar RPC: its requests and answers, several endpoints with limits and retries, and no secret in a message."""
