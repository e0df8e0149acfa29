"""Pods of this node from the API: a list, then a watch, and the full list again after each event.

Mirrors ``pkg/kubelet/config/apiserver.go`` (POD-214).
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import trio

from kubelet_emu.api.codec import DecodeError
from kubelet_emu.api.decoded import DecodedPods
from kubelet_emu.api.types import Pod
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.pod_update import API_SOURCE
from kubelet_emu.seams import Recorder

__all__ = ["ApiSource", "PodWatcher", "WatchEventLike"]

_NODE_CHECK_SECONDS = 1.0
_BACKOFF_FIRST_SECONDS = 0.8
_BACKOFF_MAX_SECONDS = 30.0


class WatchEventLike(Protocol):
    """One event of a watch: ADDED, MODIFIED or DELETED, and the object as JSON."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> dict[str, Any]: ...


class PodWatcher(Protocol):
    """As much of the API client as is needed here."""

    def watch(
        self, kind: str, *, wanted: Callable[[dict[str, Any]], bool]
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEventLike]]:
        """A watch whose first events, to be had without waiting, are the present objects as ADDED.

        It ends when the connection is lost. Raises ``ApiError`` when there is none.
        """
        ...


class ApiSource:
    """Keeps the list of the node's pods and hands it over whole after each event.

    ``node_synced`` says whether the node object is known; the watch begins only then.
    """

    def __init__(
        self,
        *,
        api: PodWatcher,
        node_name: str,
        set_pods: Callable[[str, Sequence[Pod]], Awaitable[None]],
        recorder: Recorder,
        rng: random.Random,
        node_synced: Callable[[], bool] = lambda: True,
        decoded: DecodedPods | None = None,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._set_pods = set_pods
        self._recorder = recorder
        self._rng = rng
        self._node_synced = node_synced
        self._decoded = decoded or DecodedPods()
        self._pods: dict[tuple[str, str], Pod] = {}

    async def run(self) -> None:
        """Follow the API until cancelled; a lost connection is taken up again with a growing pause."""
        while not self._node_synced():
            await trio.sleep(_NODE_CHECK_SECONDS)
        pause = _BACKOFF_FIRST_SECONDS
        while True:
            try:
                await self._follow()
                pause = _BACKOFF_FIRST_SECONDS
            except ApiError as error:
                self._recorder.fact("config", source=API_SOURCE, problem=str(error))
            await trio.sleep(pause * (1 + self._rng.random()))
            pause = min(2 * pause, _BACKOFF_MAX_SECONDS)

    async def _follow(self) -> None:
        async with self._api.watch("Pod", wanted=self._is_ours) as events:
            await self._take_present(events)
            async for event in events:
                self._apply(event)
                await self._send()

    async def _take_present(self, events: AsyncIterator[WatchEventLike]) -> None:
        """The list at the start of a watch, whole: pods that are not in it any more are gone."""
        self._pods = {}
        with trio.move_on_after(0):
            async for event in events:
                self._apply(event)
        await self._send()

    async def _send(self) -> None:
        await self._set_pods(API_SOURCE, [self._pods[key] for key in sorted(self._pods)])

    def _apply(self, event: WatchEventLike) -> None:
        metadata: Mapping[str, Any] = event.object.get("metadata") or {}
        key = (str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        if event.type == "DELETED":
            self._pods.pop(key, None)
            return
        try:
            self._pods[key] = self._decoded.pod(event.object)
        except DecodeError as error:
            self._recorder.fact("config", source=API_SOURCE, pod=key[1], problem=str(error))

    def _is_ours(self, obj: Mapping[str, Any]) -> bool:
        spec: Mapping[str, Any] = obj.get("spec") or {}
        return spec.get("nodeName") == self._node_name
