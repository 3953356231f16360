"""The measurements of ``skitter bench``: whole crawls, frontiers alone, and the profile of a page's time.

The package is the top layer, beside ``testing``, whose synthetic web it crawls: no other package imports it. Each
measurement runs in a process of its own, one at a time, so that none affects the next.
"""
