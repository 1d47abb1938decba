"""Geometry on the CPU, at decode time; colours and pixels on the device (pixels.py and colour.py, which import torch).

May import `vidload.errors` only.
"""
