"""Static pods from an URL.

Mirrors ``pkg/kubelet/config/http.go`` (POD-212). Plain HTTP only; redirections are not followed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlsplit

import trio

from kubelet_emu.api.types import Pod
from kubelet_emu.config.manifest import MAX_BYTES, ManifestError, PodReader
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.pod_update import HTTP_SOURCE
from kubelet_emu.seams import Recorder
from node_host.net import Net

__all__ = ["HttpSource"]

_TIMEOUT_SECONDS = 10.0
_CHUNK_BYTES = 65_536


class _Failure(Exception):
    """Why one poll gave nothing."""


class HttpSource:
    """Polls ``url`` every ``period_seconds``. Raises ``CallerError`` for an URL that is not plain HTTP."""

    def __init__(
        self,
        *,
        url: str,
        net: Net,
        reader: PodReader,
        set_pods: Callable[[str, Sequence[Pod]], Awaitable[None]],
        recorder: Recorder,
        headers: Mapping[str, str] | None = None,
        period_seconds: float = 20.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            hint = "give an address such as http://192.0.2.1:8080/pods.yaml"
            raise CallerError([Problem(f"staticPodURL {url!r} is not a plain HTTP address", hint=hint)])
        self._url = url
        self._host = parts.hostname
        self._port = parts.port or 80
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._authority = parts.netloc
        self._net = net
        self._reader = reader
        self._set_pods = set_pods
        self._recorder = recorder
        self._headers = dict(headers or {})
        self._period_seconds = period_seconds
        self._last: bytes | None = None

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.poll()
            await trio.sleep(self._period_seconds)

    async def poll(self) -> None:
        """One poll; failures are recorded and change nothing, except that an empty body means no pods."""
        try:
            await self._poll()
        except (_Failure, ManifestError) as error:
            self._recorder.fact("config", source=HTTP_SOURCE, url=self._url, problem=str(error))

    async def _poll(self) -> None:
        try:
            with trio.fail_after(_TIMEOUT_SECONDS):
                status, body = await self._get()
        except trio.TooSlowError as error:
            raise _Failure(f"{self._url}: no answer within {_TIMEOUT_SECONDS:g} s") from error
        if status != 200:
            raise _Failure(f"{self._url}: {status}")
        if not body:
            await self._set_pods(HTTP_SOURCE, ())
            raise _Failure(f"zero-length data received from {self._url}")
        if body == self._last:
            return
        self._last = body
        pods = self._reader.single_or_list(body, (f"url:{self._url}",))
        await self._set_pods(HTTP_SOURCE, pods)

    async def _get(self) -> tuple[int, bytes]:
        try:
            stream = await self._net.connect(self._host, self._port)
        except OSError as error:
            raise _Failure(f"{self._url}: {error}") from error
        try:
            async with stream:
                return await self._exchange(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise _Failure(f"{self._url}: connection broken") from error

    async def _exchange(self, stream: trio.abc.Stream) -> tuple[int, bytes]:
        import h11  # only who polls an URL pays for it

        client = h11.Connection(h11.CLIENT)
        headers = {"Host": self._authority, "Connection": "close", **self._headers}
        request = h11.Request(method="GET", target=self._target, headers=list(headers.items()))
        sent = (client.send(request) or b"") + (client.send(h11.EndOfMessage()) or b"")
        await stream.send_all(sent)
        status, body = 0, bytearray()
        try:
            while True:
                event = client.next_event()
                if event is h11.NEED_DATA:
                    client.receive_data(bytes(await stream.receive_some(_CHUNK_BYTES)))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
                    if len(body) > MAX_BYTES:
                        raise _Failure(f"{self._url}: more than {MAX_BYTES} bytes")
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return status, bytes(body)
        except h11.RemoteProtocolError as error:
            raise _Failure(f"{self._url}: {error}") from error
