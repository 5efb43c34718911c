#!/usr/bin/env python3
"""Writes words.json: what cloud-init writes for a word of a command that is a list.

Run it with PyYAML 6, in this folder. cloud-init reads its documents with yaml.safe_load, and writes str() of each
word (cloudinit.util.shellify). What it cannot read, or reads as no word, has null.
"""
import itertools
import json

import yaml

words = """y Y n N yes Yes YES no No NO on On ON off Off OFF true True TRUE false False FALSE yEs oN nO ~ null Null NULL none None
0 1 7 -7 +7 007 08 09 0644 0o644 0755 1_000 0x1F 0X1F 0b11 0B1 12:30 1:30 1:30.5 12:30:45 90:10 -0 00 0_ 9223372036854775808
1.0 1.10 0.25 1. .5 -1.5 +1.5 1.5e3 1.5e+3 1e3 1E3 1e-3 1.e+3 100000.0 123456789012345678.0 10000000000000000.0 1e16 0.0001 0.00001 0.1 1.0.0 1_0.5 -0.0 0.0 .inf -.inf .nan .Inf inf nan
2026-12-01 2026-13-01 2026-1-1 2026-12-01T10:00:00Z 2026-12-01t10:00 v1.36 v1.36.3 10Gi a/b -a --a=b a=b a:b /run/x *x .x x. = == << < a.b 1-2
é ~/x @a !x %d $X 0x 0o 0b -- + . .. _ 1_ x""".split()
for a, b in itertools.product("0 1 -2 09".split(), [".0", ".5", ".50", "e5", ":1", "_1", ".", "-1"]):
    words.append(a + b)

table = []
for word in dict.fromkeys(words):
    try:
        value = yaml.safe_load("runcmd: [[x, %s]]" % word)["runcmd"][0][1]
        block = yaml.safe_load("- - é\n  - %s" % word)[0][1]
    except Exception:
        value = block = None
    good = value is not None and not isinstance(value, (list, dict)) and value == block
    table.append([word, str(value) if good else None])
json.dump(table, open("words.json", "w"), ensure_ascii=False, separators=(",", ":"))
