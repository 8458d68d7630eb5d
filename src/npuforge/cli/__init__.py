"""The command line: one module a verb; argument parsing and printing only."""
