"""Rewriting films for training: short GOPs, small pictures, no audio.

May import errors, synthetic, index, transforms, decode and clips; the command line imports it.
"""
