"""The frontier's rules by noun, shared by the memory and SQLite frontiers; the Lua files of Redis have the same cut."""
