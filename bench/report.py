#!/usr/bin/env python3
"""Runs the benches and writes what they found as one HTML page, with a roofline plot (also a file of its own).

    bench/report.py [--build DIR] [--peers VENV] [--threads N] [--scale X] [--clock cpu] [--out DIR] [--again]

`make bench` runs it. --peers is a Python environment: MKL is loaded from its lib/ (pip install mkl), onnxruntime, OpenVINO
and PyTorch time the model and attention beside libamp where they are installed there; what is not is marked as not
measured. --scale multiplies the time that is given to each figure. --clock cpu counts CPU time of one thread, for a busy
machine. --again does not run a bench whose figures are in DIR already. Besides the page, DIR receives roofline.svg and the
JSON of each bench. Only Python's standard library is needed.
"""

import argparse
import html
import json
import math
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INK, FAINT, GRID = "#1f2933", "#697586", "#e4e7eb"
CONVOLUTIONS = ("resnet50", "mobilenet_v2", "text_detector")
BATCHES = (1, 8)
COLORS = {"ours bf16": "#0b7285", "ours f32": "#74b816", "oneDNN": "#e8590c", "MKL": "#9c36b5"}


# ---- Running ---------------------------------------------------------------------------------------------------------


class Runner:
    def __init__(self, options):
        self.o, self.missing, self.seconds = options, {}, {}

    def path(self, name):
        return os.path.join(self.o.out, name + ".json")

    def run(self, name, command, to_file=True, environment=None):
        """The JSON that a bench writes to a file, or to its output; None, with a reason in `missing`."""
        path, start = self.path(name), time.time()
        if not (self.o.again and os.path.exists(path)):
            if not os.path.exists(command[0]) and not shutil.which(command[0]):
                self.missing[name] = f"{os.path.basename(command[0])} is not built or not installed"
                return None
            print(f"{name} …", flush=True)
            output = path + ".part"
            at = 2 if command[0].endswith("python") else 1
            whole = command[:at] + (["--json", output] if to_file else []) + command[at:]
            with open(os.devnull if to_file else output, "w") as out:
                done = subprocess.run(whole, stdout=out, stderr=subprocess.PIPE, text=True,
                                      env=dict(os.environ, **(environment or {})))
            if done.returncode != 0:
                self.missing[name] = (done.stderr.strip().splitlines() or ["it failed"])[-1]
                return None
            os.replace(output, path)
        self.seconds[name] = time.time() - start
        try:
            with open(path) as file:
                return json.load(file)
        except ValueError as error:
            self.missing[name] = f"its JSON does not read: {error}"
            return None

    def bench(self, name):
        return os.path.join(self.o.build, "bench", name)


def run_all(o):
    r, found = Runner(o), {}
    one = ["--threads", "1"] + (["--clock", "cpu"] if o.clock == "cpu" else [])
    peers = ["--peers", o.peers] if o.peers else []
    shapes = lambda *names: [os.path.join(HERE, "shapes", n + ".txt") for n in names]
    seconds = lambda s: ["--seconds", f"{s * o.scale:g}"]
    gemm = r.bench("bench_gemm")
    found["gemm"] = r.run("gemm", [gemm] + one + peers + seconds(0.4) + ["--only", "avx,amx,call,dnnl,mkl"]
                          + shapes("l2", "model", "rows", "dram"))
    found["compute"] = r.run("gemm_compute", [gemm] + one + peers + seconds(0.4)
                             + ["--only", "avx512,amx,dnnl f32,dnnl bf16,mkl"] + shapes("compute"))
    found["odd"] = r.run("gemm_odd", [gemm] + one + seconds(0.06) + ["--only", "call,dnnl bf16,dnnl f32"] + shapes("odd"))
    found["emulated"] = r.run("gemm_emulated", [gemm] + one + seconds(0.4)
                              + ["--only", "bf16_avx512,dnnl bf16,dnnl f32"] + shapes("l2"), environment={
                                  "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"})
    if o.threads > 1:
        found["threads"] = r.run("gemm_threads", [gemm, "--threads", f"1,{o.threads}"] + seconds(0.6)
                                 + ["--only", "avx512,amx,dnnl"] + shapes("l2", "threads"))
    for name in CONVOLUTIONS:
        layers = os.path.join(HERE, "layers", name + ".txt")
        for batch in BATCHES:
            found[f"conv {name} {batch}"] = r.run(f"conv_{name}_{batch}", [r.bench("bench_conv"), "--batch", str(batch)] + one
                                                  + seconds(0.05) + [layers])
    lists = [os.path.join(HERE, "attention", name + ".txt") for name in ("square", "models")]
    found["attention"] = r.run("attention", [r.bench("bench_attention")] + one + seconds(0.2) + lists)
    found["elementwise"] = r.run("elementwise", [r.bench("bench_elementwise"), "--threads", "1", "--json"]
                                 + seconds(0.02), to_file=False)
    found["dispatch"] = r.run("dispatch", [r.bench("bench_dispatch"), "--json"] + one[2:]
                              + ["--rounds", str(max(21, int(201 * o.scale)))], to_file=False)
    threads = "1" if o.threads == 1 else f"1,{o.threads}"
    found["model"] = r.run("model", [r.bench("bench_model"), "--json", "--threads", threads] + seconds(2)
                           + [os.path.join(HERE, "model", "minilm.txt")], to_file=False)
    if o.peers:
        python = os.path.join(o.peers, "bin", "python")
        script = lambda name, bench: [python, os.path.join(HERE, name), "--bench", r.bench(bench)]
        found["model peers"] = r.run("peers_model", script("peers.py", "bench_model") + ["--rounds", "2"] + seconds(0.3))
        found["attention peers"] = r.run("peers_attention", script("peers_attention.py", "bench_attention") + seconds(0.1))
    else:
        r.missing["peers_model"] = r.missing["peers_attention"] = "no --peers environment given"
    return r, found


