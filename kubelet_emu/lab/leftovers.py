"""What a node leaves in a runtime that is not its own: remembered while it runs, removed when it ends."""

import trio
from google.protobuf.message import Message

from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import CallRecord, StatusError
from trio_grpc.services.runtime_v1 import RuntimeServiceClient

__all__ = ["SandboxesMade"]

REMOVAL_SECONDS = 60.0
"""All removals of one node together may take so long; a runtime that hangs does not hang us."""

AT_ONCE = 8


class SandboxesMade:
    """A ``trio_grpc.CallHook`` that remembers every sandbox that was made through a channel."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}

    def started(self, record: CallRecord) -> None:
        """Nothing is there yet."""

    def item(self, record: CallRecord, message: Message) -> None:
        """Streams make no sandboxes."""

    def finished(self, record: CallRecord) -> None:
        """Remember what was made, forget what was removed."""
        if record.error is not None:
            return
        if isinstance(record.reply, cri.RunPodSandboxResponse):
            self.ids[record.reply.pod_sandbox_id] = None
        elif isinstance(record.request, cri.RemovePodSandboxRequest):
            self.ids.pop(record.request.pod_sandbox_id, None)

    async def remove_all(self, client: RuntimeServiceClient) -> None:
        """Stop and remove them with all their containers. What cannot be removed is left to its owner."""
        limit = trio.CapacityLimiter(AT_ONCE)

        async def remove(sandbox: str) -> None:
            async with limit:
                try:
                    await client.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
                    await client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
                except StatusError:
                    return
            self.ids.pop(sandbox, None)

        with trio.move_on_after(REMOVAL_SECONDS, shield=True):
            async with trio.open_nursery() as nursery:
                for sandbox in list(self.ids):
                    nursery.start_soon(remove, sandbox)
