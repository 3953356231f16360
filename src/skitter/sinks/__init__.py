"""Sinks: where items go. ``contract`` is what a worker knows of them; each kind has a module of its own."""
