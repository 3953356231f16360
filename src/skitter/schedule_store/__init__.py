"""Stores of schedules: a SQLite file or a Redis, next to the jobs."""
