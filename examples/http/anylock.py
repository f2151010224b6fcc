"""A client of "anylock serve", with the standard library only. Copy this file into your program.

    locks = Locks("http://127.0.0.1:7171")
    with locks.acquire("invoice/42", ttl=30, wait=60) as lease:
        charge(lease.token)              # pass the fencing token to what you write to
        lease.check()                    # raises Lost; call it before each step
    with locks.acquire("catalogue", shared=True, label="web-3"):  # beside other readers; others see the label
        read()

A thread renews the lease after a third of the time that is left. lease.lost is an Event that is set when the lease ends, at its deadline at the
latest, whatever the network does.
"""

import http.client
import json
import secrets
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request


class Held(Exception):
    """Another owner holds the key. The argument is the server's answer."""


class Lost(Exception):
    """The lease has ended without a release."""


class Unavailable(Exception):
    """The server or its store does not answer. Whether the request has taken effect is unknown."""


# Nothing that a request fails with means more than that its outcome is unknown.
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class Locks:
    def __init__(self, url, token=None):
        self.url, self.token = url.rstrip("/"), token

    def acquire(self, key, ttl=30.0, wait=0.0, shared=False, label=""):
        """Return a Lease on key (text or bytes). Raise Held if the key is busy for longer than wait seconds."""
        mode = {"shared": "true" if shared else "false", "label": label}
        owner = f"{secrets.token_hex(16)}@{socket.gethostname()}"[:128]
        end = time.monotonic() + wait
        while True:
            left = max(0.0, end - time.monotonic())
            sent = time.monotonic()
            try:
                # The server ends the wait before our own time limit does. The same owner again keeps our place in the queue.
                mode["wait_ms"] = int(min(left, 20.0) * 1000)
                status, answer = self._call("PUT", key, "", owner, ttl, mode, timeout=30.0)
            except _FAILURES as e:
                status, answer = 0, {"message": str(e)}
            if status == 200:
                return Lease(self, key, owner, ttl, sent, answer)
            busy = status in (0, 423, 429, 503)
            if busy and time.monotonic() < end:
                if status != 423:
                    mode["retry"] = "true"  # a grant that we never heard of may be in the way
                    time.sleep(min(0.5, max(0.0, end - time.monotonic())))
                continue
            if status == 0:  # a grant may be on its way
                self._release(key, owner)
            if status == 423:
                raise Held(answer)
            raise Unavailable(answer) if busy else ValueError(answer)

    def _release(self, key, owner, lease=""):
        for attempt in range(10):  # then the TTL ends the lease
            try:
                if self._call("DELETE", key, "", owner, more={"lease": lease}, timeout=5.0)[0] != 503:
                    return
            except _FAILURES:
                pass
            time.sleep(0.1 * attempt)

    def _call(self, method, key, action, owner, ttl=None, more={}, timeout=5.0):
        query = {"owner": owner, **more}
        if ttl is not None:
            query["ttl_ms"] = int(ttl * 1000)
        path = urllib.parse.quote(key, safe="")
        request = urllib.request.Request(
            f"{self.url}/v1/locks/{path}{action}?{urllib.parse.urlencode(query)}", method=method)
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return reply.status, json.loads(reply.read() or b"{}")
        except urllib.error.HTTPError as e:
            with e:
                return e.code, json.loads(e.read() or b"{}")


class Lease:
    def __init__(self, locks, key, owner, ttl, sent, answer):
        self.key, self.owner, self.token = key, owner, answer["token"]
        self._name = {"lease": answer["lease"]}  # lets a restarted server, or another one, continue the lease
        self.lost = threading.Event()
        self._locks, self._ttl = locks, ttl
        self._extend(sent, answer)
        self._released = threading.Event()
        threading.Thread(target=self._renew, daemon=True).start()

    def check(self):
        """Raise Lost if the lease has ended."""
        if self.lost.is_set() or time.monotonic() >= self._deadline:
            self.lost.set()
            raise Lost(self.key)

    def release(self):
        """Release the lease. Raise Lost if it had ended before."""
        self._released.set()
        self.check()
        self._locks._release(self.key, self.owner, **self._name)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.release()
        except Lost:
            if kind is None:
                raise

    def _extend(self, sent, answer):
        self._deadline = sent + answer["deadline_ms"] / 1000
        # Not a third of the TTL: some stores let a lease with a long TTL end sooner unless it is renewed.
        self._third = max(0.0, self._deadline - time.monotonic()) / 3

    def _renew(self):
        pause = self._third
        while not self._released.wait(min(pause, max(0.0, self._deadline - time.monotonic()))):
            left = self._deadline - time.monotonic()
            if left <= 0:
                self.lost.set()
                return
            sent = time.monotonic()
            try:
                status, answer = self._locks._call(
                    "POST", self.key, "/renew", self.owner, self._ttl, self._name, timeout=min(left, max(self._third, 0.5)))
            except _FAILURES:
                status, answer = 0, {}
            if status == 200:
                self._extend(sent, answer)
                pause = self._third
            elif status == 410:
                self._deadline = 0.0
                self.lost.set()
                return
            else:
                pause = min(1.0, self._ttl / 10)  # try again soon
