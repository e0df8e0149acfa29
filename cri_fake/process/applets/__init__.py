"""The busybox applets as asynchronous programs."""
