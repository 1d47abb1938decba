"""From wanted frame numbers to pixels: the slice, its bytes, and one file per backend behind one protocol.

May import `vidload.errors`, `vidload.index` and `vidload.transforms`.
"""
