#!/usr/bin/env python3
"""Writes jinja2.json: what Jinja2 makes of many small templates, set up as cloud-init sets it up.

Run it with Jinja2 3.1.6, in this folder. Whatever
Jinja2 refuses has null. The templates are each kind of expression over some values, and
expressions put together at random from a fixed seed.
"""
import itertools
import json
import random
import re
import warnings

import jinja2

warnings.simplefilter("ignore")
cases = []
def add(*ts): cases.extend(ts)
H = "v1.local_hostname"           # node-1.rack.example.com
ops = ["'a.b'", "''", "' x '", "7", "true", "none", "['b', 'a']", "nope", "'straße'"]
# operators over pairs
pairs = ["'a'", "'1'", "1", "-3", "true", "none", "['a']", "nope"]
for op in ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]:
    for a, b in itertools.product(pairs, pairs):
        add("{{ %s %s %s }}" % (a, op, b))
for a in ops:
    add("{{ %s }}" % a, "{{ not %s }}" % a, "{{ -%s }}" % a, "{{ +%s }}" % a, "{{ 'yes' if %s }}" % a, "{{ 'yes' if %s else 'no' }}" % a, "{%% if %s %%}y{%% else %%}n{%% endif %%}" % a,
        "{%% set x = %s %%}{{ x }}" % a, "{{ (%s) }}" % a, "{{ [%s] }}" % a, "{{ {'k': %s} }}" % a, "{{ {'k': %s}.k }}" % a, "{{ {'k': %s}['k'] }}" % a)
    for f in ["capitalize", "d", "d('x')", "default('x')", "default('x', true)", "default('x', boolean=true)", "default(7)", "first", "int", "int(3)", "int(default=3)", "last", "length", "lower", "replace('a', 'b')", "replace('a', 'b', 1)",
              "replace('.', '-')", "replace('', '-')", "string", "trim", "trim('a')", "upper", "join", "join('-')", "reverse", "title", "sort", "list", "count", "abs", "round", "float", "b64encode", "tojson", "e", "escape", "safe", "unique", "min", "max", "sum", "regex_replace('a','b')", "truncate(3)", "indent", "wordcount", "format(1)", "split('.')", "bool", "nope"]:
        add("{{ %s | %s }}" % (a, f))
    for t in ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false", "even", "odd", "lower", "upper", "eq('a.b')", "ne('a.b')", "eq(7)", "equalto('7')", "in ['a.b', 7]", "in('a.b')", "sameas(true)", "callable", "escaped", "divisibleby(7)", "gt(1)", "match('a')", "not defined", "not string"]:
        add("{{ %s is %s }}" % (a, t))
    for m in ["split('.')", "split('.', 1)", "split('.', 0)", "split('.', -1)", "split()", "split(None)", "split('')", "split('.', maxsplit=1)", "split(sep='.')", "split(7)", "split('.', '1')", "split('.', true)", "split('.')[0]", "split('.')[-1]", "split('.')[1:]", "split('.')[:1]", "split('.')[::2]", "split('.')[9]", "split('.', 1)[0]", "split('.', 1)[1]",
              "rsplit('.', 1)", "rsplit('.', 1)[0]", "rsplit('.')", "rsplit()", "rsplit('.', 0)", "replace('.', '-')", "replace('.', '-', 1)", "replace('', '-')", "replace('.', '-', 0)", "replace('.')", "replace('.', 7)", "lower()", "upper()", "strip()", "strip('a')", "strip('ab ')", "lstrip()", "rstrip()", "lstrip('a')", "rstrip('b')", "startswith('a')", "startswith('a', 1)", "startswith(('a','b'))", "endswith('b')", "partition('.')", "partition('.')[0]", "rpartition('.')[0]", "rpartition('.')", "partition('')", "title()", "capitalize()", "swapcase()", "zfill(5)", "rjust(5)", "ljust(5)", "center(9)", "find('b')", "index('b')", "count('a')", "count('')", "isdigit()", "isalpha()", "isalnum()", "join(['x', 'y'])", "join('xy')", "format(1)", "encode()", "removeprefix('a')", "removesuffix('b')", "splitlines()", "expandtabs()", "items()", "keys()", "append(1)", "get('x')", "nope()", "length", "upper", "__class__", "__class__.__mro__", "casefold()", "translate({})", "bit_length()"]:
        add("{{ (%s).%s }}" % (a, m))
