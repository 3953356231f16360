"""The Redis driver that the frontier and the stream sink share: addresses, connections, and errors in words.

``address`` needs no package of Redis; the other modules need the extra ``redis``.
"""
