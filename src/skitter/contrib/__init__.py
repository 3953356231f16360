"""Integrations with other systems. No other package of skitter imports them."""