add(*["{{ %s }}" % e for e in """v1.local_hostname
v1.instance_id
v1['local_hostname']
v1["local_hostname"]
v1.get('local_hostname')
ds.meta_data.local_hostname
ds.meta_data['local_hostname']
ds['meta_data']['local_hostname']
ds.meta_data.get('nope', 'x')
ds.meta_data.nope.deeper
local_hostname
instance_id
v1.local_hostname.split('.')[0]
v1.local_hostname.split('.', 1)[0] ~ '-x'
v1.local_hostname | replace('.', '-') | upper
v1.local_hostname[0]
v1.local_hostname[-1]
v1.local_hostname[0:4]
v1.local_hostname[:-4]
v1.local_hostname[::-1]
v1.local_hostname[99]
v1.local_hostname[99:]
v1.local_hostname[-99:3]
v1.local_hostname.0
v1.local_hostname == 'node-1.rack.example.com'
v1.local_hostname | lower == 'node-1.rack.example.com'
'a' ~ v1.local_hostname | upper
'a' ~ 'b' == 'ab'
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-7 // 2
-7 % 3
-2 ** 2
1 < 2 < 3
3 > 2 > 2
1 == 1 == 1
not 1 == 2
not true and false
true or false and false
'a' in 'abc' and 'b' in 'abc'
not 'a' in 'abc'
'x' if true else 'y' if false else 'z'
('x' if false else 'y') ~ 'z'
'a' 'b'
'%03d' % 7
'%s' % 'x'
'%s-%s' | format('a', 'b')
'{}'.format(1)
"a" "b"
'a\\nb'
'a\\tb'
'a\\\\b'
'\\x41'
'\\u00e9'
'a\\qb'
"it's"
'say "hi"'
1_000
0x10
010
1e3
1.0
.5
007
true
True
TRUE
none
None
false
False
[1, 2][0]
[1, 2,]
(1, 2)
(1,)
()
('a', 'b')[0]
{'a': 1}
{'a': 1}.a
{'a': 1}['a']
{'a': 1}['b']
{'a': [1, 'x', none, true]}
[['a'], {'b': 'c'}]
{'a': 1}.items()
{'items': 1}.items
loop
self
range(3)
dict(a=1)
lipsum()
cycler('a')
joiner()
namespace(a=1)
super()
caller
varargs
ds
v1
ds.meta_data
ds.keys() | list
'a' is defined and 'b' is string
nope is defined and nope == 'x'
nope is not defined or nope == 'x'
nope | default('a') | upper
nope.deeper | default('a')
ds.meta_data.nope | default(v1.local_hostname)
v1.local_hostname | default(nope)
(nope | default('a')) ~ 'b'
nope and 'a'
'a' or nope
'' or 'fallback'
'' and nope
true and nope
'a' if nope is defined else 'b'
'a' if nope else 'b'
v1.local_hostname if nope is defined
1 if 1
'abc' is in 'abcdef'
'a' == "a"
1 == 1.0
1 == '1'
true == 1
'1' == 1
[1] == [1]
(1,2) == [1,2]
none == false
'' == none
'a' < 'B'
'Z' < 'a'
'é' < 'z'
'10' < '9'
10 < 9
'a' * 3
[1] * 2
[1] + [2]
99999999999999999999
9223372036854775807 + 1
9223372036854775807 * 2
1/0
1//0
1%0
0 == false
v1.local_hostname|length
'straße'|upper
'straße'|length
'straße'[4]
'ÀÉ'.lower()
'İ'.lower()
'ß'.upper()
'a,b;c'.split(',')|first
'a b  c'.split()
'  a  b '.split(' ')
'a\\u2028b'.split()
'x'.join(['a','b'])
['a','b']|join('.')
['a','b']|join
[1,2]|join(',')
[none,true]|join(',')
'abc'|join('-')
'a.b.c'.split('.')|last
'a.b.c'.split('.')|length
'a.b.c'.split('.')|reverse|join('.')
'a.b.c'.split('.')|join('-')
v1.local_hostname.split('.')[1:]|join('.')
v1.local_hostname.split('.')[:2]|join('.')
v1.local_hostname.split('.')[:2].join('.')
v1.local_hostname.split('-', 1)[1]
v1.local_hostname.split('-')|last
v1.local_hostname.split('.')
v1.local_hostname.upper().lower()
v1.local_hostname.upper().split('.')[0].lower()
'10'|int + 1
'x'|int
'7.9'|int
'0x1f'|int
'0x1f'|int(base=16)
'1f'|int(0, 16)
' 7 '|int
'7'|int == 7
''|int
true|int
3.99|int
-3.99|int
'1_0'|int
'١'|int
7|string ~ ''
true|string
none|string
['a']|string
2.50|string
1e20|string
'A'|capitalize
'hELLO wORLD'|capitalize
'ǆ'|capitalize
'ß'|capitalize
' a b '|trim
'\\u00a0a'|trim
''|first
''|last
[]|first
[]|last
[]|length
''|default('x')
''|default('x', true)
''|default('x', false)
none|default('x')
none|default('x', true)
0|default('x', true)
nope|default
nope|default(default_value='q')
nope|d
a.b.c|default('x')
v1.nope.x|default('x')
ds.meta_data.local_hostname is defined
ds.meta_data.nope is defined
ds.nope.x is defined
local_hostname is defined
5 is divisibleby 5
not nope is defined
nope is not none
'a' | nope
'a' | upper()
'a' | upper(1)
'a'.upper(1)
'a'.upper
'a'.nope
'aXbXc'.replace('X', '', 1)
'aXbXc'|replace('X', '', 1)
'aXbXc'|replace('X', '', count=1)
'aXbXc'.replace('X', '')
'a.b'.replace(old='.', new='-')
7|replace('7', '8')
'7'|replace(7, 8)
true|lower
7|upper
7|length
none|upper
ds.meta_data|length
ds.meta_data.local_ipv4
ds.meta_data.local_ipv4|default('0.0.0.0')
ds.meta_data.hostname
ds.meta_data.provider_id
ds.meta_data.provider_id.split('/')[-1]
ds.meta_data.provider_id.split('//', 1)[1]
instance-id
ds.meta_data.instance-id
ds.meta_data['instance-id']
v1.local-hostname
 v1.local_hostname 
v1 . local_hostname
v1.local_hostname .split('.')[0]
v1
""".split("\n") if e])
add("{%- if true %}a{% endif -%}\n\n b", "a\n{%- if true %}\nb\n{%- endif %}\nc\n", "a {{- 'x' -}} b", "a\n  {{- 'x' }}\n", "{{ 'x' -}}\n\ny", "{% if true -%}\n  x\n{%- endif %}\n",
 "{# c #}\na", "a{# c #}\n", "{# multi\nline #}\na", "{#- c -#}\n a", "a {#- c #} b", "{% raw %}{{ x }}{% endraw %}", "{% raw %}\n{{ x }}\n{% endraw %}\n", "{%- raw -%} {{ x }} {%- endraw -%}\n z", "a {% raw -%} {{ x }} {%- endraw %} b", "{% raw %}{% endraw %}", "{% raw %}{% raw %}{% endraw %}", "{% raw %}{# c #}{% endraw %}", "{% raw %}{{ x }}\n\n{% endraw %}\nend\n",
 "{% if true %}\n  a\n{% endif %}\nb\n", "  {% if true %}\n  a\n  {% endif %}\nb\n", "{% if false %}a{% elif true %}b{% else %}c{% endif %}", "{% if false %}a{% elif false %}b{% else %}c{% endif %}", "{% if nope is defined %}a{% endif %}b", "{% if nope %}a{% endif %}b", "{% if true %}{% if false %}a{% else %}b{% endif %}{% endif %}",
 "{% set x = 1 %}{{ x }}", "{% set x = 'a' %}\n{{ x }}", "{% set x %}abc{% endset %}{{ x }}", "{% set x %}a{{ 1 }}b\n{% endset %}{{ x }}|", "{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% if false %}{% set x = 2 %}{% endif %}{{ x is defined }}", "{% set a, b = 1, 2 %}{{ a }}", "{% set v1 = 'x' %}{{ v1 }}", "{% set ds.x = 1 %}", "{% set x = nope %}", "{% set x = nope | default('q') %}{{ x }}", "{% set x = 'a' if false else 'b' %}{{ x }}", "{% set x = 'a' if false %}{{ x is defined }}", "{% set x = v1.local_hostname.split('.')[0] %}{{ x }}-{{ x }}", "{% set true = 1 %}", "{% set x = ['a'] %}{{ x[0] }}", "{% set x = {'a': 'b'} %}{{ x.a }}", "{% set x = {'a': 'b'} %}{{ x['c'] | default('d') }}",
 "{% for i in [1] %}{{ i }}{% endfor %}", "{% macro f() %}x{% endmacro %}{{ f() }}", "{% do [].append(1) %}", "{% with %}{% endwith %}", "{% include 'x' %}", "{% block b %}x{% endblock %}", "{% filter upper %}x{% endfilter %}", "{% autoescape true %}<{% endautoescape %}", "{{ '<' }}", "{{ '<' | e }}", "{{ '&' }}",
 "${#a[@]}", "{{", "}}", "{%", "%}", "{# open", "a {{ 'x' }", "{{ }}", "{{ 'x' }} }}", "{ { x } }", "{{{ 'x' }}}", "${{ '{' }}HOME}", "{{ 'a' # b\n }}", "# comment {{ 'x' }}", "## {{ 'x' }}", "% line", "{{ 'a\nb' }}", "{{\n'a'\n}}", "{{ 'x'\n~\n'y' }}\n", "a\r\n{{ 'x' }}\r\nb\r\n", "{% if true %}\r\na\r\n{% endif %}\r\nb", "\n", "", "\n\n", "x\n\n\n", "{{ 'x' }}\n", "{{ 'x' }}\n\n", "{{ '{{' }}", "{{ '}}' }}", "{{ '{% x %}' }}", "{{ \"a\\\"b\" }}", "{{ 'a' }}{{ 'b' }}", "{{'a'}}", "{%if true%}a{%endif%}", "{{ 'x' if true }}", "{{- 'x' -}}", "a {%+ if true %}b{% endif +%} c", "{% if true +%}\nb{% endif %}", "é {{ 'é' }} 漢", "{{ '漢字'|length }}", "{{ '漢字'[0] }}", "\t{{ 'x' }}\t",
 "{% if ds.meta_data.local_hostname == 'node-1.rack.example.com' and not false %}\nyes\n{% endif %}", "{% if 'rack' in v1.local_hostname %}r{% endif %}", "{% if v1.local_hostname.startswith('node-') %}n{% endif %}", "{% if v1.local_hostname is defined and v1.local_hostname|length > 3 %}n{% endif %}", "{%if (1 == 1) %}a{%endif%}", "{% if not(1 == 2) %}a{% endif %}", "{% if 1 == 1 %}{{ 'a' }}{% endif %}", "{% if [] %}a{% else %}b{% endif %}", "{% if {} %}a{% else %}b{% endif %}", "{% if '0' %}a{% else %}b{% endif %}", "{% if 'false' %}a{% else %}b{% endif %}", "{% if 0.0 %}a{% else %}b{% endif %}")
