"""Dynamic resource allocation, the kubelet's side (mirrors ``pkg/kubelet/cm/dra``)."""
