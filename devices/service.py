"""The device plugin service around a model: calls, faults, hooks, and the list that is watched."""

from collections.abc import AsyncIterator

import trio
from attrs import evolve

from devices.facts import Observer, PluginCall, PluginChanged
from devices.faulty import Faulty, refusal
from devices.hooks import HookCall, PluginHooks
from devices.model import HEALTHY, UNHEALTHY, Device, Model, Refused
from devices.setup import DeviceProblem
from devices.wire import answer_message, list_message, options_message
from k8s_proto import deviceplugin_v1beta1_pb2 as pb
from trio_grpc import Call, StatusError
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginHandler

__all__ = ["PluginService"]


class PluginService(DevicePluginHandler):
    """Serves one model.

    The state lives here: which devices there are and how they are. It changes between calls at will; every
    change is sent to all streams as a whole list, a change that undoes another one at once may go unseen.
    """

    def __init__(
        self,
        model: Model,
        *,
        faulty: Faulty,
        hooks: PluginHooks,
        observer: Observer,
    ) -> None:
        self.model = model
        self._faulty = faulty
        self._hooks = hooks
        self._observer = observer
        self._counts: dict[str, int] = {}
        self._allocations = 0
        self._version = 0
        self._changed = trio.Event()
        self._stream_end: tuple[int, StatusError | None] = (0, None)

    # -- state --

    def set_devices(self, devices: tuple[Device, ...]) -> None:
        """Replace the list; it may be empty, and ids may be repeated (DEV-024)."""
        self.model = evolve(self.model, devices=devices)
        self._tell(PluginChanged(resource=self.model.resource, change="list", text=str(len(devices))))

    def set_health(self, device: str, health: str) -> None:
        """Report that health for a device from now on. Raises ``DeviceProblem`` for an unknown one."""
        devices = tuple(
            evolve(each, health=health) if each.id == device else each for each in self.model.devices
        )
        if all(each.id != device for each in devices):
            raise DeviceProblem(f"{self.model.resource} has no device {device!r}")
        if devices == self.model.devices:
            return
        self.model = evolve(self.model, devices=devices)
        self._tell(PluginChanged(resource=self.model.resource, change="health", text=f"{device} {health}"))

    def report_fault(self, device: str, number: int) -> bool:
        """A hardware fault (an XID). Whether it made devices unhealthy; all replicas of one fall together."""
        if number in self.model.ignored_faults:
            return False
        hit = [
            each.id
            for each in self.model.devices
            if self.model.physical(each.id) == self.model.physical(device)
        ]
        for name in hit:
            self.set_health(name, UNHEALTHY)
        return bool(hit)

    def recover(self, device: str) -> bool:
        """The device is well again; False where such plugins do not notice before they restart (DEV-185)."""
        if self.model.recovers:
            self.set_health(device, HEALTHY)
        return self.model.recovers

    def end_streams(self, error: StatusError | None = None) -> None:
        """End every open ListAndWatch, with an error or as if the plugin had nothing more to say."""
        self._stream_end = (self._stream_end[0] + 1, error)
        self._wake()

    def _tell(self, fact: PluginChanged) -> None:
        self._observer(fact)
        self._version += 1
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # -- calls --

    async def GetDevicePluginOptions(self, request: pb.Empty, call: Call) -> pb.DevicePluginOptions:
        hook = self._begin(PluginCall(resource=self.model.resource, method="GetDevicePluginOptions"))

        async def work() -> pb.DevicePluginOptions:
            return options_message(await self._hooks.options(hook, self.model))

        return await self._faulty.answer("GetDevicePluginOptions", work)

    async def ListAndWatch(self, request: pb.Empty, call: Call) -> AsyncIterator[pb.ListAndWatchResponse]:
        hook = self._begin(PluginCall(resource=self.model.resource, method="ListAndWatch"))
        fault = await self._faulty.before("ListAndWatch")
        ends = self._stream_end[0]
        while ends == self._stream_end[0]:
            version = self._version
            try:
                message = list_message(await self._hooks.devices(hook, self.model.devices))
            except Refused as refused:
                raise refusal(refused) from None
            yield message
            if fault is not None:
                if fault.kind == "duplicate":
                    yield message
                await self._faulty.after(fault)
            while version == self._version and ends == self._stream_end[0]:
                await self._changed.wait()
        error = self._stream_end[1]
        if error is not None:
            raise StatusError(error.code, error.details)

    async def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, call: Call
    ) -> pb.PreferredAllocationResponse:
        asked = tuple(
            (tuple(each.available_deviceIDs), tuple(each.must_include_deviceIDs), each.allocation_size)
            for each in request.container_requests
        )
        model = self.model
        hook = self._begin(
            PluginCall(resource=model.resource, method="GetPreferredAllocation", requests=asked)
        )

        async def work() -> pb.PreferredAllocationResponse:
            reply = pb.PreferredAllocationResponse()
            for available, must, size in asked:
                answer = self.model.prefer(available, must, size)
                answer = await self._hooks.prefer(hook, available, must, size, answer)
                reply.container_responses.add(deviceIDs=answer)
            return reply

        return await self._faulty.answer("GetPreferredAllocation", work)

    async def Allocate(self, request: pb.AllocateRequest, call: Call) -> pb.AllocateResponse:
        asked = tuple(tuple(each.devices_ids) for each in request.container_requests)
        hook = self._begin(PluginCall(resource=self.model.resource, method="Allocate", ids=asked))

        async def work() -> pb.AllocateResponse:
            reply = pb.AllocateResponse()
            for ids in asked:
                answer = self.model.allocate(ids, serial=self._allocations)
                self._allocations += 1
                answer = await self._hooks.allocate(hook, ids, answer)
                reply.container_responses.append(answer_message(answer))
            return reply

        return await self._faulty.answer("Allocate", work)

    async def PreStartContainer(
        self, request: pb.PreStartContainerRequest, call: Call
    ) -> pb.PreStartContainerResponse:
        ids = tuple(request.devices_ids)
        hook = self._begin(PluginCall(resource=self.model.resource, method="PreStartContainer", ids=(ids,)))

        async def work() -> pb.PreStartContainerResponse:
            self.model.check_start(ids)
            await self._hooks.pre_start(hook, ids)
            return pb.PreStartContainerResponse()

        return await self._faulty.answer("PreStartContainer", work)

    def _begin(self, fact: PluginCall) -> HookCall:
        self._observer(fact)
        count = self._counts.get(fact.method, 0)
        self._counts[fact.method] = count + 1
        return HookCall(fact.method, count, self.model)
