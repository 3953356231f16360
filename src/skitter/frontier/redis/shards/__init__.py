"""A job in shards: several little frontiers that are one. docs/adr/0018-shards.md has the reasons."""
