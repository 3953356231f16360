"""What ``skitter bench`` measures, and how: whole crawls, frontiers alone, and where a page's time goes.

Above everything, like ``testing``, whose web it crawls: it drives all rooms, and no room knows it. What is measured
runs in processes of its own, one at a time, so that no figure holds what was measured before it.
"""
