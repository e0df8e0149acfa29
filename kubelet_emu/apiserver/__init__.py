"""An in-memory API store with an API server's semantics, and the client that the kubelet sees of it."""
