"""Every mistake in a configuration is one line that names file, line, key and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor.config.load import MAX_BYTES, load, loads
from monitor.config.problems import Source
from monitor.model import ConfigError

CANARY = "hunter2-canary"
SERVICE = """\
services:
  - name: a
    speculative:
      targets: [http://gpu1:8000]
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(text, Source("m.yaml"))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"listn: 127.0.0.1:1\n{SERVICE}",
            "m.yaml:1: listn: is not a known key; did you mean 'listen'?",
        ),
        (
            f"scrape:\n  intervall: 5s\n{SERVICE}",
            "m.yaml:2: scrape.intervall: is not a known key; did you mean 'interval'?",
        ),
        (
            f"scrape: {{zzz: 5s}}\n{SERVICE}",
            "m.yaml:1: scrape.zzz: is not a known key; known are interval, max_page_size, timeout",
        ),
        (
            f"scrape: {{interval: 5 parsecs}}\n{SERVICE}",
            "m.yaml:1: scrape.interval: is not a duration: "
            "write 15s, 5m, 1h or a number of seconds",
        ),
        (
            f"scrape: {{max_page_size: lots}}\n{SERVICE}",
            "m.yaml:1: scrape.max_page_size: is not a size: "
            "write 64MB, 512KiB or a number of bytes",
        ),
        (
            f"scrape: {{interval: 10s, timeout: 10s}}\n{SERVICE}",
            "m.yaml:1: scrape.timeout: must be shorter than the interval",
        ),
        (
            f"scrape: [1]\n{SERVICE}",
            "m.yaml:1: scrape: must be a mapping: lines of the form 'key: value'",
        ),
        (
            f"threshold: 40\n{SERVICE}",
            "m.yaml:1: threshold: must be less than 1",
        ),
        (
            f"threshold: .nan\n{SERVICE}",
            "m.yaml:1: threshold: must be a finite number",
        ),
        (
            f"windows: [1m, 5m, 5m]\n{SERVICE}",
            "m.yaml:1: windows: must ascend, each span once, such as [1m, 5m, 15m]",
        ),
        (
            f"windows: [1{'0' * 400}]\n{SERVICE}",
            "m.yaml:1: windows[0]: must be less than or equal to 31622400",
        ),
        (
            f"scrape: {{max_page_size: {'9' * 400}MB}}\n{SERVICE}",
            "m.yaml:1: scrape.max_page_size: must be less than or equal to 1073741824",
        ),
        (
            f"windows: []\n{SERVICE}",
            "m.yaml:1: windows: must have at least one entry",
        ),
        (
            f"windows: [1m]\njudged_windows: [2m]\n{SERVICE}",
            "m.yaml:2: judged_windows: must be among the windows",
        ),
        (
            f"listen: 9465\n{SERVICE}",
            "m.yaml:1: listen: must be text; put it in quotes",
        ),
        (
            f"listen: http://localhost:9465\n{SERVICE}",
            "m.yaml:1: listen: is not an address: write HOST:PORT, such as 127.0.0.1:9465",
        ),
        (
            f"database: mysql://h/d\n{SERVICE}",
            "m.yaml:1: database: must begin with sqlite:/// or postgresql://, "
            "such as sqlite:///monitor.db",
        ),
        (
            f"database: sqlite:///x\ndatabase_env: X\n{SERVICE}",
            "m.yaml:2: database_env: stands beside database: keep one of them",
        ),
        ("threshold: 0.4\n", "m.yaml:1: services: is missing"),
        ("services:\n", "m.yaml:1: services: is missing"),
        ("services: []\n", "m.yaml:1: services: must have at least one entry"),
        (
            "services:\n  - name: a\n    speculative:\n      targets: []\n",
            "m.yaml:4: services[0].speculative.targets: must have at least one entry",
        ),
        (
            "services:\n  - name: a\n    speculative:\n      targets:\n"
            "        - http://a:1\n        - ftp://b\n",
            "m.yaml:6: services[0].speculative.targets[1].url: is not a URL: "
            "the scheme must be http or https",
        ),
        (
            "services:\n  - name: a\n    speculative: {targets: ['http://169.254.169.254/x']}\n",
            "m.yaml:3: services[0].speculative.targets[0].url: "
            "is the address of a metadata service, which is never scraped",
        ),
        (
            "services:\n  - name: 7\n    speculative: {targets: [http://a]}\n",
            "m.yaml:2: services[0].name: must be text; put it in quotes",
        ),
        (
            "services:\n  - name: a\n    speculative:\n      targets:\n"
            "        - {url: http://a, labels: {0x: y}}\n",
            "m.yaml:5: services[0].speculative.targets[0].labels.(key not shown): "
            "is not a label name: letters, digits and _, not a digit first",
        ),
        (
            "services:\n  - name: a\n    speculative:\n      targets:\n"
            "        - {url: http://a, engine: vlm}\n",
            "m.yaml:5: services[0].speculative.targets[0].engine: is not a known engine; "
            "did you mean 'vllm'?",
        ),
        (
            "services:\n  - name: a\n    speculative:\n      targets:\n"
            "        - {url: http://a, interval: 5s, timeout: 6s}\n",
            "m.yaml:5: services[0].speculative.targets[0].timeout: "
            "must be shorter than the interval",
        ),
        (
            f"{SERVICE}  - name: a\n    speculative: {{targets: [http://b]}}\n",
            "m.yaml:5: services[1].name: is the name of services[0] already: names must be unique",
        ),
        (
            f"{SERVICE}  - name: b\n    speculative:\n      targets:\n        - gpu1:8000\n",
            "m.yaml:8: services[1].speculative.targets[0]: has the name of another target, "
            "of the service 'a': give it a 'name' of its own",
        ),
        (
            f"{SERVICE}    baseline: {{}}\n",
            "m.yaml:5: services[0].baseline: must have curve, targets or both",
        ),
        (
            f"{SERVICE}    auth: {{username: me}}\n",
            "m.yaml:5: services[0].auth: needs username together with password_file "
            "or password_env",
        ),
        (
            f"{SERVICE}    auth: {{bearer_file: x, bearer_env: Y}}\n",
            "m.yaml:5: services[0].auth: must have one of bearer_file, bearer_env and username",
        ),
        (
            f"{SERVICE}    tls: {{key_file: x}}\n",
            "m.yaml:5: services[0].tls: has key_file without cert_file: name the certificate too",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_its_fix(text: str, line: str) -> None:
    assert mistakes(text) == [line]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "",
            "m.yaml: is empty: 'monitor config init' writes an example to start from",
        ),
        (
            "# only a comment\n",
            "m.yaml: is empty: 'monitor config init' writes an example to start from",
        ),
        ("- a\n- b\n", "m.yaml:1: must be a mapping: lines of the form 'key: value'"),
        ("just words\n", "m.yaml:1: must be a mapping: lines of the form 'key: value'"),
        ("a: 1\n\tb: 2\n", "m.yaml:2: is indented with a tab: YAML takes only spaces"),
        ("a: 1\na: 2\n", "m.yaml:2: a: stands here twice (first on line 1)"),
        (
            "a: {b: 1, c: 2,\n    b: 3}\n",
            "m.yaml:2: a.b: stands here twice (first on line 1)",
        ),
        ("a: 'open\n", "m.yaml:2: is not valid YAML: found unexpected end of stream (column 1)"),
        (
            "a: b: c\n",
            "m.yaml:1: is not valid YAML: mapping values are not allowed here (column 5)",
        ),
        (
            "a: 1\n---\nb: 1\n",
            "m.yaml:2: is not valid YAML: a second document begins here: keep one, "
            "and remove the line '---' (column 1)",
        ),
        ("a: 1\nb: \x00\n", "m.yaml:2: holds a control character; is it a text file?"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "m.yaml:1: a: has a tag ('!…'), which is not accepted here",
        ),
        ("a: !secret x\n", "m.yaml:1: a: has a tag ('!…'), which is not accepted here"),
        ("a: !!int x\n", "m.yaml:1: a: is not a value of the type int"),
        ("? [1, 2]\n: x\n", "m.yaml:1: has a list or a mapping as a key"),
        ("a: &a [*a]\n", "m.yaml:1: has an alias that refers to itself"),
        ("<<: 3\n", "m.yaml:1: merges ('<<') something that is no mapping"),
        ("[" * 5000, "m.yaml: is nested too deeply"),
        (f"a: {'[' * 100}{']' * 100}\n", "m.yaml:1: is nested too deeply"),
    ],
)
def test_text_that_is_no_mapping_is_one_line(text: str, line: str) -> None:
    assert mistakes(text) == [line]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (line,) = mistakes("\n".join(lines))
    assert line.endswith("has more than 50000 values once its aliases are expanded")


