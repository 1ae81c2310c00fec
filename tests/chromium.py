"""A headless Chromium that the tests steer, over the pipe of its own protocol: nothing else needs to be installed."""

import base64
import fcntl
import json
import os
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def executable():
    """The browser's path; a test that needs one is skipped where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("Chromium is not installed: pages are not looked at. On Debian: apt-get install chromium")
    return found


def _high_pipe():
    """A pipe whose descriptors are out of the way of 3 and 4."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high


class Chromium:
    """One page of a browser: `open` it, ask it in JavaScript, take its picture. Its console is in `messages`."""

    def __init__(self, profile):
        to_read, self._write = _high_pipe()
        self._read, to_write = _high_pipe()

        def wire():  # the browser reads on its descriptor 3, and writes on 4
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self._process = subprocess.Popen(
            [executable(), *SWITCHES, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=wire, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest, self._session, self.messages = 0, b"", None, []
        page = next(t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method, **params):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser ended"
            self._rest += chunk
        first, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(first)
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.messages.append(message["params"])
        if message.get("method") == "Page.loadEventFired":
            self._loaded = True
        return message

    def open(self, path, width=1280, scheme="light", media="screen"):
        """Show a file in a window of this width, in the light or the dark."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self("Emulation.setEmulatedMedia", media=media, features=features)
        self._loaded = False
        self("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._next()

    def ask(self, expression):
        """The value of an expression in JavaScript."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key, times=1):
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9}[key])

    def screenshot(self, path):
        """The whole page as a .png file."""
        taken = self("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self):
        return base64.b64decode(self("Page.printToPDF")["data"])

    def close(self):
        self._session = None
        try:
            self("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)
