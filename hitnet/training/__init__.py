"""Training: settings, the loop, the run folder."""
