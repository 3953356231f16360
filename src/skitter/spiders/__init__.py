"""Spiders: the public base class, the built-in spider, and the loading of spiders."""
