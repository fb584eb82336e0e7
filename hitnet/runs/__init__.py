"""A run as a folder, and what is done with it: trained, reopened, measured, asked, drawn."""
