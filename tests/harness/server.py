#!/usr/bin/env python3
"""A server for tests: server.py PORT [--status N] [--after SECONDS] [--stubborn] [--family]

--status N        the status of every answer (200)
--after SECONDS   listen only then
--stubborn        ignore TERM
--family          have a child in the group and a daemon outside of it

POST /v1/completions answers with what it was asked, for the model "tiny". Sockets and no more: it is
started dozens of times and has to start quickly.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time


def completion(path: str, body: bytes) -> bytes:
    import json

    question = json.loads(body)
    if path != "/v1/completions" or question["model"] != "tiny":
        return b'{"error": "no such model"}'
    text = f"{question['temperature']} {question['seed']} {question['max_tokens']} "
    text += f"{len(question['prompt'])} {question['prompt'][:20]}"
    return json.dumps({"choices": [{"text": text}]}).encode()


def answer(connection: socket.socket, status: int) -> None:
    with connection, connection.makefile("rb") as request:
        words = request.readline().decode().split()
        if len(words) != 3:  # somebody who only wanted to know whether the port is open
            return
        method, path, _ = words
        length = 0
        while (line := request.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = request.read(length)
        text = completion(path, body) if method == "POST" else b"state of the server: %d" % status
        connection.sendall(b"HTTP/1.0 %d Test\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text))


def family() -> None:
    if os.fork() == 0:
        time.sleep(600)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()


def option(name: str, default: float) -> float:
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def main() -> None:
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--family" in sys.argv:
        family()
    print("server: starting", flush=True)
    time.sleep(option("--after", 0))
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
        while True:
            answer(server.accept()[0], int(option("--status", 200)))


main()
