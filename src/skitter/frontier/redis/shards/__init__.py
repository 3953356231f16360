"""The frontier of a job in shards: several frontiers that act as one. docs/adr/0015-redis-layout.md has the reasons."""
