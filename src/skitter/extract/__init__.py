"""Extraction of text, selectors, links and items from a page. No I/O."""
