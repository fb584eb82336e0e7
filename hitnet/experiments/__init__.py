"""The paper's experiments: protocol, many runs, tables, claims, figures and a report."""