# ends of lines and characters without a meaning, within tags and beside them
for n in ["\n", "\r\n", "\r", "\t", "\u00a0", "\u2028", "\x0c"]:
    add("{{%s-1 }}" % n, "{{-%s-1 }}" % n, "{{ 'a'%s-}} b" % n, "{{ 'a'%s|%supper }}" % (n, n), "{{ 2%s- 1 }}" % n, "{%% if%strue%s-%%} a{%% endif%s%%}" % (n, n, n), "{%%%sif true %%}a{%% endif %%}" % n,
        "{{ 'a%sb' }}" % n, "{{ v1%s.local_hostname }}" % n, "{{ 7 }}%s" % n, "{{ 7 }}%s%s" % (n, n), "a%s{{ '\\n' }}%s{{ 'x' }}" % (n, n), "{%% raw %%}%s{{ x }}%s{%% endraw %%}%s" % (n, n, n), "{# c #}%sa" % n, "a%s" % n)
for c in "$?;@&^`#\\!":
    add("{{ 'a' %s }}" % c, "{{ %s'a' }}" % c, "{{ %s-1 }}" % c, "{{ 'a' %s| upper }}" % c, "{{ 1 %s- 1 }}" % c, "{%% if true %s%%}a{%% endif %%}" % c)
# names that Jinja2 gives a value in each template, and some that it does not
for n in "self range dict lipsum cycler joiner namespace loop super caller varargs context environment undefined missing _".split():
    add("{{ %s | default('x') }}" % n, "{{ %s is defined }}" % n, "{%% if %s is undefined %%}a{%% endif %%}" % n, "{%% set %s = 'a' %%}{{ %s }}" % (n, n), "{{ %s.x | default('q') }}" % n)
