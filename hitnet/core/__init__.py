"""The networks: layers, losses, encoders, heads, decoders, and how they are put together."""
