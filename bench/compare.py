"""The measuring part of bench/compare; see there for how it is called.

Starts every server once, then goes round: each repetition runs each case against each server, so that
drift of the machine hits all alike. A run counts only if the load generator saw what the case asks for.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOLLGATE = os.environ.get("TOLLGATE", "target/release/tollgate")
BACKEND = "127.0.0.1:19000"
SERVER_CORE, LOAD_CORE = "0", "1"
# Long enough for every server to give back what only the handshakes needed.
IDLE_SECONDS = 10

S13 = "TLS_AES_128_GCM_SHA256"
S12 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
TLS13 = ["--tls13", "--suite", S13, "--group", "x25519"]
# In TLS 1.2 the groups also say which curves a certificate may have: P-256 must be among them.
TLS12 = ["--tls12", "--suite", S12]

# name, title, unit, load arguments, and what every handshake must have been:
# kind, version, suite, certificate. Modes in which it is measured.
CASES = [
    ("fresh-1.3-ecdsa", "fresh TLS 1.3, ECDSA P-256", "us",
     ["tps", "--hit-rate", "0", *TLS13], ("full", "TLSv1.3", S13, "ecdsa-p256")),
    ("fresh-1.3-rsa", "fresh TLS 1.3, RSA-2048", "us",
     ["tps", "--hit-rate", "0", "--rsa-only", *TLS13], ("full", "TLSv1.3", S13, "rsa-2048")),
    ("resumed-1.3", "resumed TLS 1.3", "us",
     ["tps", "--hit-rate", "1", *TLS13], ("resumed", "TLSv1.3", S13, None)),
    ("resumed-1.2", "resumed TLS 1.2", "us",
     ["tps", "--hit-rate", "1", *TLS12], ("resumed", "TLSv1.2", S12, None)),
    ("keep-alive", "keep-alive request, 1 KB", "us",
     ["requests", *TLS13], ("full", "TLSv1.3", S13, "ecdsa-p256")),
    ("download", "download", "s/GB",
     ["download", "--path", "/bytes/104857600", "--connections", "4", *TLS13],
     ("full", "TLSv1.3", S13, "ecdsa-p256")),
    ("idle", "user memory per idle connection", "KB",
     ["hold", *TLS13], ("full", "TLSv1.3", S13, "ecdsa-p256")),
]


class Server:
    """One server: how it is started and what it is watched by."""

    def __init__(self, name, mode, port, command, rsa_port=None):
        self.name, self.mode, self.port = name, mode, port
        self.command = command
        self.rsa_port = rsa_port or port
        self.process = None

    def key(self):
        return f"{self.name} {self.mode}"


def servers(folder):
    def config(name, port, **more):
        text = (HERE / "peers" / name).read_text()
        values = {
            "DIR": str(folder), "LISTEN": f"127.0.0.1:{port}", "PORT": str(port),
            "BACKEND": BACKEND, "BACKEND_PORT": BACKEND.split(":")[1],
            "FILES": str(min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])), **more,
        }
        for word, value in values.items():
            text = text.replace(f"@{word}@", value)
        target = folder / f"{port}-{name}"
        target.write_text(text)
        return str(target)

    def nginx(name, port):
        return ["nginx", "-p", str(folder), "-c", config(name, port)]

    def haproxy(name, port, rsa_port):
        return ["haproxy", "-db", "-q", "-f", config(name, port, LISTEN_RSA=f"127.0.0.1:{rsa_port}")]

    tollgate = str(pathlib.Path(TOLLGATE).resolve())
    listed = [
        Server("nginx", "http", 19101, nginx("nginx-http.conf", 19101)),
        Server("haproxy", "http", 19102, haproxy("haproxy-http.cfg", 19102, 19112), 19112),
        Server("tollgate", "http", 19103, [tollgate, "serve", config("tollgate-http.yaml", 19103)]),
        Server("nginx", "tcp", 19201, nginx("nginx-stream.conf", 19201)),
        Server("haproxy", "tcp", 19202, haproxy("haproxy-tcp.cfg", 19202, 19212), 19212),
        Server("hitch", "tcp", 19203, ["hitch", f"--config={config('hitch.conf', 19203, KIND='ecdsa')}"], 19213),
        Server("tollgate", "tcp", 19204, [tollgate, "serve", config("tollgate-tcp.yaml", 19204)]),
    ]
    # Hitch holds one certificate per name: a second one for RSA.
    second = Server("hitch-rsa", "tcp", 19213, ["hitch", f"--config={config('hitch.conf', 19213, KIND='rsa')}"])
    return listed, second


def make_certificates(folder):
    subject = ["-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    for kind, key in [("ecdsa", ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]), ("rsa", ["rsa:2048"])]:
        chain, secret = folder / f"{kind}.pem", folder / f"{kind}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", *key, *subject, "-keyout", secret, "-out", chain],
                       check=True, capture_output=True)
        secret.chmod(0o600)
        both = chain.read_text() + secret.read_text()
        (folder / f"{kind}.both").write_text(both)


def wait_for(port, process, log):
    for _ in range(100):
        if process.poll() is not None:
            sys.exit(f"the server for port {port} ended at once: {log.read_text()[-2000:]}")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port} after 10 s: {log.read_text()[-2000:]}")


def start(command, core, port, folder, running):
    log = folder / f"{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(["taskset", "-c", core, *command], cwd=folder,
                                   stdout=output, stderr=output)
    running.append(process)
    wait_for(port, process, log)
    return process


def run_load(server, case, options):
    name, _, _, arguments, _ = case
    port = server.rsa_port if name.endswith("rsa") else server.port
    process = server.second if port != server.port and server.second else server.process
    command = ["taskset", "-c", LOAD_CORE, str(pathlib.Path(options.load).resolve()), "load",
               *arguments[:1], f"127.0.0.1:{port}", "--insecure", "--server-name", "localhost",
               "--watch", str(process.pid), "--json", *arguments[1:],
               "--duration", f"{IDLE_SECONDS if arguments[0] == 'hold' else options.seconds}s", "--warm-up", "0.5s"]
    if arguments[0] == "hold":
        command += ["--count", str(options.held), "--connections", "32"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.strip():
        return None, done.stderr.strip()[-500:]
    return json.loads(done.stdout), None


def wrong(result, case):
    """Why a run is not what it should be, or None."""
    if result["missed"]:
        return "; ".join(result["missed"])
    kind, version, suite, certificate = case[4]
    for seen in result["handshakes"]["kinds"]:
        if (seen["kind"], seen["version"], seen["suite"], seen["certificate"]) != (kind, version, suite, certificate):
            return f"{seen['count']} handshakes were {seen['kind']} {seen['version']} {seen['suite']} {seen['certificate']}"
        if seen["group"] not in ("x25519", None):
            return f"group {seen['group']}"
    return None


def figures(result, case):
    """User and system part of the figure of a run; for memory there is one part."""
    server = result["server"]
    if case[0] == "idle":
        return [server["memory_bytes_per_connection"] / 1024]
    if case[0] == "download":
        gigabytes = result["body_bytes"] / 1e9
        return [server["user_seconds"] / gigabytes, server["system_seconds"] / gigabytes]
    return [server["user_micros_per_operation"], server["system_micros_per_operation"]]


def measure(listed, options):
    kept = {}
    problems = []
    others = []
    for repetition in range(options.repetitions):
        others.append(busy())
        if others[-1] > 0.1:
            print(f"other processes take {others[-1]:.0%} of this machine: stop them for figures worth quoting",
                  file=sys.stderr)
        for case in CASES:
            if options.cases and case[0] not in options.cases:
                continue
            if case[0] == "idle" and repetition >= options.idle_repetitions:
                continue
            for server in listed:
                result, broken = run_load(server, case, options)
                fault = broken or wrong(result, case)
                label = f"{repetition + 1}/{options.repetitions} {case[0]:16} {server.key():14}"
                if fault:
                    problems.append(f"{case[0]}, {server.key()}: {fault}")
                    print(f"{label} not counted: {fault}", file=sys.stderr)
                    continue
                parts = figures(result, case)
                kept.setdefault(case[0], {}).setdefault(server.key(), []).append(
                    {"figure": sum(parts), "parts": parts, "per_second": result["per_second"],
                     "client_cpu_share": result["client_cpu_seconds"] / max(result["seconds"], 1e-9),
                     "kinds": result["handshakes"]["kinds"]})
                print(f"{label} {sum(parts):8.2f} {case[2]}", file=sys.stderr)
    return kept, problems, others


def median_run(runs):
    return {
        "median": statistics.median(run["figure"] for run in runs),
        "parts": [statistics.median(run["parts"][i] for run in runs) for i in range(len(runs[0]["parts"]))],
        "least": min(run["figure"] for run in runs),
        "most": max(run["figure"] for run in runs),
        "runs": len(runs),
    }


def version_of(*command):
    if not shutil.which(command[0]):
        return f"{command[0]} not there"
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()[0]


def busy():
    """Share of both cores' time that other processes took over one second: they cost the figures their worth."""
    def idle_and_all():
        times = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return times[3] + times[4], sum(times)
    idle, total = idle_and_all()
    time.sleep(1)
    idle_after, total_after = idle_and_all()
    return round(1 - (idle_after - idle) / max(total_after - total, 1), 2)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown")
    family = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
              if line.split("\t")[0] in ("cpu family", "model", "stepping")][:3]
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{model}, family/model/stepping {'/'.join(family)}",
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "versions": {
            "tollgate": version_of(TOLLGATE, "--version") + os.environ.get("TOLLGATE_COMMIT", ""),
            "nginx": version_of("nginx", "-v"),
            "haproxy": version_of("haproxy", "-v"),
            "hitch": version_of("hitch", "--version"),
            "openssl": version_of("openssl", "version"),
        },
    }