# ---- Figures ---------------------------------------------------------------------------------------------------------


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def row_of(shape, name, threads=1):
    return next((r for r in shape["results"] if r["name"] == name and r["threads"] == threads), None)


def shapes_of(data, *lists):
    return [s for s in (data or {}).get("shapes", []) if s["list"] in lists]


def overs(shapes, ours, peer, threads=1, peer_threads=None):
    """Ratios of speed of one candidate to another, one for each shape where both ran."""
    found = []
    for s in shapes:
        row = row_of(s, ours, threads)
        over = (row or {}).get("over", {}).get(f"{peer}/{peer_threads or threads}")
        if over:
            found.append((over, s))
    return found


def layers_of(found, name, batch):
    return (found[f"conv {name} {batch}"] or {}).get("layers", [])


def best_of(shapes, ours, peers):
    """… to the fastest of several in each shape."""
    found = []
    for s in shapes:
        ratios = [v for v, _ in sum((overs([s], ours, p) for p in peers), [])]
        if ratios:
            found.append((min(ratios), s))
    return found


def dims(s):
    return f"{s['m']} × {s['n']} × {s['k']}"


def say(pairs, unit="×"):
    """Geometric mean and the least, with its shape."""
    if not pairs:
        return None
    least = min(pairs, key=lambda pair: pair[0])
    show = (lambda v: f"{100 * v:.0f} %") if unit == "%" else (lambda v: f"{v:.2f}×")
    mean = show(geomean([v for v, _ in pairs]))
    return mean if len(pairs) == 1 else f"{mean}, least {show(least[0])} ({dims(least[1])})"


class Goals:
    """The rows of the goal table: what was asked for, what was found, and whether that is it."""

    def __init__(self):
        self.rows = []

    def add(self, name, asked, pairs, goal, unit="×", least=None):
        if not pairs:
            self.rows.append((name, asked, "not measured here", ""))
            return
        mean, low = geomean([v for v, _ in pairs]), min(v for v, _ in pairs)
        reached = mean >= goal and (least is None or low >= least)
        short = min(mean / goal, low / least if least else 9.0)
        self.rows.append((name, asked, say(pairs, unit), "reached" if reached else f"short by {100 * (1 - short):.0f} %"))


def ran(shapes, *peers):
    """Those of the peers that ran, in words."""
    names = [p.replace("dnnl", "oneDNN").replace("mkl", "MKL") for p in peers if any(row_of(s, p) for s in shapes)]
    return ("the best of " if len(names) > 1 else "") + (", ".join(names) or "no peer")


