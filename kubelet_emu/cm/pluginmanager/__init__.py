"""Plugins found by their sockets (mirrors ``pkg/kubelet/pluginmanager``)."""
