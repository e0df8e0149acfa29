"""The device manager (mirrors ``pkg/kubelet/cm/devicemanager``)."""
