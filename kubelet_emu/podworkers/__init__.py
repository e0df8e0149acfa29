"""Pod workers: one per pod, which alone drives it from sync over termination to the end.

Mirrors ``pkg/kubelet/pod_workers.go`` (POD section 5). ``record`` holds the values, ``machine`` all
decisions, ``names`` the lock on static pod names, ``delays`` the retry rule; ``workers`` runs them on trio.
"""
