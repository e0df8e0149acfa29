"""The published gRPC contracts of a node, written here field by field and compiled.

``runtime_v1_pb2`` (CRI), ``deviceplugin_v1beta1_pb2``, ``pluginregistration_v1_pb2``,
``podresources_v1_pb2``, ``dra_v1_pb2``, ``dra_v1beta1_pb2``, ``dra_health_v1alpha1_pb2`` and
``health_v1_pb2`` (gRPC health checking).
Importing this package imports none of them. ``tools/generate_protos.py`` regenerates the modules.
"""
