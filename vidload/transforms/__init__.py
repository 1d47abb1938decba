"""Geometry on the CPU, at decode time (and later: pixels on the device).

May import `vidload.errors` only.
"""
