"""The Redis frontier: one job shared by workers on many machines. The rules are Lua, and run in the server."""

from skitter.errors import ExtraMissingError

try:
    import hiredis as _hiredis  # noqa: F401
    import redis as _redis  # noqa: F401
except ImportError as error:
    raise ExtraMissingError("a frontier in Redis", "redis") from error

from skitter.frontier.redis.jobs import drop_job, list_jobs
from skitter.frontier.redis.lazy_frontier import redis_frontier

__all__ = ["drop_job", "list_jobs", "redis_frontier"]
