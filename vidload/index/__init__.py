"""Building and reading the index: what is known of every video without opening it again.

May import `vidload.errors` only; everything else may import this.
"""
