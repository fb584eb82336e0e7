"""The explorer: a local page on which people play with prototypes, and the server behind it."""
