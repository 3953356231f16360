"""From the outbox of a job to its sinks: runner, failover, drain, archive, preview, export."""
