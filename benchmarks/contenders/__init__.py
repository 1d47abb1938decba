"""What `benchmarks/peers.py` compares: each gives the batches of a plan, as uint8[B, T, 224, 224, 3]."""
