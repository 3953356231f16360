"""Pure rules without I/O and without a clock: the caller passes the time."""
