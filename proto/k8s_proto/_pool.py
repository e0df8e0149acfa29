"""The descriptor pool of our contracts, apart from protobuf's process-wide one.

Two files that define the same name cannot live in one pool, and other packages bring their own
``runtime.v1`` or ``v1``. Messages of this pool have the same bytes as anyone else's; only descriptors
are not shared.
"""

from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["POOL"]

POOL = DescriptorPool()
