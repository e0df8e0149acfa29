"""What the kubelet knows of containers and sandboxes, free of any runtime (``pkg/kubelet/container``)."""
