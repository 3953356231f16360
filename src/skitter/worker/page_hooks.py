"""The hooks of one worker: which there are, how each is called, and what it decided.

A hook that raises, takes too long or returns what it may not becomes a ``HookFailure``, which costs its page.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from skitter.concurrency import wait_within
from skitter.errors import SpiderError
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.observe.events import Event
from skitter.spiders.base import Spider
from skitter.spiders.failure import Failure
from skitter.spiders.hook_loading import make_hooks
from skitter.spiders.hooks import Answer, Ban, CloseSummary, Drop, JobInfo, Retry, has_hook
from skitter.spiders.stats import Stats
from skitter.worker.callbacks import Callbacks, is_of_the_callback


class Hook(msgspec.Struct, frozen=True):
    """One hook of one object."""

    name: str
    """``Class.on_request``."""
    call: Callable[..., Any]


class HookFailure(msgspec.Struct, frozen=True):
    """A hook failed: its page has failed."""

    text: str


Decision = Retry | Ban | Drop | HookFailure


class WorkerHooks:
    """All hooks of a worker, ordered; an empty tuple for those that nobody wrote."""

    def __init__(self, objects: Sequence[Any], stats: Stats, seconds: float) -> None:
        self.stats = stats
        self._seconds = seconds
        self._objects = list(objects)
        self.on_start = self._named("on_start")
        self.on_close = self._named("on_close")
        self.on_request = self._named("on_request")
        self.on_headers = self._named("on_headers")
        self.on_browser_page = self._named("on_browser_page")
        self.on_response = self._named("on_response")
        self.on_error = self._named("on_error")
        self.on_item = self._named("on_item")
        self.on_event = self._named("on_event")
        self._describe: Callable[[BaseException], str] = repr

    def use_callbacks(self, callbacks: Callbacks) -> None:
        """Describe failures as those of callbacks are: without secrets."""
        self._describe = callbacks.described

    @property
    def has_page_hooks(self) -> bool:
        """Whether a page passes any hook on its way."""
        return bool(self.on_request or self.on_headers or self.on_browser_page or self.on_response or self.on_error)

    def _named(self, name: str) -> tuple[Hook, ...]:
        return tuple(
            Hook(f"{type(one).__name__}.{name}", getattr(one, name))
            for one in self._objects
            if has_hook(type(one), name)
        )

    # ---- of a worker and of a job

    async def start(self, job: JobInfo) -> None:
        """Call ``on_start``; SpiderError if one fails: every page would do without what it sets up."""
        for hook in self.on_start:
            result = await self._called(hook, job)
            if isinstance(result, HookFailure):
                raise SpiderError(
                    f"a hook failed in on_start: {result.text.strip().rpartition(chr(10))[2]}",
                    hint=f"correct {hook.name} and run the same command again",
                )

    async def close(self, summary: CloseSummary) -> list[str]:
        """Call ``on_close``; what failed. The others are called all the same."""
        results = [await self._called(hook, summary) for hook in self.on_close]
        return [result.text for result in results if isinstance(result, HookFailure)]

    async def see_event(self, event: Event) -> list[tuple[str, str]]:
        """Call ``on_event``; the name of each hook that failed, and how."""
        results = [(hook.name, await self._called(hook, event)) for hook in self.on_event]
        return [(name, result.text) for name, result in results if isinstance(result, HookFailure)]

    # ---- of a page

    async def ask_request(self, request: Request) -> Request | Page | Decision:
        """The request to send, the page that answers it, or what was decided."""
        for hook in self.on_request:
            result = await self._called(hook, request)
            match result:
                case None:
                    continue
                case Request():
                    request = result
                case Response() | Answer():
                    self.stats.count_decision("answer", hook.name)
                    return _page(result, request)
                case Drop() | HookFailure():
                    return self._counted(hook, result)
                case _:
                    return self._refused(hook, result, "a Request, a Response, an Answer, a Drop or None")
        return request

    def ask_headers(self, response: Response) -> Decision | None:
        """What the hooks decide by status and headers alone."""
        for hook in self.on_headers:
            try:
                result = hook.call(response)
            except BaseException as error:
                if not is_of_the_callback(error):
                    raise
                result = self._failed(hook, error)
            match result:
                case None:
                    continue
                case Retry() | Ban() | Drop() | HookFailure():
                    return self._counted(hook, result)
                case _:
                    if inspect.iscoroutine(result):
                        result.close()
                    return self._refused(hook, result, "a Retry, a Ban, a Drop or None, and must not be a coroutine")
        return None

    async def ask_browser_page(self, request: Request, page: Any) -> Decision | None:
        """What the hooks decide that have seen the page in its browser."""
        for hook in self.on_browser_page:
            result = await self._called(hook, request, page)
            match result:
                case None:
                    continue
                case Retry() | Drop() | HookFailure():
                    return self._counted(hook, result)
                case _:
                    return self._refused(hook, result, "a Retry, a Drop or None")
        return None

    async def ask_response(self, request: Request, response: Response) -> Response | Decision:
        """The response to go on with, or what was decided."""
        for hook in self.on_response:
            result = await self._called(hook, request, response)
            match result:
                case None:
                    continue
                case Response():
                    # What was fetched is counted and tells of its host, whatever stands in its place.
                    page = result.page
                    kept = {"wire_bytes": response.page.wire_bytes, "seconds": response.page.seconds}
                    replaced = msgspec.structs.replace(page, address=response.page.address, **kept)
                    response = result if page is response.page else Response(replaced, request)
                case Retry() | Ban() | Drop() | HookFailure():
                    return self._counted(hook, result)
                case _:
                    return self._refused(hook, result, "a Response, a Retry, a Ban, a Drop or None")
        return response

    async def ask_error(self, failure: Failure, *, may_answer: bool) -> Page | Decision | None:
        """What the hooks decide on a failed attempt; None: nothing. ``may_answer``: it may be taken for answered."""
        for hook in self.on_error:
            result = await self._called(hook, failure.request, failure)
            match result:
                case None:
                    continue
                case Retry() | Ban() | Drop() | HookFailure():
                    return self._counted(hook, result)
                case Response() | Answer() if may_answer:
                    self.stats.count_decision("answer", hook.name)
                    return _page(result, failure.request)
                case _:
                    return self._refused(
                        hook, result, "a Retry, a Ban, a Drop or None, or an Answer unless a callback failed"
                    )
        return None

    # ---- how a hook is called

    async def _called(self, hook: Hook, *arguments: Any) -> Any:
        """What it returns, or a HookFailure."""
        try:
            result = hook.call(*arguments)
            if isinstance(result, Awaitable):
                result = await wait_within(result, self._seconds, "it")
        except BaseException as error:
            if not is_of_the_callback(error):
                raise
            return self._failed(hook, error)
        return result

    def _failed(self, hook: Hook, error: BaseException) -> HookFailure:
        return HookFailure(f"the hook {hook.name} failed:\n{self._describe(error)}")

    def _refused(self, hook: Hook, result: Any, expected: str) -> HookFailure:
        kind = type(result).__name__
        failure = HookFailure(f"the hook {hook.name} returned a {kind}: it must return {expected}")
        self._counted(hook, failure)
        return failure

    def _counted(self, hook: Hook, decision: Decision) -> Decision:
        match decision:
            case Retry():
                self.stats.count_decision("retry", decision.reason)
            case Ban():
                self.stats.count_decision("ban", decision.reason)
            case Drop():
                self.stats.count_decision("drop", decision.reason)
            case HookFailure():
                self.stats.count_decision("failed", hook.name)
        return decision


class HeadersHook:
    """What a fetcher calls when the headers of an answer have come, for one request."""

    def __init__(self, hooks: WorkerHooks, request: Request) -> None:
        self._hooks = hooks
        self._request = request
        # A fetcher calls from wherever it reads; what the hook counts belongs to this page.
        self._context = contextvars.copy_context()
        self._asked = False
        self._decision: Decision | None = None

    def __call__(self, page: Page) -> bool:
        """Whether the body is to be read."""
        self._asked = True
        self._decision = self._context.run(self._hooks.ask_headers, Response(page, self._request))
        return self._decision is None

    def decide(self, page: Page) -> Decision | None:
        """What was decided; a fetcher that knows no such hook has read the body for nothing."""
        if not self._asked:
            self(msgspec.structs.replace(page, body=b""))
        return self._decision


class BrowserPageHook:
    """What a fetcher calls with the page in its browser, for one request."""

    def __init__(self, hooks: WorkerHooks, request: Request) -> None:
        self._hooks = hooks
        self._request = request
        self._context = contextvars.copy_context()
        self.decision: Decision | None = None

    async def __call__(self, page: Any) -> None:
        # What the hook counts belongs to this page, whichever task the fetcher calls from.
        work = self._hooks.ask_browser_page(self._request, page)
        self.decision = await asyncio.get_running_loop().create_task(work, context=self._context)


def _page(result: Response | Answer, request: Request) -> Page:
    if isinstance(result, Answer):
        return result.page(request.url)
    # It was not fetched now.
    return msgspec.structs.replace(result.page, wire_bytes=0)


def hooks_of(spider: Spider, setting: str, seconds: float, trusted: Sequence[str] | None, stats: Stats) -> WorkerHooks:
    """The hooks of a spider and of the setting; all of them count in ``stats``."""
    objects = make_hooks(spider, setting, trusted)
    for one in objects:
        # A spider may have an attribute of this name that is its own.
        if isinstance(getattr(one, "stats", None), Stats):
            one.stats = stats
    return WorkerHooks(objects, stats, seconds)
