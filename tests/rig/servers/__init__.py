"""Servers that tests start, kill, pause and start again: each is a process with a port and a folder of its own."""
