"""A headless browser over a pipe: enough of the DevTools protocol to use a page as a person does.

Needs chromium, under its Debian name or at ``$CHROMIUM``; without it these tests are skipped and say so
(``.ci/lanes/browser.sh`` installs it).
"""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
REPLY_SECONDS = 30.0
KEYS = {
    " ": ("Space", 32),
    "ArrowRight": ("ArrowRight", 39),
    "ArrowLeft": ("ArrowLeft", 37),
    "Home": ("Home", 36),
    "End": ("End", 35),
    "Tab": ("Tab", 9),
    "Enter": ("Enter", 13),
    "Escape": ("Escape", 27),
    "+": ("Equal", 187),
    "0": ("Digit0", 48),
    "/": ("Slash", 191),
}


class Page:
    """One page in the browser. ``errors`` collects what its console and its scripts complain about."""

    def __init__(self, folder: Path) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()

        def wire() -> None:
            os.dup2(to_child, 30)
            os.dup2(from_child, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self._process = subprocess.Popen(
            [CHROMIUM, ""
            "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
             "--no-first-run", "--force-color-profile=srgb", f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=wire, close_fds=True, pass_fds=(3, 4),
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._number = 0
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, **params: object) -> dict:
        """One command and its reply."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + REPLY_SECONDS
        while True:
            reply = self._receive(until)
            if reply.get("id") == self._number:
                assert "error" not in reply, reply["error"]
                return reply["result"]
            self._note(reply)

    def _receive(self, until: float) -> dict:
        while b"\0" not in self._buffer:
            assert time.monotonic() < until, "the browser does not answer"
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(
                params["exceptionDetails"].get("exception", {}).get("description", "exception")
            )
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path: Path, fragment: str = "") -> float:
        """Load a page; returns the seconds until it is usable."""
        self.send("Page.navigate", url="about:blank")  # so that a new fragment loads the page anew
        begin = time.monotonic()
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait("Boolean(document.documentElement && document.documentElement.dataset.loaded)")
        return time.monotonic() - begin

    def run(self, script: str) -> object:
        """The value of an expression."""
        reply = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, script: str, seconds: float = 15.0) -> None:
        """Wait until an expression holds."""
        until = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < until, f"did not come about: {script}"
            self.run("new Promise(requestAnimationFrame)")

    def settle(self) -> None:
        """Let the page paint twice."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def key(self, name: str, *, shift: bool = False) -> None:
        """Press and release a key."""
        code, number = KEYS.get(name, (f"Key{name.upper()}", ord(name[0].upper())))
        common = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if name == "Enter" else {"text": name} if len(name) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size and the reader's theme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.settle()

    def picture(self, path: Path) -> None:
        """Save what is on the screen."""
        shot = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(shot))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A browser's page; skipped where there is no chromium."""
    if not CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium, or set CHROMIUM to its path")
    opened = Page(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()
