"""Typed clients and handler base classes, one module a contract.

- ``deviceplugin_v1beta1``: The device plugin API, v1beta1
- ``dra_health_v1alpha1``: Health of dynamically allocated devices, v1alpha1.
- ``dra_v1``: Dynamic resource allocation, v1
- ``dra_v1beta1``: Dynamic resource allocation, v1beta1.
- ``health_v1``: The gRPC health checking protocol, v1
- ``pluginregistration_v1``: Plugin registration, v1
- ``podresources_v1``: The PodResources API, v1
- ``runtime_v1``: The Container Runtime Interface, version 1
"""
