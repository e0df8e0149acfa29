"""Searching for cases that break an invariant: examples, shrinking, corpus, report.

``campaign`` says what is searched, ``engine`` runs examples in one process, ``hunt`` spreads them over many
and stops at the first violation, ``corpus`` keeps what was found. Needs the extra ``kubelet-emu[fuzz]``.
"""
