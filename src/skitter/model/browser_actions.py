"""Actions of a rendered request, as plain data: the browser performs them before the content is taken."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_ACTIONS = 100
MAX_TEXT = 65_536
MAX_SECONDS = 3_600.0
Selector = Annotated[str, Meta(min_length=1, max_length=4_096)]
Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class Action(msgspec.Struct, frozen=True, tag_field="action", forbid_unknown_fields=True, omit_defaults=True):
    """Base class of actions."""


class WaitFor(Action, frozen=True, tag="wait_for"):
    """Wait until an element has the given state or, without a selector, for the given seconds."""

    selector: Annotated[str, Meta(max_length=4_096)] = ""
    """CSS selector, or another selector of Playwright such as ``text=Load more``."""
    seconds: Seconds | None = None
    """Maximum time or, without a selector, the time to wait. None means the remaining time of the page."""
    state: Literal["attached", "visible", "hidden", "detached"] = "visible"
    """State of the element to wait for."""


class Click(Action, frozen=True, tag="click"):
    """Click the first element that matches, as soon as it can be clicked."""

    selector: Selector
    """Selector, as in ``WaitFor``."""
    seconds: Seconds | None = None
    """Maximum time. None means the remaining time of the page."""


class Scroll(Action, frozen=True, tag="scroll"):
    """Scroll down to the current end of the page, or by a number of pixels."""

    times: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """Number of times to scroll."""
    pixels: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Distance in pixels. None means to the end of the page."""
    pause_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.25
    """Pause after each scroll, in which the page can load more content."""


class Fill(Action, frozen=True, tag="fill"):
    """Enter text into a form field."""

    selector: Selector
    """Selector, as in ``WaitFor``."""
    text: Text
    """Text to enter. It is stored with the request and never appears in messages or logs."""
    seconds: Seconds | None = None
    """Maximum time. None means the remaining time of the page."""

    def __repr__(self) -> str:
        # It may be a password.
        return f"Fill(selector={self.selector!r}, text=...)"


class JavaScript(Action, frozen=True, tag="javascript"):
    """Run an expression or a function in the page. Its value, as JSON, is in ``response.script_results``."""

    code: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    """Code to run, such as ``document.title`` or ``async () => { … }``."""
    seconds: Seconds | None = None
    """Maximum time. None means the remaining time of the page."""


class Screenshot(Action, frozen=True, tag="screenshot"):
    """Take a screenshot as PNG, available as ``response.screenshot``."""

    full_page: bool = False
    """Capture the whole page instead of the visible part."""
    selector: Annotated[str, Meta(max_length=4_096)] = ""
    """Capture only this element."""


AnyAction = WaitFor | Click | Scroll | Fill | JavaScript | Screenshot


def checked_actions(given: Any) -> tuple[Action, ...]:
    """Return actions given as structs or dicts as structs. Raises ValueError for invalid ones."""
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"{type(given).__name__}")  # noqa: TRY004  one error for all that is wrong with them
    if len(given) > MAX_ACTIONS:
        raise ValueError(f"{len(given)} of them: at most {MAX_ACTIONS}")
    return tuple(_checked(action, place) for place, action in enumerate(given, 1))


def _checked(action: Any, place: int) -> Action:
    if not isinstance(action, (Action, dict)):
        raise ValueError(f"{type(action).__name__} as number {place}")  # noqa: TRY004  as above
    plain = msgspec.to_builtins(action) if isinstance(action, Action) else action
    name = str(plain.get("action", "without a name"))[:50]
    try:
        checked: Action = msgspec.convert(plain, AnyAction)
    except msgspec.ValidationError as error:
        # msgspec's own message names the field, and does not repeat its value, which may be a password.
        raise ValueError(f"number {place} ({name}): {str(error).replace(' - at `$.', ', at `')}") from error
    if isinstance(checked, WaitFor) and not checked.selector and checked.seconds is None:
        raise ValueError(f"number {place} ({name}): neither a selector nor seconds")
    return checked
