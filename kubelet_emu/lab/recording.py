"""Feeds a trace from the outside of a node: API writes, calls on the runtime's wire, processes of
containers."""

from typing import Any

from google.protobuf.message import Message

from cri_fake.observe import DaemonChanged, InstanceExited, InstanceStarted, RuntimeFact
from kubelet_emu.apiserver.store import ApiStore, WatchEvent
from kubelet_emu.trace.recorder import TraceRecorder
from trio_grpc import CallRecord

__all__ = ["CallRecorder", "record_fact", "record_store"]


class CallRecorder:
    """A ``trio_grpc.CallHook`` that writes each finished call of the kubelet into the trace."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._begun: dict[int, int] = {}
        self.calls = 0
        """Calls begun so far, polls included."""

    def started(self, record: CallRecord) -> None:
        """Reserve the place of the call in the order of the trace."""
        self.calls += 1
        self._begun[record.number] = self._recorder.next_seq()

    def item(self, record: CallRecord, message: Message) -> None:
        """Items of a stream (container events) are no part of a trace."""

    def finished(self, record: CallRecord) -> None:
        """Write the call down."""
        self._recorder.cri_call(
            record.method.name,
            record.request,
            record.reply,
            record.error,
            record.start_seconds,
            record.end_seconds,
            begun=self._begun.pop(record.number, None),
            wire=(record.request_data, record.reply_data),
        )


def record_store(store: ApiStore, recorder: TraceRecorder) -> None:
    """Write every change of a pod, and every event, into the trace as a watch would show it."""

    def pod(change: WatchEvent) -> None:
        recorder.pod_object(change.object, deleted=change.type == "DELETED")

    def event(change: WatchEvent) -> None:
        if change.type != "DELETED":
            recorder.event_object(change.object)

    def node(change: WatchEvent) -> None:
        status = change.object.get("status", {})
        recorder.fact(
            "node",
            name=change.object["metadata"]["name"],
            capacity=status.get("capacity", {}),
            allocatable=status.get("allocatable", {}),
        )

    store.listen("Pod", pod)
    store.listen("Node", node)
    store.listen("Event", event)


def record_fact(recorder: TraceRecorder, fact: RuntimeFact) -> None:
    """Write what the runtime tells of its processes into the trace."""
    if isinstance(fact, InstanceStarted):
        more: dict[str, Any] = {"opaque": True, "argv": list(fact.argv)} if fact.opaque else {}
        recorder.process("start", fact.container_id, instance=fact.instance, **more)
    elif isinstance(fact, InstanceExited):
        more = {"signal": fact.signal} if fact.signal else {}
        if fact.oom_killed:
            more["oomKilled"] = True
        recorder.process(
            "exit",
            fact.container_id,
            instance=fact.instance,
            code=fact.exit_code,
            reason=fact.reason,
            **more,
        )
    elif isinstance(fact, DaemonChanged):
        recorder.fact("runtime", up=fact.up)
    else:
        recorder.fact("sandbox", do="died", pod=fact.pod)
