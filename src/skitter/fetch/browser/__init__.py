"""Rendering of pages: Chromium behind a guarded proxy. Most of it needs the extra ``browser``."""
