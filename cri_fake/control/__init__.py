"""Faults and knobs of a running runtime: commands as lines of text, over a private socket or from a file."""
