"""Telling people of an alert: a webhook or a command, tried again until it works, and never in the crawl's way."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from skitter.alert_rules import AlertRule
from skitter.observe import events
from skitter.observe.event_record import utc_time
from skitter.policy.alerts import AlertState

ANSWER_SECONDS = 10.0
COMMAND_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
TRIES = 20
"""About a quarter of an hour; what is newer is told nevertheless."""


class DeliveryError(Exception):
    """Nobody was told, and why."""


def alert_message(rule: AlertRule, state: AlertState, job: str, run: int) -> dict[str, Any]:
    """Return the object that webhooks and commands get."""
    assert state.change is not None, "only changes are told"
    side = "above" if rule.above is not None else "below"
    return {
        "alert": rule.name,
        "status": state.change.value,
        "job": job,
        "run": run,
        "figure": rule.figure,
        "value": state.value,
        side: rule.threshold,
        "at": utc_time(state.changed_at),
        "pause": rule.pause,
        "node": socket.gethostname(),
        "text": f"{job}: {rule.name} is {state.change}: {rule.figure} is {state.value:g} ({side} {rule.threshold:g})",
    }


async def deliver(rule: AlertRule, message: dict[str, Any], on_event: Callable[[events.Event], None]) -> bool:
    """Tell all that a rule names, at the same time; whether each was told. Failures are events."""
    ways = [("webhook", _post)] if rule.webhook else []
    ways += [("command", _run)] if rule.command else []
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_until_sent(rule, place, partial(way, rule, message), on_event)) for place, way in ways
        ]
    return all(task.result() for task in tasks)


async def _until_sent(
    rule: AlertRule, place: str, send: Callable[[], Awaitable[None]], on_event: Callable[[events.Event], None]
) -> bool:
    pause, told = FIRST_PAUSE_SECONDS, ""
    for tries in range(1, TRIES + 1):
        try:
            await send()
        except DeliveryError as error:
            if str(error) != told or tries == TRIES:
                told = str(error)
                on_event(events.ALERT_NOT_TOLD(alert=rule.name, place=place, reason=told, tries=tries))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        else:
            return True
    return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected would become a GET, which tells nobody anything."""

    def redirect_request(self, *_: Any) -> None:
        return None


async def _post(rule: AlertRule, message: dict[str, Any]) -> None:
    url, headers = _without_user(rule.webhook)
    headers |= {"Content-Type": "application/json", "User-Agent": "skitter"}

    def send() -> None:
        request = urllib.request.Request(url, msgspec.json.encode(message), headers)  # noqa: S310  http or https
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=ANSWER_SECONDS):
            pass

    try:
        # A deadline of its own: that of urllib is for each read.
        async with asyncio.timeout(2 * ANSWER_SECONDS):
            await asyncio.to_thread(send)
    except TimeoutError as error:
        raise DeliveryError("no answer in time") from error
    except urllib.error.HTTPError as error:
        error.close()
        raise DeliveryError(f"HTTP {error.code}") from error
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DeliveryError(f"{type(error).__name__}: {reason}") from error
    except (HTTPException, ValueError) as error:
        # Not its text, which may quote the URL and a token in it.
        raise DeliveryError(f"{type(error).__name__}: not a URL or not an answer of HTTP") from error


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """A URL as it is called, and the header with its user and password, if it has any."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}


async def _run(rule: AlertRule, message: dict[str, Any]) -> None:
    environment = os.environ | {"SKITTER_ALERT": rule.name, "SKITTER_ALERT_STATUS": message["status"]}
    try:
        process = await asyncio.create_subprocess_exec(
            *rule.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise DeliveryError(f"cannot be run: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            _, complaint = await process.communicate(msgspec.json.encode(message) + b"\n")
    except TimeoutError as error:
        raise DeliveryError(f"not finished within {COMMAND_SECONDS:g} s") from error
    finally:
        # Waited for also when this is cancelled: it would be left as a zombie, with open pipes.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        raise DeliveryError(": ".join([f"exit code {process.returncode}", *last]))