def test_merged_mappings_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    (line,) = mistakes("\n".join(lines))
    assert line.endswith("has more than 50000 values once its aliases are expanded")


def test_all_mistakes_are_listed_at_once_in_the_order_of_the_file() -> None:
    text = """\
listn: x
scrape: {interval: 10s, timeout: 20s, max_page_size: lots}
windows: [5m, 1m]
services:
  - nme: first
  - name: kimi
    auth: {bearer: x}
    speculative:
      targets: [http://gpu1:8000, ftp://gpu2, {name: no-url}]
  - name: kimi
    speculative:
      targets: [http://gpu1:8000/metrics]
"""
    places = [line.split(": ")[:2] for line in mistakes(text)]
    assert places == [
        ["m.yaml:1", "listn"],
        ["m.yaml:2", "scrape.max_page_size"],
        ["m.yaml:2", "scrape.timeout"],
        ["m.yaml:3", "windows"],
        ["m.yaml:5", "services[0].name"],
        ["m.yaml:5", "services[0].nme"],
        ["m.yaml:5", "services[0].speculative"],
        ["m.yaml:7", "services[1].auth.bearer"],
        ["m.yaml:9", "services[1].speculative.targets[1].url"],
        ["m.yaml:9", "services[1].speculative.targets[2].url"],
        ["m.yaml:10", "services[2].name"],
        ["m.yaml:12", "services[2].speculative.targets[0]"],
    ]


