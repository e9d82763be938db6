"""One program that stands in for vLLM, LMCache, SGLang and the tools around them.

It is started through small executables on the PATH (see `conftest.py`), never imported. The servers speak the
real ones' HTTP and take their command lines, and a store put by one engine is really found by another: engine
and cache server talk over the cache server's own port. What goes wrong is chosen by STANDIN_FAULT:

never-ready   the engine is alive, writes to its log, and never answers /health with 200
dies          the engine says so and ends with status 3
forgets       the cache server never finds anything
wrong-warm    an answer out of the cache differs from the computed one
empty         the engine answers with nothing
no-metrics    the engine's counters cannot be read
refuses       the engine answers requests with status 500
no-peer       the coordinator lists nobody
slow-cache    the benchmarks find the cached engine slower than the plain one
drops         the benchmark loses a request
bad-score     the second evaluation scores lower than the first
keeps         the cache server keeps what it was told to clear
no-result     the artifact store holds no results
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zlib import crc32

FAULT = os.environ.get("STANDIN_FAULT", "")
STATE = Path(os.environ["STANDIN_STATE"])


def main(program: str, arguments: list[str]) -> int:
    with (STATE / "calls.jsonl").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps([program, *arguments]) + "\n")
    options = parsed(arguments)
    match [program, *arguments]:
        case ["vllm" | "sglang", "serve", *_]:
            return engine(options, arguments)
        case ["lmcache", "server", *_]:
            return cache_server(options)
        case ["lmcache", "coordinator", *_]:
            return coordinator(options)
        case ["lmcache", "bench", "engine", *_]:
            return workload(options)
        case ["vllm", "bench", "serve", *_]:
            return serving_benchmark(options)
        case ["lm_eval", *_]:
            return evaluation(options)
        case ["buildkite-agent", "artifact", "download", pattern, target]:
            return download(pattern, target)
    print(f"{program}: the stand-in does not know {arguments}", file=sys.stderr)
    return 64


def parsed(arguments: list[str]) -> dict[str, str]:
    """`--name value` as a map; a flag without a value is an empty text."""
    options: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            following = arguments[index + 1] if index + 1 < len(arguments) else "--"
            options[argument[2:]] = "" if following.startswith("--") else following
    return options


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        return str(response.read().decode())


def post(url: str, body: object) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as response:
        return str(response.read().decode())


class Served(BaseHTTPRequestHandler):
    """Hands (method, path, body) to the server's `respond`, which returns status and body."""

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def handle_one(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.server.respond(method, self.path, json.loads(body) if body else None)  # type: ignore[attr-defined]
        text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self.handle_one("GET")

    def do_POST(self) -> None:
        self.handle_one("POST")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def listen(port: int, respond: object) -> Server:
    server = Server(("127.0.0.1", port), Served)
    server.respond = respond  # type: ignore[attr-defined]
    return server


def run_until_stopped(*servers: Server) -> int:
    (STATE / "pids").mkdir(exist_ok=True)
    (STATE / "pids" / str(os.getpid())).touch()
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    while not stopped.wait(0.5):
        pass
    return 0


def engine(options: dict[str, str], arguments: list[str]) -> int:
    print(f"the stand-in engine starts with {arguments}", flush=True)
    if FAULT == "dies":
        print("CUDA error: the stand-in has no device", flush=True)
        return 3
    model = options.get("model-path") or arguments[1]
    transfer = json.loads(options.get("kv-transfer-config") or "{}")
    cache = transfer.get("kv_connector_extra_config", {}).get("lmcache.mp.port")
    if "lmcache-config-file" in options:
        cache = int(Path(options["lmcache-config-file"]).read_text(encoding="utf-8").split()[-1])
    inside: set[str] = set()
    hits = {"tokens": 0}

    def found(prompt: str) -> bool:
        key = str(crc32(prompt.encode()))
        if cache is not None:
            try:
                return json.loads(post(f"http://127.0.0.1:{cache}/lookup", [model, key, len(prompt)])) is True
            except OSError:
                return False
        known = bool(transfer) and key in inside and FAULT != "forgets"
        inside.add(key)
        hits["tokens"] += len(prompt) // 4 if known else 0
        return known

    def respond(method: str, path: str, body: dict[str, object] | None) -> tuple[int, object]:
        if path == "/health":
            return (503 if FAULT == "never-ready" else 200), ""
        if path == "/metrics" and FAULT == "no-metrics":
            return 500, ""
        if path == "/metrics":
            return 200, f'vllm:external_prefix_cache_hits_total{{model_name="a b"}} {float(hits["tokens"])}\n'
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": model}]}
        if path == "/flush_cache":
            return 200, "flushed"
        if path == "/has-cache":
            return 200, bool(transfer) or cache is not None
        if body is None or not path.startswith("/v1/"):
            return 404, {"error": path}
        if body.get("model") != model:
            return 404, {"error": {"message": "no such model"}}
        if int(str(body.get("max_tokens", 1))) < 0:
            return 400, {"error": {"message": "max_tokens"}}
        if FAULT == "refuses":
            return 500, {"error": {"message": "the stand-in refuses"}}
        return 200, completion(path, body)

    def completion(path: str, body: dict[str, object]) -> object:
        prompt = str(body.get("prompt") or body.get("messages"))
        warm = found(prompt)
        names = [name for name in ("Ysolde", "Tancred") if name in prompt]
        text = f" {' and '.join(names)} {crc32(''.join(sorted(prompt)).encode()) % 1000}"
        text = "" if FAULT == "empty" else text + (" warm" if warm and FAULT == "wrong-warm" else "")
        if body.get("stream"):
            return f"data: {json.dumps({'choices': [{'text': text}]})}\n\ndata: [DONE]\n\n"
        message = {"role": "assistant", "content": text}
        return {"choices": [{"message": message} if path.endswith("/chat/completions") else {"text": text}]}

    if FAULT == "never-ready":
        print("the stand-in loads its weights for ever", flush=True)
    return run_until_stopped(listen(int(options["port"]), respond))


def cache_server(options: dict[str, str]) -> int:
    disk = Path(json.loads(options["l2-adapter"])["base_path"]) if "l2-adapter" in options else None
    memory: dict[str, int] = {}
    names = (
        "l1_write_chunks",
        "l1_read_chunks",
        "lookup_hit_tokens",
        "lookup_hit_l2_tokens",
        "l2_store_completed_requests",
    )
    counters = dict.fromkeys(names, 0)
    home = options.get("coordinator-url")
    me = options.get("instance-id", "")

    def peers() -> list[str]:
        listed = json.loads(get(f"{home}/instances"))["instances"] if home else []
        return [str(one["transfer"]) for one in listed if one["instance_id"] != me and one["transfer"]]

    def look(key: str, length: int) -> bool:
        if FAULT == "forgets":
            return False
        if key in memory or any(json.loads(get(f"http://{peer}/peek/{key}")) for peer in peers()):
            counters["lookup_hit_tokens"] += length // 4
            return True
        if disk and (disk / f"{key}.data").exists():
            counters["lookup_hit_tokens"] += length // 4
            counters["lookup_hit_l2_tokens"] += length // 4
            return True
        return False

    def respond(method: str, path: str, body: list[object] | None) -> tuple[int, object]:
        if path == "/lookup" and body:
            return 200, served(f"{body[0]}-{body[1]}".replace("/", "-"), int(str(body[2])))
        if path.startswith("/peek/"):
            return 200, path.removeprefix("/peek/") in memory
        if path == "/healthcheck":
            return 200, {"status": "healthy"}
        if path == "/status":
            state = {"is_healthy": True, "chunk_size": int(options["chunk-size"])}
            return 200, {**state, "p2p_peer_count": len(peers()) if home else 0}
        if path == "/conf":
            return 200, {"mp": {"http_port": int(options["http-port"])}}
        if path == "/version":
            return 200, '"stand-in"'
        if path == "/clear-cache" and method == "POST":
            if FAULT != "keeps":
                memory.clear()
            return 200, {"status": "ok"}
        if path == "/metrics":
            return 200, "".join(
                f'lmcache_mp_{name}_total{{cache_salt=""}} {n}\n' for name, n in counters.items() if n
            )
        return 404, {"error": path}

    # An engine's blend of known documents counts as found, whatever their order.
    def served(key: str, length: int) -> bool:
        if options.get("engine-type") == "blend":
            key = str(length)
        hit = look(key, length)
        if hit:
            counters["l1_read_chunks"] += 2
        else:
            memory[key] = length
            counters["l1_write_chunks"] += 2
            if disk:
                (disk / f"{key}.data").write_bytes(b"kv")
                counters["l2_store_completed_requests"] += 1
        return hit

    if home:
        threading.Thread(target=announce, args=(home, me, options), daemon=True).start()
    endpoints = [int(options["port"]), int(options["http-port"])]
    if "p2p-advertise-url" in options:
        endpoints.append(int(options["p2p-advertise-url"].rpartition(":")[2]))
    return run_until_stopped(*(listen(port, respond) for port in endpoints))


def announce(home: str, me: str, options: dict[str, str]) -> None:
    while True:
        post(f"{home}/beat", {"instance_id": me, "transfer": options.get("p2p-advertise-url", "")})
        time.sleep(0.1)


def coordinator(options: dict[str, str]) -> int:
    seen: dict[str, tuple[float, dict[str, object]]] = {}

    def respond(method: str, path: str, body: dict[str, object] | None) -> tuple[int, object]:
        if path == "/beat" and body:
            seen[str(body["instance_id"])] = (time.monotonic(), body)
        # A tenth of the real timeout: the tests have no five seconds to spare.
        patience = float(options.get("instance-timeout", 30)) / 10
        alive = [body for beat, body in dict(seen).values() if time.monotonic() - beat < patience]
        return 200, {"instances": [] if FAULT == "no-peer" else alive, "status": "healthy"}

    return run_until_stopped(listen(int(options["port"]), respond))


def ask(base: str, model: str, prompt: str) -> None:
    post(f"{base}/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 1})


def first_token_ms(base: str) -> float:
    cached = json.loads(get(f"{base}/has-cache"))
    return 10.0 if bool(cached) != (FAULT == "slow-cache") else 40.0


def workload(options: dict[str, str]) -> int:
    base = options["engine-url"]
    for document in ("one", "two", "one", "two"):
        ask(base, options["model"], f"{options['workload']} {document}")
    summary = {"results": {"mean_ttft_ms": first_token_ms(base)}}
    (Path(options["output-dir"]) / "bench_summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return 0


def serving_benchmark(options: dict[str, str]) -> int:
    base = options["base-url"]
    ask(base, options["model"], f"benchmark {options['seed']}")
    completed = int(options["num-prompts"]) - (FAULT == "drops")
    result = {"completed": completed, "mean_ttft_ms": first_token_ms(base)}
    target = Path(options["result-dir"]) / options["result-filename"]
    target.write_text(json.dumps(result), encoding="utf-8")
    return 0


def evaluation(options: dict[str, str]) -> int:
    settings = dict(item.split("=", 1) for item in options["model_args"].split(","))
    ask(settings["base_url"].removesuffix("/v1/completions"), settings["model"], "how many apples?")
    folder = Path(options["output_path"])
    folder.mkdir(parents=True, exist_ok=True)
    score = 0.4 if FAULT == "bad-score" and folder.name == "cached" else 0.6
    report = {"results": {"gsm8k": {"exact_match,strict-match": score}}}
    (folder / "results_now.json").write_text(json.dumps(report), encoding="utf-8")
    return 0


def download(pattern: str, target: str) -> int:
    if FAULT == "no-result":
        return 1
    for source in sorted((STATE / "artifacts").glob(pattern)):
        copy = Path(target) / source.relative_to(STATE / "artifacts")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
