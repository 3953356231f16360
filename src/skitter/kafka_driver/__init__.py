"""The Kafka driver that sink, intake and stream of events share: settings of clients, topics, and errors in words.

It needs the extra ``kafka``.
"""
