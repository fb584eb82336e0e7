"""The run folder, and everything done with it: train, reopen, evaluate, calibrate, answer, draw."""
