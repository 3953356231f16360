"""Pure values: no I/O, no driver, no asyncio."""