# branches in an order that Jinja2 refuses
add("{% if true %}a{% else %}b{% elif true %}c{% endif %}", "{% if true %}a{% else %}b{% else %}c{% endif %}", "{% if true %}a{% elif %}b{% endif %}", "{% if true %}a{% else true %}b{% endif %}",
    "{% if true %}a{% endif true %}", "{% if false %}a{% elif false %}b{% elif true %}c{% else %}d{% endif %}", "{% else %}", "{% elif true %}", "{% endif %}", "{% if %}a{% endif %}", "{% if true %}a", "{% endraw %}", "{% raw %}a")
add(*["{{ 1 or 1 is%s %s(1) }}" % (n, o) for n in ["", " not"] for o in ["==", "!=", "<", "<=", ">", ">=", "eq", "gt", "+", "~"]])
add("{% raw +%}a{% endraw %}", "{%+ raw %}a{%+ endraw +%}\n", "{%- raw %}\na{% endraw -%} b")
random.seed(7)
ATOMS = ["'a'","'b'","''","'a.b.c'","'10'","1","2","7","0","true","false",'"x-y"',"v1.local_hostname","instance_id","ds.meta_data.hostname","nope","ds.meta_data.nope","['a','b']","[1,2]"]
OPS = ["+","-","*","//","%","~","==","!=","<",">","<=",">=","in","not in","and","or"]
def e(d):
    k = random.random()
    if d <= 0 or k < .15: return random.choice(ATOMS)
    if k < .5: return "%s %s %s" % (e(d-1), random.choice(OPS), e(d-1))
    if k < .6: return "(%s)" % e(d-1)
    if k < .72: return "%s | %s" % (e(d-1), random.choice(["upper","default('q')","default('', true)","int","length","first","join('-')","replace('a','z')","string","trim"]))
    if k < .8: return "%s is %s" % (e(d-1), random.choice(["defined","undefined","string","not defined","not string","in ['a', 1]", "boolean", "not in 'abc'"]))
    if k < .85: return "not %s" % e(d-1)
    if k < .88: return "-%s" % e(d-1)
    if k < .95: return "%s%s" % (random.choice(ATOMS), random.choice([".split('.')[0]",".upper()","[0]","[1:]","[-1]",".replace('a','b')",".startswith('a')",".split('.')|last"]))
    return "%s if %s else %s" % (e(d-1), e(d-1), e(d-1))
