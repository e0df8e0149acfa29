"""The container manager: devices, CPUs, memory and topology of a node (mirrors ``pkg/kubelet/cm``)."""
