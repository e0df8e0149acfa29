"""What the host gives to a node, its runtime and its plugins: clock, order, chance, files, network.

Nothing here knows Kubernetes. Whoever assembles a node makes these values and hands them down; no other
module asks the operating system for the time, for randomness, for a path or for a socket.
"""
