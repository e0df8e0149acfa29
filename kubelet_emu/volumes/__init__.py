"""Volumes of a pod on this node: what is needed, what they hold, and their set-up
(``pkg/kubelet/volumemanager``)."""
