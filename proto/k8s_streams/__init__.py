"""The streaming protocols that Kubernetes carries exec, attach and port-forward over.

``spdy_frames`` and ``spdy`` are SPDY/3.1 without I/O, ``spdy_session`` runs it over a trio stream,
``websocket`` the channel subprotocols, ``subprotocols`` says who speaks what and how a command's end is told.
Nothing is imported until it is used.
"""
