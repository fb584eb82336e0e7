"""The paper's experiments: protocols, many runs, tables, claims, figures and a report."""
