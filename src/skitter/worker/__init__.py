"""The worker: leases, fetches, parses, commits and delivers. It knows contracts, never a backend."""
