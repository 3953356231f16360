"""Actions of a rendered request: what a browser does with the page before its content is taken, as plain data."""

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
    """Wait until an element is there, or, without a selector, for so many seconds."""

    selector: Annotated[str, Meta(max_length=4_096)] = ""
    """CSS, or what else Playwright knows, as in ``text=Load more``."""
    seconds: Seconds | None = None
    """How long it may take, or the wait itself. None: what is left of the page's time."""
    state: Literal["attached", "visible", "hidden", "detached"] = "visible"
    """What is waited for."""


class Click(Action, frozen=True, tag="click"):
    """Click on the first element that matches, when it can be clicked."""

    selector: Selector
    """As for ``WaitFor``."""
    seconds: Seconds | None = None
    """How long it may take. None: what is left of the page's time."""


class Scroll(Action, frozen=True, tag="scroll"):
    """Scroll down: to the end of the page as it is at the moment, or by so many pixels."""

    times: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """How often."""
    pixels: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """How far; None: to the end."""
    pause_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.25
    """After each time: pages load what comes into view."""


class Fill(Action, frozen=True, tag="fill"):
    """Put a text into a field of a form."""

    selector: Selector
    """As for ``WaitFor``."""
    text: Text
    """Stored with the request; no message and no log repeats it."""
    seconds: Seconds | None = None
    """How long it may take. None: what is left of the page's time."""

    def __repr__(self) -> str:
        # It may be a password.
        return f"Fill(selector={self.selector!r}, text=...)"


class JavaScript(Action, frozen=True, tag="javascript"):
    """Run an expression or a function in the page; its value, as JSON has it, is in ``response.script_results``."""

    code: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    """As in ``document.title`` or ``async () => { … }``."""
    seconds: Seconds | None = None
    """How long it may take. None: what is left of the page's time."""


class Screenshot(Action, frozen=True, tag="screenshot"):
    """Take a picture of what is seen, as PNG, for ``response.screenshot``."""

    full_page: bool = False
    """From the top to the end of the page, and not only what a window shows."""
    selector: Annotated[str, Meta(max_length=4_096)] = ""
    """Of this element alone."""


AnyAction = WaitFor | Click | Scroll | Fill | JavaScript | Screenshot


def checked_actions(given: Any) -> tuple[Action, ...]:
    """Return actions of any form, structs or dicts, as structs. Raises ValueError in plain words."""
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
