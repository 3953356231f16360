"""Where schedules are kept: next to the jobs, in a SQLite file or in a Redis."""
