#!/usr/bin/env python3
"""A runtime extension of Cluster API in Python, with its standard library alone.

It holds back the creation of Clusters that somebody annotated, as the example quota
does in Go. What every extension needs is above the handlers; docs/sdk/other-languages.md
tells the rules that it follows.
"""

import argparse
import json
import logging
import os
import signal
import socket
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GROUP_VERSION = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
REQUEST_ID = "Runtime-Request-Id"
MAX_BODY = 20 << 20  # bytes, as callers send at most
SMALL_BODY = 64 << 10
MAX_CONCURRENT = 32  # calls; a large body becomes several times its size in memory
READ_TIMEOUT = 10  # seconds for the handshake and for each read of a request
BODY_TIMEOUT = 30  # seconds for a body as a whole
DRAIN_TIMEOUT = 35  # seconds for running calls at the end
HANDLERS = {}


class Refused(Exception):
    """A request that no handler gets, with its HTTP status."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class RetryAfter(Exception):
    """Holds the caller back; it asks again after so many seconds, 1 to 3600."""

    def __init__(self, seconds, message):
        super().__init__(message)
        self.seconds = seconds


def handler(hook, name, timeout_seconds=10):
    """Registers a function as the handler of a hook. Its name is a DNS label."""

    def register(function):
        HANDLERS[path_of(hook, name)] = (hook, name, timeout_seconds, function)
        return function

    return register


def path_of(hook, name=""):
    return "/".join(["", GROUP_VERSION, hook.lower(), name]).rstrip("/")


# --- The handlers ---


@handler("BeforeClusterCreate", "hold")
def hold(request):
    cluster = member(request, "cluster", dict, required=True)
    metadata = member(cluster, "metadata", dict)
    if why := member(metadata, "annotations", dict).get("example.com/hold"):
        raise RetryAfter(30, f"the annotation example.com/hold holds it back: {why}")


# --- What every extension needs ---


def member(object_, name, type_, required=False):
    """Returns a member of an object. One of another type is an error, never a guess."""
    value = object_.get(name)
    if value is None and not required:
        return type_()
    if not isinstance(value, type_):
        raise Refused(400, f"{name}: want {type_.__name__}, got {type(value).__name__}")
    return value


def discover(_):
    return {
        "handlers": [
            {
                "name": name,
                "requestHook": {"apiVersion": GROUP_VERSION, "hook": hook},
                "timeoutSeconds": timeout_seconds,
                "failurePolicy": "Fail",
            }
            for hook, name, timeout_seconds, _ in sorted(HANDLERS.values(), key=lambda h: h[1])
        ]
    }


def no_duplicates(pairs):
    """Two members of one name mean something else to every reader."""
    object_ = dict(pairs)
    if len(object_) != len(pairs):
        raise ValueError("a name is there twice in one object")
    return object_


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def decode(hook, body):
    """Reads a request. Members that it does not know are those of a newer caller."""
    try:
        request = json.loads(body.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused(400, "the body is not an object")
    for name, want in (("apiVersion", GROUP_VERSION), ("kind", hook + "Request")):
        if request.get(name, want) != want:
            raise Refused(400, f"{name} is {request[name]!r}, want {want!r}")
    if not all(isinstance(value, str) for value in member(request, "settings", dict).values()):
        raise Refused(400, "settings: want texts")
    return request


def text_of(error):
    """Its text as UTF-8 allows it: what cannot be decoded is no refusal."""
    return str(error).encode("utf-8", "replace").decode()


class Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # callers keep connections open
    server_version, sys_version = "extension", ""
    slots = threading.BoundedSemaphore(MAX_CONCURRENT)

    def do_GET(self):  # noqa: N802
        if self.path in ("/healthz", "/readyz"):
            self.reply(200, b"ok", "text/plain")
        else:
            self.reply(404, b"there is no page", "text/plain")

    def do_POST(self):  # noqa: N802
        path = urllib.parse.urlsplit(self.path).path
        if path == path_of("Discovery"):
            hook, function = "Discovery", discover
        else:
            hook, _, _, function = HANDLERS.get(path, (None, None, None, None))
        if not self.slots.acquire(blocking=False):
            self.close_connection = True
            self.reply(503, b"too many calls at once", "text/plain")
            return
        try:
            code, response = self.answer(hook, function)
            if hook:
                response = {"apiVersion": GROUP_VERSION, "kind": hook + "Response", **response}
            self.reply(code, json.dumps(response).encode(), "application/json")
        finally:
            self.slots.release()

    def answer(self, hook, function):
        """Calls a function: what it raises is Failure, never an answer without a body."""
        try:
            request = decode(hook, self.admit(function))
            return 200, {"status": "Success", **(function(request) or {})}
        except RetryAfter as retry:
            return 200, {"status": "Success", "retryAfterSeconds": retry.seconds, "message": text_of(retry)}
        except Refused as refused:
            return refused.code, {"status": "Failure", "message": text_of(refused)}
        except TimeoutError:
            self.close_connection = True
            return 408, {"status": "Failure", "message": "the request did not arrive in time"}
        except Exception:  # noqa: BLE001
            # The caller learns no more: the text may have what it must not see.
            logging.exception("%s failed, request %s", self.path, self.headers.get(REQUEST_ID))
            return 200, {"status": "Failure", "message": "the handler failed; see the log of the extension"}

    def admit(self, function):
        """Returns the body. A small one is read before a refusal, too: an answer to a
        request that was not read may be lost with its connection."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            self.close_connection = True  # nobody can tell where the next request begins
            raise Refused(411, "a Content-Length is required")
        length = int(length)
        body = self.read_body(length) if length <= SMALL_BODY else None
        self.close_connection |= body is None
        if length > MAX_BODY:
            raise Refused(413, f"the body is larger than {MAX_BODY} bytes")
        if self.server.wants_certificate and not self.connection.getpeercert():
            raise Refused(401, "a client certificate of a trusted CA is required")
        if function is None:
            raise Refused(404, "there is no handler at this path; see the discovery hook")
        return self.read_body(length) if body is None else body

    def read_body(self, length):
        body, deadline = bytearray(), time.monotonic() + BODY_TIMEOUT
        while len(body) < length:
            part = self.rfile.read1(length - len(body))
            if not part or time.monotonic() > deadline:
                raise TimeoutError
            body += part
        return body

    def reply(self, code, body, content_type):
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        request_id = self.headers.get(REQUEST_ID, "")
        if 0 < len(request_id) <= 128 and request_id.isascii() and request_id.isprintable():
            self.send_header(REQUEST_ID, request_id)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # noqa: A002
        logging.info("%s %s", self.client_address[0], format % args)


