"""Observability: events and log levels. Other packages emit events; nothing here calls them."""
