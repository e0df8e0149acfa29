"""The topology manager (mirrors ``pkg/kubelet/cm/topologymanager``)."""
