"""Stores of several shards: each call goes to the shard that has its project."""
