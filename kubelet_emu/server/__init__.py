"""What a kubelet serves: its read-only HTTP endpoints and the PodResources API."""
