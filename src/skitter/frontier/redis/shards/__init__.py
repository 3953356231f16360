"""A job in shards: several little frontiers that are one. docs/adr/0016-shards.md has the reasons."""