def test_a_mistake_hides_what_only_follows_from_it() -> None:
    text = f"windows: [1m, x]\njudged_windows: [1m]\n{SERVICE}"
    assert [line.split(": ")[1] for line in mistakes(text)] == ["windows[1]"]


def test_endless_mistakes_are_cut_off() -> None:
    keys = "\n".join(f"key_{'x' * n}: 1" for n in range(1, 36)) + "\n"
    more = "\n".join(f"kez_{'x' * n}: 1" for n in range(1, 36)) + "\n"
    lines = mistakes(keys + more + SERVICE)
    assert len(lines) == 51
    assert lines[-1] == "m.yaml: and 20 mistakes more"


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (b"\xff\xfe\x00\x01", "is not UTF-8 text"),
        (b"\x7fELF\x00\x00", "holds a control character; is it a text file?"),
        (b"a: b\n" * (MAX_BYTES // 5 + 1), "is larger than 1000000 bytes"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(
    tmp_path: Path, content: bytes, ending: str
) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}:")
    assert line.endswith(ending)


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        f"token: {CANARY}\n{SERVICE}",
        f"database: postgresql://u:{CANARY}@h/d\n{SERVICE}",
        f"database: postgresql://h/d?password={CANARY}\n{SERVICE}",
        f"database: {CANARY}\n{SERVICE}",
        f"database_env: {CANARY}\n{SERVICE}",
        f"token_env: {CANARY}\n{SERVICE}",
        f"listen: {CANARY}\n{SERVICE}",
        f"{SERVICE}    auth: {{bearer: {CANARY}}}\n",
        f"{SERVICE}    auth: {{bearer_env: {CANARY}}}\n",
        f"{SERVICE}    auth: {{username: u, password: {CANARY}}}\n",
        f"{SERVICE}    auth: {{{CANARY}}}\n",
        f"{SERVICE}    auth: {CANARY}\n",
        f"{SERVICE}    auth: [{CANARY}]\n",
        f"{SERVICE}    auth: {{bearer_file: [{CANARY}]}}\n",
        f"{SERVICE}    auth: *{CANARY}\n",
        f"{SERVICE}    auth: !{CANARY} x\n",
        f"{SERVICE}    auth: !{CANARY}!x x\n",
        f"{SERVICE}    auth: '{CANARY}\n",
        f"{SERVICE}    auth: {{bearer: {CANARY}\n",
        "services: [{name: a, speculative: {targets: ['http://u:" + CANARY + "@h:1']}}]\n",
        "services: [{name: a, speculative: {targets: ['http://h:1/?token=" + CANARY + "']}}]\n",
        "services: [{name: a, speculative: {targets: ['ftp://u:" + CANARY + "@h:1']}}]\n",
        f"threshold: {CANARY}\n{SERVICE}",
        f"scrape: {{interval: {CANARY}}}\n{SERVICE}",
        f"scrape: {{max_page_size: {CANARY}}}\n{SERVICE}",
    ],
)
def test_a_mistake_never_repeats_what_may_be_a_secret(text: str) -> None:
    assert CANARY not in "\n".join(mistakes(text))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (f"token: x\n{SERVICE}", "token_file"),
        (f"{SERVICE}    auth: {{bearer: x}}\n", "bearer_file"),
        (f"{SERVICE}    auth: {{token: x}}\n", "bearer_file"),
        (f"{SERVICE}    auth: {{password: x}}\n", "password_file"),
        (f"{SERVICE}    bearer: x\n", "in the service's auth"),
        (f"database: postgresql://u:p@h/d\n{SERVICE}", "database_file or database_env"),
        (
            "services: [{name: a, speculative: {targets: ['http://u:p@h']}}]",
            "use auth with username and password_file, or bearer_file",
        ),
    ],
)
def test_a_secret_in_plain_is_refused_with_the_way_to_give_it(text: str, advice: str) -> None:
    (line,) = mistakes(text)
    assert advice in line