def goals_of(found, kernels):
    goals, g, c = Goals(), found["gemm"], found["compute"]
    amx, dot = "bf16_amx" in kernels, "bf16_avx512bf16" in kernels
    l2, rows, ten = shapes_of(g, "l2"), shapes_of(g, "rows", "dram"), shapes_of(c, "compute")
    share = lambda shapes, name, key: [(r[key], s) for s in shapes for r in [row_of(s, name)] if r and r[key] > 0]
    all_peers = ["dnnl bf16", "dnnl f32", "mkl f32", "mkl bf16"]
    best = "bf16_amx" if amx else "bf16_avx512bf16" if dot else "bf16_avx512"
    goals.add("AMX, 512³ and 128 × 768 × 768", "60 % of the TMUL's peak", share(l2, "bf16_amx", "peak_share"), 0.6, "%")
    goals.add(f"AMX, ten shapes, against {ran(ten, 'dnnl bf16', 'mkl bf16')}", "1.3×, none under 1.0×",
              best_of(ten, "bf16_amx", ["dnnl bf16", "mkl bf16"]), 1.3, least=1.0)
    odd = overs(shapes_of(found["odd"], "odd"), "call bf16", "dnnl bf16")
    goals.add("200 odd shapes, whole call, against oneDNN bf16" + ("" if amx else " (asked for on AMX)"), "1.3×", odd, 1.3)
    goals.add(f"M = 1 … 16, weights beyond L2, {best}, against {ran(rows, *all_peers)}", "1.0×",
              best_of(rows, best, all_peers), 1.0, least=0.97)
    goals.add(f"M = 1 … 16, weights beyond L2, {best}, of what reading the weights takes", "95 %",
              share(rows, best, "read_share"), 0.95, "%")
    goals.add("AVX-512F, bf16 weights, of FMA peak", "85 %", share(l2, "bf16_avx512", "peak_share"), 0.85, "%")
    goals.add("AVX-512F, bf16 weights, ten shapes, of FMA peak", "85 %", share(ten, "bf16_avx512", "peak_share"), 0.85, "%")
    goals.add("AVX-512F, bf16 weights, ten shapes, against oneDNN f32", "1.0×", overs(ten, "bf16_avx512", "dnnl f32"), 1.0)
    goals.add("AVX-512F, bf16 weights, against oneDNN bf16 held to AVX-512F", "3.5×",
              overs(shapes_of(found["emulated"], "l2"), "bf16_avx512", "dnnl bf16"), 3.5)
    goals.add("AVX-512F, M = 1, weights from DRAM, against our f32", "1.85×",
              overs([s for s in shapes_of(g, "dram") if s["m"] == 1], "bf16_avx512", "f32_avx512"), 1.85)
    goals.add("AVX512_BF16, of the better of vdpbf16ps and up-conversion at its probed rate", "85 %",
              share(l2, "bf16_avx512bf16", "peak_share"), 0.85, "%")
    goals.add("AVX512_BF16, the ten shapes, of the same", "85 %", share(ten, "bf16_avx512bf16", "peak_share"), 0.85, "%")
    goals.add("AVX2 only, bf16 against our f32", "not slower",
              overs(shapes_of(g, "l2", "model", "rows", "dram"), "bf16_avx2", "f32_avx2"), 1.0, least=0.97)
    more = found.get("threads")
    many = max((r["threads"] for s in shapes_of(more, "l2", "threads") for r in s["results"]), default=2)
    goals.add(f"{many} threads against one, compute-bound", f"{0.925 * many:.2f}×",
              overs(shapes_of(more, "l2", "threads"), best, best, many, 1), 0.925 * many)
    for batch in BATCHES:
        layers = [(layer["bf16_over_onednn"], {"m": layer["in"], "n": layer["out"], "k": layer["kernel"]})
                  for name in CONVOLUTIONS for layer in layers_of(found, name, batch) if "bf16_over_onednn" in layer]
        goals.add(f"convolution, three networks, batch {batch}, against oneDNN bf16", "1.1×, none under 0.95×", layers, 1.1,
                  least=0.95)
    attention = [(s["bf16"]["ratio"], dict(zip("mnk", s["shape"].split()[3:6])))
                 for s in (found.get("attention peers") or {}).get("shapes", [])]
    goals.add("attention, bf16, against PyTorch's bf16", "1.3×", attention, 1.3)
    attention = [(s["bf16 over onednn"], dict(zip("mnk", s["shape"].split()[3:6])))
                 for s in (found.get("attention") or {}).get("shapes", []) if "bf16 over onednn" in s]
    goals.add("attention, bf16, against oneDNN's product, softmax and product", "1.3×", attention, 1.3)
    model = [(r["engines"]["openvino bf16"]["median_ms"] / r["engines"]["libamp bf16"]["median_ms"],
              {"m": r["batch"], "n": r["tokens"], "k": 384}) for r in (found.get("model peers") or {}).get("results", [])
             if r["threads"] == 1 and "openvino bf16" in r["engines"]]
    goals.add("MiniLM, one thread, against OpenVINO bf16", "1.5×", model, 1.5)
    return goals.rows


