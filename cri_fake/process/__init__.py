"""Processes of containers: their files, signals and programs, without the host's.

``ContainerFiles`` is what a container sees of files, ``ContainerProcesses`` its pid namespace, ``Programs``
what can run in it. The shell is in ``shell``, busybox' applets in ``applets``.
"""

from cri_fake.process.files import ContainerFiles, FileInfo
from cri_fake.process.images import busybox_tree, executable, scratch_tree
from cri_fake.process.kernel import ContainerProcesses, ProcessHandle
from cri_fake.process.layer import Mount
from cri_fake.process.proc import Exit, Proc
from cri_fake.process.programs import Program, Programs, StartFailed, opaque

__all__ = [
    "ContainerFiles",
    "ContainerProcesses",
    "Exit",
    "FileInfo",
    "Mount",
    "Proc",
    "ProcessHandle",
    "Program",
    "Programs",
    "StartFailed",
    "busybox_tree",
    "executable",
    "opaque",
    "scratch_tree",
]
