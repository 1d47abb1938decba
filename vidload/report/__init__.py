"""What a run looked like: waits, rates and the timeline picture.

May import `vidload.errors` and `vidload.loader`; matplotlib only where a picture is drawn.
"""
