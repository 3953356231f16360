"""Streams of events, for any number of subscribers: ``contract`` is their interface, ``publisher`` feeds one."""
