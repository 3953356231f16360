"""Intakes, which read requests from queues, streams and files: ``contract`` is their interface."""
