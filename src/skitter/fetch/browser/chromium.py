"""Chromium on this machine: where its program is, and the command line that it is started with."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec

PROGRAMS = (
    *("chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
"""In this order: without the parts that show windows, a page takes an eighth of the CPU and a third of the memory."""
INSTALL_HINT = (
    "pip install 'skitter[browser]', and a Chromium (Debian: apt install chromium-headless-shell, or chromium), or"
    " browser_path=PROGRAM"
)
_FLAGS = """
    --remote-debugging-pipe --headless --no-first-run --no-default-browser-check --no-service-autorun
    --password-store=basic --use-mock-keychain --disable-gpu
    --disable-dev-shm-usage --disable-extensions --disable-default-apps
    --disable-component-extensions-with-background-pages --disable-breakpad --disable-crash-reporter
    --disable-background-networking --disable-component-update --disable-sync
    --disable-domain-reliability --disable-client-side-phishing-detection --disable-prompt-on-repost
    --disable-search-engine-choice-screen --disable-background-timer-throttling --disable-renderer-backgrounding
    --disable-backgrounding-occluded-windows --disable-hang-monitor --disable-popup-blocking --disable-translate
    --metrics-recording-only --mute-audio --hide-scrollbars --force-color-profile=srgb --no-pings
    --block-new-web-contents --disable-file-system --disable-notifications --disable-speech-api --dns-prefetch-disable
    --disable-quic --disable-http2 --proxy-bypass-list=<-loopback>
    --webrtc-ip-handling-policy=disable_non_proxied_udp --force-webrtc-ip-handling-policy=disable_non_proxied_udp
""".split()
"""Nothing that talks to anybody by itself; popups, QUIC and UDP of WebRTC off; loopback through the proxy as well.
Without HTTP/2 a connection carries one request at a time, so that the proxy can count requests to a host."""
_FEATURES_OFF = """
    AcceptCHFrame AutofillServerCommunication CertificateTransparencyComponentUpdater DialMediaRouteProvider
    InterestFeedContentSuggestions MediaRouter NetworkTimeServiceQuerying OptimizationHints Translate
    GlobalMediaControls ImprovedCookieControls DestroyProfileOnBrowserClose PaintHolding HttpsUpgrades
    HttpsFirstBalancedModeAutoEnable PreloadingHeuristics Prerender2 SpeculationRulesPrefetchFuture BackForwardCache
""".split()


def find_chromium(path: str) -> str | None:
    """Return the program that the setting names, or the first one on the PATH; None: there is none."""
    for name in (path,) if path else PROGRAMS:
        if found := shutil.which(name):
            return found
    return None


def reason_against(path: str, pages: int) -> str:
    """Return why this node cannot render; empty: it can."""
    if not pages:
        return "browser_pages is 0"
    if not sys.platform.startswith("linux"):
        return "browsers are used on Linux only"
    if find_spec("playwright") is None:
        return "the extra browser is not installed"
    if find_chromium(path) is None:
        return f"there is no Chromium: {path or ', '.join(PROGRAMS)}"
    return ""


def chromium_arguments(*, refusing_port: int, sandbox: bool) -> list[str]:
    """Return the arguments. ``refusing_port``: of a proxy that refuses all that belongs to no page."""
    arguments = [
        *_FLAGS,
        f"--disable-features={','.join(_FEATURES_OFF)}",
        f"--proxy-server=http://127.0.0.1:{refusing_port}",
        # Whatever would go past the proxy finds no address.
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ]
    if not sandbox or os.geteuid() == 0:
        arguments.append("--no-sandbox")
    return arguments
