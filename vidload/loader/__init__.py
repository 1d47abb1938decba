"""The prefetching pipeline: workers, the ring of slots, the scheduler and `VideoLoader` itself.

May import everything but `vidload.config`, `vidload.report` and `vidload.cli`.
"""
