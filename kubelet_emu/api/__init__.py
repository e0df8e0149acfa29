"""The pod API: value classes, JSON, defaults, validation and manifests.

``types`` are the values, ``codec`` reads and writes them, ``defaults`` and ``validation`` do what the API
server does to them, ``manifests`` loads files. Only ``manifests`` touches the outside world. Mirrors
``pkg/apis/core``.
"""
