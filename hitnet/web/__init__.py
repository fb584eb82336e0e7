"""The explorer: a local page to play with prototypes, and the server behind it."""
