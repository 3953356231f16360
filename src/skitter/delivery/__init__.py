"""From the outbox of a job to its sinks: runner, failover, delivery without a crawl, archive, preview, export."""