KEYS = st.sampled_from(
    [
        "database",
        "listen",
        "token_env",
        "scrape",
        "interval",
        "windows",
        "judged_windows",
        "threshold",
        "services",
        "name",
        "auth",
        "tls",
        "speculative",
        "baseline",
        "targets",
        "url",
        "labels",
        "curve",
        "engine",
        "<<",
    ]
)


def test_what_is_wrong_with_named_files_is_said_beside_all_else(tmp_path: Path) -> None:
    text = """\
listn: 127.0.0.1:1
listen: 0.0.0.0:1
token_file: no-token
services:
  - name: a
    treshold: 3
    speculative:
      targets: [http://gpu1:8000]
    auth: {bearer_env: NOT_SET_ANYWHERE}
    baseline: {curve: no-curve.json}
"""
    with pytest.raises(ConfigError) as caught:
        loads(text, Source("m.yaml", tmp_path), {})
    found = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert found == [
        "listn",
        "token_file",
        "services[0].treshold",
        "services[0].auth.bearer_env",
        "services[0].baseline.curve",
    ]


def test_nothing_is_said_to_follow_from_what_is_wrong_already() -> None:
    text = f"listen: 0.0.0.0:1\ntoken_file: 3\n{SERVICE}"
    assert mistakes(text) == ["m.yaml:2: token_file: must be text; put it in quotes"]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "x", "http://a", "15s", "a\nb"])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, DOCUMENTS, min_size=1, max_size=6), st.lists(DOCUMENTS, max_size=3))
def test_any_document_is_valid_or_a_list_of_mistakes(
    document: dict[str, Any], services: list[Any]
) -> None:
    good = {"name": "a", "speculative": {"targets": ["http://a"]}}
    text = yaml.safe_dump(document | {"services": [good, *services]})
    found = ""
    try:
        loads(text, Source("m.yaml"))
    except ConfigError as error:
        found = str(error)
    assert all(line.startswith("m.yaml:") for line in found.splitlines())


@given(st.text())
def test_any_text_is_valid_or_a_list_of_mistakes(text: str) -> None:
    with pytest.raises(ConfigError):
        loads(text, Source("m.yaml"))
