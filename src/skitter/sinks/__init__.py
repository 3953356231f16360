"""Sinks, which write items to outputs: ``contract`` is their interface, and each kind has a module of its own."""
