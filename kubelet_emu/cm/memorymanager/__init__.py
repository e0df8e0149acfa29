"""The memory manager (mirrors ``pkg/kubelet/cm/memorymanager``)."""