def table(summary, facts, problems, options):
    lines = [f"# CPU and memory per TLS operation, {facts['date']}", "",
             f"{facts['processor']}, {facts['cores']} cores, Linux {facts['kernel']}.  ",
             "; ".join(facts["versions"].values()) + ".", "",
             f"Made by `bench/compare`: one worker on core {SERVER_CORE}, load and backend on core {LOAD_CORE}; "
             f"medians of {options.repetitions} interleaved repetitions of {options.seconds} s. The figure is CPU time of the "
             "server per operation, with its user + system parts; an operation in tcp mode and a fresh or resumed one in "
             "http mode is connect, handshake, one request with a 1 KB reply, close. Every run was checked by the client "
             "for kind, version, suite, group and certificate of each handshake.", ""]
    if facts["busy_with_others"] > 0.1:
        lines += [f"**The machine was not idle: other processes took up to {facts['busy_with_others']:.0%} of it. "
                  "Read the ratios, not the figures.**", ""]
    for mode, peers in [("http", ["nginx", "haproxy", "tollgate"]), ("tcp", ["nginx", "haproxy", "hitch", "tollgate"])]:
        lines += [f"## {mode} mode", "",
                  "| | " + " | ".join(peers) + " | of nginx | of the best peer |",
                  "|---|" + "---|" * (len(peers) + 2)]
        for name, title, unit, _, _ in CASES:
            found = {peer: summary.get(name, {}).get(f"{peer} {mode}") for peer in peers}
            if not any(found.values()):
                continue
            cells = [cell(found[peer], unit) for peer in peers]
            best = min((entry["median"] for peer, entry in found.items() if entry and peer != "tollgate"), default=None)
            nginx = found["nginx"]["median"] if found["nginx"] else None
            lines.append(f"| {title}, {'µs' if unit == 'us' else unit} | " + " | ".join(cells)
                         + f" | {ratio(found['tollgate'], nginx)} | {ratio(found['tollgate'], best)} |")
        lines.append("")
    if problems:
        lines += ["Runs that were not what they should be, and do not count:", ""]
        lines += [f"- {problem}" for problem in dict.fromkeys(problems)] + [""]
    return "\n".join(lines)


