"""The runtime's memory: sandboxes, containers, images and reserved names as pure state machines (pure)."""