# ---- The roofline ----------------------------------------------------------------------------------------------------


def points_of(found):
    """(arithmetic intensity in flop/byte, GFLOP/s, class, label): bytes are A, B and C once, in the types they have."""
    points = []
    for data in (found["gemm"], found["compute"]):
        for s in shapes_of(data, "l2", "model", "rows", "dram", "compute"):
            flop = 2 * s["m"] * s["n"] * s["k"]
            for name, kind, b in (("bf16_amx", "ours bf16", 2), ("bf16_avx512bf16", "ours bf16", 2),
                                  ("f32_avx512", "ours f32", 4), ("dnnl bf16", "oneDNN", 2), ("mkl f32", "MKL", 4)):
                row = row_of(s, name)
                if row:
                    a, c = (4, 4) if b == 4 else (2, 2) if kind == "oneDNN" else (4, 2)
                    moved = a * s["m"] * s["k"] + b * s["k"] * s["n"] + c * s["m"] * s["n"]
                    points.append((flop / moved, row["gflops"], kind, f"{name}, {dims(s)}: {row['gflops']:.0f} GFLOP/s"))
    return points


def roofline(found):
    data = found["gemm"]
    peaks, reads, points = data["peak_gflops"], data["read_gb_per_s"], points_of(found)
    width, height, left, right, top, bottom = 860, 470, 62, 168, 18, 46
    x0, x1 = 0.25, 1024
    y0, y1 = 4, 2 * max(peaks.values())
    px = lambda v: left + (width - left - right) * math.log(v / x0) / math.log(x1 / x0)
    py = lambda v: height - bottom - (height - top - bottom) * math.log(v / y0) / math.log(y1 / y0)
    text = lambda x, y, words, size=11, anchor="start", color=FAINT, more="": (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}" {more}>{html.escape(words)}</text>')
    line = lambda xa, ya, xb, yb, color, w=1.0, dash="": (
        f'<line x1="{xa:.1f}" y1="{ya:.1f}" x2="{xb:.1f}" y2="{yb:.1f}" stroke="{color}" stroke-width="{w}"'
        + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" role="img">',
           "<title>Roofline: speed over arithmetic intensity, one core</title>",
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for power in range(-2, 11, 2):
        if x0 <= 2**power <= x1:
            out += [line(px(2**power), top, px(2**power), height - bottom, GRID),
                    text(px(2**power), height - bottom + 16, f"{2**power:g}", anchor="middle")]
    for power in range(2, 16):
        if y0 <= 2**power <= y1:
            out += [line(left, py(2**power), width - right, py(2**power), GRID),
                    text(left - 8, py(2**power) + 4, str(2**power), anchor="end")]
    highest = max(peaks.values())
    for name, rate in peaks.items():
        if y0 < rate < y1:
            out += [line(px(max(x0, rate / max(reads.values()))), py(rate), width - right, py(rate), INK, 1.3),
                    text(width - right + 6, py(rate) + 4, f"{name} {rate:.0f} GFLOP/s", color=INK)]
    for name, rate in reads.items():
        start, end = max(x0, y0 / rate), highest / rate
        out.append(line(px(start), py(start * rate), px(end), py(highest), FAINT, 1.2, "5 4"))
        at = max(start * 1.15, 0.4)
        angle = -math.degrees(math.atan2(py(at * rate) - py(2 * at * rate), px(2 * at) - px(at)))
        x, y = px(at), py(at * rate) - 5
        out.append(text(x, y, f"{name} {rate:.0f} GB/s", more=f'transform="rotate({angle:.1f} {x:.1f} {y:.1f})"'))
    for x, y, kind, label in sorted(points, key=lambda p: p[2].startswith("ours")):
        if y >= y0:
            hollow = not kind.startswith("ours")
            style = f'fill="none" stroke="{COLORS[kind]}" stroke-width="1.4"' if hollow else f'fill="{COLORS[kind]}" fill-opacity="0.85"'
            out.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="{4.2 if hollow else 3.4}" {style}><title>{html.escape(label)}</title></circle>')
    for i, kind in enumerate(k for k in COLORS if any(p[2] == k for p in points)):
        y = height - bottom - 74 + 17 * i
        out += [f'<circle cx="{width - right + 14}" cy="{y}" r="4" fill="{COLORS[kind]}"/>', text(width - right + 24, y + 4, kind, color=INK)]
    out += [text((left + width - right) / 2, height - 10, "flop per byte of A, B and C", 12, "middle", INK),
            text(16, (top + height - bottom) / 2, "GFLOP/s", 12, "middle", INK,
                 f'transform="rotate(-90 16 {(top + height - bottom) / 2:.0f})"'), "</svg>"]
    return "\n".join(out)


# ---- The page --------------------------------------------------------------------------------------------------------

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 2.5rem auto; max-width: 62rem; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; } p { margin: .4rem 0 .8rem; }
.faint, caption { color: #697586; font-size: .88rem; text-align: left; } .machine { columns: 2; margin: 1rem 0; padding: 0; list-style: none; }
.machine b { display: inline-block; min-width: 10rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; margin: .4rem 0 1rem; }
th, td { padding: .22rem .5rem; border-bottom: 1px solid #e4e7eb; text-align: right; vertical-align: top; } th { color: #697586; font-weight: 600; }
th:first-child, td:first-child, .text td { text-align: left; } .text th { text-align: left; }
.good { color: #2b8a3e; font-weight: 600; } .short { color: #c2410c; font-weight: 600; } td:first-child { white-space: nowrap; } .text td:first-child { white-space: normal; } .text td:last-child { white-space: nowrap; }
.spread { color: #9aa5b1; font-size: .78rem; } .under { display: block; white-space: nowrap; }
svg { width: 100%; height: auto; } details summary { cursor: pointer; color: #0b7285; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; } h2 { break-after: avoid; } tr, svg { break-inside: avoid; } details { display: block; } }
"""


def table(head, rows, caption="", kind=""):
    cell = lambda x: x if isinstance(x, str) and x.startswith("<") else html.escape(str(x))
    body = "".join("<tr>" + "".join(f"<td>{cell(x)}</td>" for x in row) + "</tr>" for row in rows)
    return (f'<table class="{kind}"><caption>{html.escape(caption)}</caption><thead><tr>'
            + "".join(f"<th>{html.escape(h)}</th>" for h in head) + f"</tr></thead><tbody>{body}</tbody></table>")


def spread(value, low, high, digits=1):
    half = 50 * (high - low) / value if value else 0
    return f'<span>{value:.{digits}f} <span class="spread">±{half:.0f} %</span></span>'


def verdict(words):
    return f'<span class="{"good" if words == "reached" else "short"}">{html.escape(words)}</span>' if words else ""


def section(title, reason, *parts):
    """A chapter, or the reason why there is none."""
    shown = "".join(parts) if not reason else f'<p class="faint">Not measured: {html.escape(reason)}.</p>'
    return f"<h2>{html.escape(title)}</h2>{shown}"


def gemm_table(shapes, threads=1):
    names = []
    for s in shapes:
        names += [r["name"] for r in s["results"] if r["kind"] != "machine" and r["name"] not in names and r["threads"] == threads]
    rows = []
    for s in shapes:
        row = [dims(s)]
        for name in names:
            r = row_of(s, name, threads)
            if not r:
                row.append("")
                continue
            few = s["m"] <= 16
            share = r["read_share"] if few else r["peak_share"]
            half = 50 * (r["high_us"] - r["low_us"]) / r["us"]
            row.append(f'<span>{r["gflops"]:.0f} <span class="spread under">±{half:.0f} %, {100 * share:.0f} %{" r" if few else ""}</span></span>')
        rows.append(row)
    return table(["M × N × K"] + names, rows, "GFLOP/s, half the way from the 10th to the 90th percentile, and the share of "
                 "the measured peak of the instruction; r: of the rate at which the same weights are read")


def conv_table(found):
    rows = []
    for name, batch in ((n, b) for n in CONVOLUTIONS for b in BATCHES):
        layers = layers_of(found, name, batch)
        ratios = lambda key: [l[key] for l in layers if key in l]
        show = lambda v: f"{geomean(v):.2f}× ({min(v):.2f} … {max(v):.2f})" if v else "not measured"
        theirs = sum(any(x["name"] == "bf16" and x["kernel"].startswith("dnnl") for x in l["results"]) for l in layers)
        if layers:
            rows.append([name, batch, len(layers), show(ratios("bf16_over_onednn")), theirs, show(ratios("f32_over_onednn")),
                         show(ratios("bf16_over_f32"))])
    return table(["layers of", "batch", "", "bf16 over oneDNN bf16", "through it", "f32 over oneDNN f32", "bf16 over our f32"], rows,
                 "Geometric mean (least … most) of the ratios of single layers; above 1 libamp is faster. Through it: layers that "
                 "libamp itself gives to oneDNN")


def attention_table(found):
    peers = {s["shape"]: s for s in (found.get("attention peers") or {}).get("shapes", [])}
    rows = []
    for s in found["attention"]["shapes"]:
        batch, heads, keys, l, k, depth, causal = s["shape"].split()
        label = f"{batch} × {heads}/{keys} heads, {l} × {k}, depth {depth}{', causal' if causal == '1' else ''}"
        peer = peers.get(s["shape"])
        rows.append([label] + [spread(s[d]["us"], s[d]["low_us"], s[d]["high_us"], 0) for d in ("f32", "bf16")]
                    + [f"{s['bf16']['gflops']:.0f}", f"{100 * s['bf16 peak_share']:.0f} %",
                       f"{s['bf16 over onednn']:.2f}×" if "bf16 over onednn" in s else "",
                       f"{peer['bf16']['ratio']:.2f}×" if peer else "not measured"])
    return table(["", "f32 µs", "bf16 µs", "bf16 GFLOP/s", "of peak", "oneDNN bf16 / ours", "PyTorch bf16 / ours"], rows)


def elementwise_table(found):
    rows = [[r["name"]] + sum(([spread(r[d]["ns"] / 1e3, r[d]["low_ns"] / 1e3, r[d]["high_ns"] / 1e3), f"{r[d]['gb_per_s']:.0f}",
                               f"{100 * r[d]['share']:.0f} %"] for d in ("f32", "bf16")), []) for r in found["elementwise"]["rows"]]
    copy = found["elementwise"]["copy_gb_per_s"][0]
    return "<details open><summary>all rows</summary>" + table(
        ["", "f32 µs", "GB/s", "share", "bf16 µs", "GB/s", "share"], rows,
        f"1024 × 1024 elements, one thread; share: of memcpy's {copy:.0f} GB/s") + "</details>"


def model_table(found):
    rows = [[f"{r['batch']} × {r['tokens']} tokens", r["threads"], spread(r["f32_ms"], r["f32_low_ms"], r["f32_high_ms"], 2),
             spread(r["bf16_ms"], r["bf16_low_ms"], r["bf16_high_ms"], 2), f"{100 * r['bf16_peak_share']:.0f} %",
             f"{r['f32_ms'] / r['bf16_ms']:.2f}×"]
            for r in found["model"]["rows"]]
    shown = table(["", "threads", "f32 ms", "bf16 ms", "of peak", "bf16 over f32"], rows)
    peers = found.get("model peers")
    if peers:
        names = list(peers["results"][0]["engines"])
        shown += table(["beside its peers, median ms", "threads"] + names, [
            [f"{r['batch']} × {r['tokens']} tokens", r["threads"]] + [f"{r['engines'][n]['median_ms']:.2f}" if n in r["engines"] else "" for n in names]
            for r in peers["results"]])
    return shown


def dispatch_table(found):
    d = found["dispatch"]
    rows = [[f["name"], f'<span>{f["nanoseconds"]:.0f} ns</span>', f"{f['low']:.0f} … {f['high']:.0f}", f"≤ {f['target']:.0f} ns"] for f in d["figures"]]
    return table(["", "median", "10th … 90th percentile", "asked for"], rows)


def versions_of(found):
    engines = (found.get("model peers") or {}).get("engines", [])
    names = [f"{e['engine']} {e['version']}" for e in engines if e.get("engine") not in (None, "libamp") and e.get("version")]
    torch = (found.get("attention peers") or {}).get("torch")
    return names + ([f"torch {torch}"] if torch and not any("torch" in n for n in names) else [])


def page(r, found):
    g = found["gemm"]
    kernels = {x["name"] for s in g["shapes"] for x in s["results"]} | {x["name"] for s in (found["compute"] or g)["shapes"] for x in s["results"]}
    goals = goals_of(found, kernels)
    machine = [("processor", g["cpu"]), ("best instructions", g["isa"]), ("date", g["date"]), ("libamp", g["libamp"]),
               ("compiler", g["compiler"]), ("OpenMP", g["openmp"]), ("oneDNN", g["onednn"]),
               ("MKL", g["mkl"].replace("Intel(R) oneAPI Math Kernel Library ", "").split(" for ")[0] or "not measured"),
               ("other peers", ", ".join(versions_of(found)) or "not measured"),
               ("clock", "CPU time of the thread" if g["clock"] == "cpu" else "wall"),
               ("load", "%.1f when the report was written" % os.getloadavg()[0])]
    machine += [("peak " + k, f"{v:.0f} GFLOP/s a core") for k, v in g["peak_gflops"].items()]
    machine += [("reads from " + k, f"{v:.0f} GB/s a core") for k, v in g["read_gb_per_s"].items()]
    lists = [("What fits L2", "gemm", "l2"), ("A small encoder", "gemm", "model"), ("Few rows, weights in L3", "gemm", "rows"),
             ("Few rows, weights in DRAM", "gemm", "dram"), ("Ten large shapes", "compute", "compute")]
    products = [f"<h3>{title}</h3>" + gemm_table(shapes_of(found[key], name)) for title, key, name in lists if shapes_of(found[key], name)]
    more = found.get("threads")
    if more:
        many = max(x["threads"] for s in more["shapes"] for x in s["results"])
        products.append(f"<h3>{many} threads</h3>" + gemm_table(more["shapes"], many))
    missing = lambda *names: next((r.missing[n] for n in names if n in r.missing), None)
    convs = [(n, b) for n in CONVOLUTIONS for b in BATCHES]
    parts = [
        f"<h1>libamp {html.escape(g['libamp'])}, measured</h1><p class='faint'>{html.escape(g['cpu'])}, {g['date']}. Random data. "
        "Figures are medians but for the peaks and the rates of reading, which are the best of several rounds; candidates of a row take turns round after round, "
        "and ratios are medians of the ratios within a round.</p>",
        '<ul class="machine">' + "".join(f"<li><b>{html.escape(k)}</b> {html.escape(str(v))}</li>" for k, v in machine) + "</ul>",
        section("What was asked for", None, table(["", "asked for", "found", ""], [(a, b, c, verdict(d)) for a, b, c, d in goals], kind="text")),
        section("Matrix products against the roofs of this machine", None, roofline(found),
                "<p class='faint'>One core. Horizontal: what the instruction does with its operands in registers. Slanted: reading memory. "
                "Both are measured on this machine in this run. Hover a point for its shape.</p>"),
        section("Matrix products", None, *products),
        section("Convolution", None if any(layers_of(found, *c) for c in convs) else missing(*("conv_%s_%d" % c for c in convs)), conv_table(found)),
        section("Attention", missing("attention"), attention_table(found) if found["attention"] else ""),
        section("The demo's model", missing("model"), model_table(found) if found["model"] else ""),
        section("What a call costs", missing("dispatch"), dispatch_table(found) if found["dispatch"] else ""),
        section("Elementwise ops and reductions", missing("elementwise"), elementwise_table(found) if found["elementwise"] else ""),
    ]
    if r.missing:
        parts.append(section("Not measured", None, table(["", "why"], sorted(r.missing.items()), kind="text")))
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>libamp {html.escape(g["libamp"])}, measured</title>'
            f"<style>{STYLE}</style><body>{''.join(parts)}</body></html>"), goals


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build", "release"))
    parser.add_argument("--peers", metavar="VENV", default=None)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="the most that are measured")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--out", default=os.path.join(HERE, "..", "build", "report"))
    parser.add_argument("--again", action="store_true")
    o = parser.parse_args()
    os.makedirs(o.out, exist_ok=True)
    start = time.time()
    r, found = run_all(o)
    if not found["gemm"]:
        sys.exit(f"bench_gemm: {r.missing['gemm']}")
    text, goals = page(r, found)
    for name, content in (("roofline.svg", roofline(found)), ("report.html", text)):
        with open(os.path.join(o.out, name), "w", encoding="utf-8") as file:
            file.write(content + "\n")
    for row in goals:
        print(" | ".join(row))
    print(f"{time.time() - start:.0f} s; the page: {os.path.normpath(os.path.join(o.out, 'report.html'))}")


if __name__ == "__main__":
    main()
