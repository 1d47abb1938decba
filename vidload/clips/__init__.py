"""Which frames, and in which order: samplers, the schedule, and the random numbers both draw from.

May import `vidload.errors` and `vidload.index`; never a decoder.
"""
