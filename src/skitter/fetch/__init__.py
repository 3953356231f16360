"""Sending requests: the contract, the libcurl engine, the network guard and the cookie jar."""
