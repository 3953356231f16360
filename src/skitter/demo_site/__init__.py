"""Demo bookshop of ``skitter demo``: a small web site on loopback that the documentation crawls.

``books`` generates the stock from a seed, ``pages`` renders it, ``site`` maps paths to responses, and ``server`` serves
them over HTTP. Nothing here depends on the crawler.
"""
