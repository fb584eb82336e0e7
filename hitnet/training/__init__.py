"""Training: the loop, its state, devices, and who watches. Nothing here knows the run folder."""
