"""Pictures of runs: a timeline as SVG, a page to step through a run, and the tables as diagrams.

``lanes`` makes rows of a reading, ``timeline`` draws them, ``svg`` writes elements; ``page`` makes the HTML
file, ``diagrams`` the state diagrams. The same reading gives the same bytes.
"""
