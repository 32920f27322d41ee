"""A secret is hidden in every form that a program gives it by itself, and innocent values come through unchanged."""

import base64
import string
from collections.abc import Iterator
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.redaction import HIDDEN, RedactionStream, Redactor
from detent.redaction.environment import ambient_redactor, looks_secret
from tests.redaction.encodings import ENCODINGS, is_leaked

PRINTED = string.ascii_letters + string.digits + "-_.~!@#$%^&*()+=/\\'\"<>:; äé漢"
secret_values = st.text(PRINTED, min_size=16, max_size=90).filter(lambda value: len(set(value)) > 6)
forms = st.sampled_from(sorted(ENCODINGS))
surroundings = st.text(string.ascii_letters + " \n\t.,:=", max_size=30)
TOKENS = {
    "openai": "sk-proj-4fTq9ZbA1c2D3e4F5g6H7i8J",
    "anthropic": "sk-ant-api03-Zx81kQm2LrT0pWvN4sYb",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github fine": "github_pat_11ABCDEFG0abcdefghijkl_0123456789",
    "gitlab": "glpat-x1Y2z3A4b5C6d7E8f9G0",
    "slack": "xoxb-123456789012-abcdefGHIJKL",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIza" + "Sy4k0-aB_" * 3 + "12345678",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\nZm9v\n-----END RSA PRIVATE KEY-----",
}


@given(secret_values, forms, surroundings, surroundings)
def test_a_known_secret_is_hidden_in_every_encoding(value: str, form: str, before: str, after: str) -> None:
    text = before + ENCODINGS[form](value) + after
    for redactor in (Redactor([value]), Redactor(ambient=[value])):
        shown = redactor.hide_whole(text)
        assert HIDDEN in shown
        assert not is_leaked(value, shown)
        assert redactor.may_find(msgspec.json.encode({"a": [text]}))


@given(secret_values, st.data())
def test_parts_of_a_declared_secret_are_hidden_in_free_text_and_left_in_data(value: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(value) - 8))
    part = value[start : data.draw(st.integers(start + 8, len(value)))]
    text = f"«{part}»"
    redactor = Redactor([value])
    if len(set(part)) >= 4:
        assert redactor.hide_free(text) == f"«{HIDDEN}»"
    if part != value:
        assert redactor.hide_whole(text) == text or len(part) > len(value) - 3


@given(secret_values, forms, st.lists(st.integers(1, 12), min_size=1), surroundings, surroundings)
def test_pieces_of_a_text_are_hidden_like_the_whole(
    value: str, form: str, cuts: list[int], before: str, after: str
) -> None:
    text = before + ENCODINGS[form](value) + after
    stream, shown, place, number = RedactionStream(Redactor(ambient=[value])), "", 0, 0
    while place < len(text):
        length = cuts[number % len(cuts)]
        shown += stream.feed(text[place : place + length])
        assert not is_leaked(value, shown)
        place, number = place + length, number + 1
    assert not is_leaked(value, shown + stream.finish())


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("cut", [1, 3, 7, 1000])
def test_tokens_of_known_formats_are_hidden_whoever_they_belong_to(name: str, cut: int) -> None:
    token, redactor = TOKENS[name], Redactor()
    text = f"the answer: {token}, and more text"
    assert redactor.hide_free(text) == f"the answer: {HIDDEN}, and more text"
    assert redactor.hide_whole(text) == text, "data stays data"
    stream = RedactionStream(redactor)
    shown = "".join(stream.feed(text[place : place + cut]) for place in range(0, len(text), cut)) + stream.finish()
    assert shown == f"the answer: {HIDDEN}, and more text"


@pytest.mark.parametrize(
    "text",
    [
        "risk-management-assessment-of-2024",
        "sk-learn-contrib-is-a-package-name",
        "see task-4711-with-a-long-description",
        "eyJhbGciOiJIUzI1NiJ9 alone",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "AKIAlowercase and ASIA is a continent",
        "-" * 200,
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_innocent_text_stays(text: str) -> None:
    redactor = Redactor(["--------secret-of-ours--------"], ["Zq8-not-in-any-text-0815"])
    assert redactor.hide_free(text) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(inner)


@given(json_values, secret_values)
def test_values_without_a_secret_come_through_as_they_are(value: Any, secret: str) -> None:
    redactor = Redactor([secret], [secret[::-1] + "x"])
    if not any(secret[:8] in text for text in texts_in(value)):
        assert redactor.hide_in(value) == value


@given(json_values, secret_values, forms)
def test_json_that_is_shown_stays_json(value: Any, secret: str, form: str) -> None:
    redactor = Redactor(ambient=[secret])
    hypothesis.assume(redactor.hide_in(value, is_free=True) == value)
    shown = redactor.hide_json(msgspec.json.encode({"a": value, "b": ENCODINGS[form](secret)}))
    assert msgspec.json.decode(shown)["a"] == value
    assert HIDDEN in msgspec.json.decode(shown)["b"]


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("OPENAI_API_KEY", True), ("GH_TOKEN", True), ("DB_PASSWORD", True), ("MYSQL_PWD", True),
        ("client_secret", True),
        ("AWS_SECRET_ACCESS_KEY", True), ("SECRET_KEY", True), ("CREDENTIALS", True), ("SIGNING_KEY", True),
        ("PWD", False), ("OLDPWD", False), ("PATH", False), ("KEYBOARD", False), ("MONKEY", False), ("COMPASS", False),
        ("TOKEN_FILE", False), ("SSH_AUTH_SOCK", False), ("AUTHOR_NAME", False), ("PASSAGE", False),
    ],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str, is_secret: bool) -> None:
    assert looks_secret(name) is is_secret


def test_the_environment_is_read_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "4pLq-early-0123456789")
    monkeypatch.setenv("SHORT_TOKEN", "short")
    assert ambient_redactor().hide_whole("a 4pLq-early-0123456789 short") == f"a {HIDDEN} short"
    monkeypatch.setenv("SOME_TOKEN", "4pLq-later-0123456789")
    assert ambient_redactor().hide_whole("a 4pLq-later-0123456789") == f"a {HIDDEN}"
    monkeypatch.setenv("SOME_TOKEN", __file__)
    assert ambient_redactor().hide_whole(f"a {__file__}") == f"a {__file__}", "where a file is, is no secret"


HOSTILE = {
    "parts": "hunter2-is-a-long-secret-value-123 ",
    "token": "sk-", "runs": "sk-abcdefghijklmnopqrst.", "jwt": "eyJaaaaaaaaaaaa.",
    "pem": "-----BEGIN PRIVATE KEY-----a-",
    "same": "a" * 39 + "b", "dashes": "-",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_comes_to_an_end(kind: str) -> None:
    """Work that grew with the square of the length would take an hour here."""
    secret = "hunter2-is-a-long-secret-value-1234"
    redactor = Redactor([secret, "a" * 40])
    text = (HOSTILE[kind] * 500_000)[:500_000] + secret
    assert redactor.hide_free(text).endswith(HIDDEN)
    stream, shown = RedactionStream(redactor), ""
    for place in range(0, len(text), 4000):
        shown += stream.feed(text[place : place + 4000])
    assert secret not in shown + stream.finish()


def test_base64_of_a_long_secret_is_hidden_line_by_line() -> None:
    value = "Zq8" + "".join(chr(33 + number * 7 % 90) for number in range(300))
    text = base64.encodebytes(value.encode()).decode()
    shown = Redactor(ambient=[value]).hide_whole(f"<{text}>")
    assert shown.replace("\n", "") in (f"<{HIDDEN}>", f"<{HIDDEN}=>", f"<{HIDDEN}==>")
