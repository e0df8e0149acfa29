"""The CPU manager (mirrors ``pkg/kubelet/cm/cpumanager``)."""
