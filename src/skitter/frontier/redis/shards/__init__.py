"""The frontier of a job in shards: several frontiers that act as one. docs/adr/0018-shards.md has the reasons."""