def t(d):
    k = random.random()
    if d <= 0 or k < .5: return "{{ %s }}" % e(random.choice([1,2,2,3]))
    if k < .7: return "%s%s{%s if %s %s}%s%s{%% else %%}%s{%% endif %%}%s" % (random.choice(["", " ", "\n", " \n  "]), "", random.choice(["%","%-"]), e(1), random.choice(["%","-%"]), random.choice(["", "\n", " "]), t(d-1), t(d-1), random.choice(["", "\n", "\n\n"]))
    if k < .8: return "{% set " + random.choice("xyz") + " = " + e(2) + " %}" + random.choice(["", "\n"]) + "{{ " + random.choice("xyz") + " }}" + t(d-1)
    if k < .85: return "{% raw " + random.choice(["%}", "-%}"]) + random.choice(["", "\n", " {{ x }} ", "${#a[@]}"]) + random.choice(["{%", "{%-"]) + " endraw %}" + random.choice(["", "\n"])
    if k < .9: return "a" + random.choice(["{#", "{#-"]) + " c " + random.choice(["#}", "-#}"]) + random.choice(["", "\n", " \n"]) + t(d-1)
    return "text\n" + t(d-1) + random.choice(["", "\n", "\n\n"]) + t(d-1)
cases += [("{{ %s }}" % e(random.choice([1,2,3]))) for _ in range(1500)] + [t(3) for _ in range(900)]

