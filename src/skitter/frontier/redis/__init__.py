"""The Redis frontier: one job shared by workers on many machines. The rules are Lua, and run in the server."""

from skitter.frontier.redis.jobs import drop_job, list_jobs
from skitter.frontier.redis.lazy_frontier import redis_frontier

__all__ = ["drop_job", "list_jobs", "redis_frontier"]
