"""Typed YAML configurations, turned into the same objects that a script would build.

May import everything but `vidload.cli`.
"""
