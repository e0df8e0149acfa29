"""Device plugins and DRA drivers without devices: separate gRPC servers, for our kubelet and for a real one.

``devices.load.load_devices`` turns a preset or a profile file into plugins, ``devices.fleet.DeviceFleet``
runs them, ``devices.plugin.DevicePlugin`` is one of them. What a plugin says (ids, topology, answers,
preferences) is a pure model; the plugin around it is a thin shell with faults and hooks.
"""