class Server(ThreadingHTTPServer):
    """Serves TLS. Handshakes are made in the thread of their connection: who says nothing
    stops nobody else."""

    request_queue_size = 128

    def __init__(self, address, cert_file, key_file, client_ca_file):
        self.files = [f for f in (cert_file, key_file, client_ca_file) if f]
        self.cert_file, self.key_file, self.client_ca_file = cert_file, key_file, client_ca_file
        self.wants_certificate = bool(client_ca_file)
        self.lock, self.read, self.context = threading.Lock(), self.stamps(), self.load()
        super().__init__(address, Call)

    def stamps(self):
        return [os.stat(f).st_mtime_ns for f in self.files]

    def load(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert_file, self.key_file)
        if self.client_ca_file:
            context.load_verify_locations(self.client_ca_file)
            context.verify_mode = ssl.CERT_OPTIONAL  # probes of a kubelet have none
        return context

    def current(self):
        """The certificates of now: something renews them. Bad ones leave the last."""
        with self.lock:
            try:
                stamps = self.stamps()
                if stamps != self.read:
                    self.context, self.read = self.load(), stamps
            except (OSError, ssl.SSLError) as error:
                logging.error("certificates cannot be read again: %s", error)
            return self.context

    def finish_request(self, request, client_address):
        request.settimeout(READ_TIMEOUT)
        # Small answers go at once: a call is one round trip.
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        with self.current().wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def handle_error(self, request, client_address):
        logging.info("a connection of %s failed", client_address[0], exc_info=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=9443, help="port to listen on; 0 is any free one")
    parser.add_argument("--cert-file", default="tls.crt", help="serving certificate in PEM form, read again when it changes")
    parser.add_argument("--key-file", default="tls.key", help="its key")
    parser.add_argument("--client-ca-file", help="CAs of callers in PEM form; anyone may call without")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    server = Server((options.address, options.port), options.cert_file, options.key_file, options.client_ca_file)
    # From a thread of its own: shutdown waits for the loop that the signal interrupts.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"https://{options.address}:{server.server_address[1]}", flush=True)
    server.serve_forever()
    server.server_close()
    end = time.monotonic() + DRAIN_TIMEOUT
    for _ in range(MAX_CONCURRENT):  # calls that run hold one each
        Call.slots.acquire(timeout=max(0, end - time.monotonic()))


if __name__ == "__main__":
    main()
