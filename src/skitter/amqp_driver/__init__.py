"""The AMQP driver that sink, intake and stream of events share: addresses, connections, and errors in words.

``address`` needs no package of AMQP; the other modules need the extra ``amqp``.
"""
