"""The master: an HTTP server above the application. ``skitter serve`` runs it."""
