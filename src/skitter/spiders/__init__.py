"""Spiders: the public base class, the built-in one, and how a spider is found."""
