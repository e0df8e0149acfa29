"""Where pods come from: file, URL and API, merged into one stream of changes (``pkg/kubelet/config``)."""