# values without an operator or a comma between them, numbers with a tail, what stands behind a filter or a test, and
# the templates above with a few of their tokens left out, doubled or exchanged
add("{{ nope | default(',''a') | upper }}", "{{ '' | d('x''y') }}", "{{ 'a.b'.replace('.' '-') }}", "{{ 'a.b.c'.rsplit('.' 1)[0] }}", "{{ 'a' | replace(,'a', 'b') }}", "{{ '10' | default(, true) }}", "{{ ['a' 'b'] | join }}", "{{ 'a'  not defined }}",
    "{{ 'a' or 010 }}", "{{ 'a' or 1b }}", "{{ 2ne is undefined }}", "{{ 1if true else 2 }}", "{{ 'a.b' | upper.lower() }}", "{{ 'a.b' | first[0] }}", "{{ 'a.b'.split('.') | first.upper() }}", "{{ nope | default('ab')[0] }}", "{{ nope | default('a').upper() }}",
    "{{ 'a' is defined.x }}", "{{ 'a' in['a'] }}", "{{ 'a' in('abc') }}", "{{ not'a' }}", "{{ 'a'and'b' }}", "{{ 'a'if'b'else'c' }}", "{{ 1, 2 }}", "{{ ['a', ] | join }}", "{{ 'abc'[1:2,] }}", "{{ ('a', 'b') | join }}", "{{ 'a'; }}", "{{ v1.if is defined }}",
    "{% raw %}a{% endraw b %}", "{% raw b %}a{% endraw %}", "{% if true %}a{% endif b %}", "{{ 'a' is not not defined }}", "{{ x = 'a' }}", "{{ 'a' | default(x='b') }}", "{{ v1.0 is defined }}", "{{ ds.meta_data.0local is defined }}")
TOKEN = re.compile(r"""\{%-?\+?|-?\+?%\}|\{\{-?|-?\}\}|\{#-?|-?#\}|'[^'\\]*'|"[^"\\]*"|\w+|\s+|.""", re.S)
found = [TOKEN.findall(c) for c in dict.fromkeys(cases) if 0 < len(c) < 80 and "\n" not in c]
parts = sorted({part for c in found for part in c})
random.seed(11)
while len(cases) < 7600:
    c = list(random.choice(found))
    for _ in range(random.choice([1, 1, 2])):
        at = random.randrange(len(c))
        c[at:at + random.choice([0, 1])] = random.choice([[], [c[at]], [random.choice(parts)], random.choice(found)])
        c = c or [" "]
    # what takes long is left out
    if len(c) < 40 and not {"**", "lipsum", "99999999999999999999", "9223372036854775807"} & set(c):
        add("".join(c))

seen = list(dict.fromkeys(cases))
META = {"local_hostname": "node-1.rack.example.com", "instance_id": "claim-1", "hostname": "node-1.rack.example.com",
        "provider_id": "slipway://ns/host-1/claim-1", "local_ipv4": "10.0.0.7"}
STANDARD = {key: META[key] for key in ("local_hostname", "instance_id")}
environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined, extensions=["jinja2.ext.do"])


def rendered(template):
    try:
        text = environment.from_string(template).render(ds={"meta_data": dict(META)}, v1=dict(STANDARD), **STANDARD)
    except Exception:
        return None
    # another text in each run: methods and generators are written with their address
    return None if " at 0x" in text or "lipsum()" in template else text + ("\n" if template.endswith("\n") else "")


with open("jinja2.json", "w", encoding="utf-8") as out:
    out.write("[\n" + ",\n".join(json.dumps([t, rendered(t)], ensure_ascii=False) for t in seen) + "\n]\n")
