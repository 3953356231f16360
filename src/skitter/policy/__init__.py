"""Pure decisions: no I/O and no clock of their own. Whoever asks brings the time."""
