"""What kubectl shows of pods, nodes and events: cells of the API server's tables and text around them."""