def cell(entry, unit):
    if not entry:
        return "-"
    digits = {"us": 1, "s/GB": 2, "KB": 1}[unit]
    if len(entry["parts"]) == 1:
        return f"{entry['median']:.{digits}f}"
    user, system = entry["parts"]
    return f"{entry['median']:.{digits}f} ({user:.{digits}f} + {system:.{digits}f})"


def ratio(entry, base):
    return f"{entry['median'] / base:.2f}" if entry and base else "-"


def arguments():
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--held", type=int, default=9000, help="connections held for the memory figure")
    parser.add_argument("--quick", action="store_true", help="one repetition of 1 s, 1000 held")
    parser.add_argument("--cases", nargs="*", help=", ".join(case[0] for case in CASES))
    parser.add_argument("--servers", nargs="*", help="such as 'nginx http' 'tollgate tcp'; default all")
    parser.add_argument("--load", default=TOLLGATE, help="program with the load generator; default $TOLLGATE")
    parser.add_argument("--out", default=str(HERE / "results"), help="folder for the results; - prints only")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.seconds, options.held = 1, 1, 1000
    # What a connection holds hardly varies, and a server that has once held thousands has its heap grown:
    # only the first round is a fresh server's.
    options.idle_repetitions = 1
    return options


def main():
    options = arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    running = []
    with tempfile.TemporaryDirectory(prefix="tollgate-compare-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        make_certificates(folder)
        try:
            start([str(pathlib.Path(options.load).resolve()), "load", "backend", BACKEND],
                  LOAD_CORE, int(BACKEND.split(":")[1]), folder, running)
            listed, second = servers(folder)
            if options.servers:
                listed = [server for server in listed if server.key() in options.servers]
            for server in [*listed, second]:
                server.process = start(server.command, SERVER_CORE, server.port, folder, running)
            for server in listed:
                server.second = second.process if server.rsa_port == second.port else None
            kept, problems, others = measure(listed, options)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
    summary = {case: {key: median_run(runs) for key, runs in found.items()} for case, found in kept.items()}
    facts = machine()
    facts["busy_with_others"] = max(others)
    text = table(summary, facts, problems, options)
    print(text)
    if options.out != "-":
        out = pathlib.Path(options.out)
        out.mkdir(exist_ok=True)
        stem = out / f"{facts['date']}-compare"
        stem.with_suffix(".md").write_text(text)
        stem.with_suffix(".json").write_text(json.dumps(
            {"machine": facts, "seconds": options.seconds, "repetitions": options.repetitions, "held": options.held,
             "summary": summary, "runs": kept, "problems": problems}, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
