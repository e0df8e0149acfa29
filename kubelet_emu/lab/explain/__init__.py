"""Explanations: a trace told as a story, one decision at a time, with the rules that fired.

``reading`` takes a trace in, ``moments`` makes the story's steps, ``surprises`` finds what people do not
expect, ``inferred`` supplies the decisions that a recording of a real kubelet does not hold, ``story`` and
``compare`` write it down.
"""
