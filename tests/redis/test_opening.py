"""What `open` checks and says: addresses, versions, what is at the address, what could make the server forget."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from crawler.errors import StateMismatch, StateMissing, StateUnavailable, UsageError
from crawler.state.open import open_state
from crawler.state.redis import RedisState, client, opening
from crawler.state.redis.address import parse
from tests.redis.making import Make, direct, keys, name_of
from tests.redis_server import RedisServer, running

# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "url", "name", "shown"),
    [
        ("redis://host", "redis://host/0", "crawler", "redis://host:6379/0"),
        ("redis://host:1/3", "redis://host:1/3", "crawler", "redis://host:1/3"),
        ("redis://:secret@host?name=a.b", "redis://:secret@host/0", "a.b", "redis://host:6379/0?name=a.b"),
        ("redis://[::1]:7/", "redis://[::1]:7/0", "crawler", "redis://[::1]:7/0"),
        (
            "rediss://user:p%40ss@host/1?ssl_ca_certs=/ca.pem",
            "rediss://user:p%40ss@host/1?ssl_ca_certs=%2Fca.pem",
            "crawler",
            "rediss://host:6379/1",
        ),
    ],
)
def test_an_address_is_read_and_shown_without_its_password(text: str, url: str, name: str, shown: str) -> None:
    address = parse(text)
    assert (address.url, address.name, address.shown) == (url, name, shown)


@pytest.mark.parametrize(
    "text",
    [
        "redis://",
        "redis://:secret@",
        "redis://host:port",
        "redis://host:99999",
        "redis://host/name",
        "redis://[::1",
        "redis://host?name=",
        "redis://host?name={x}",
        "redis://host?socket_timeout=1",
        "redis://host?ssl_ca_certs=/ca.pem",
        "redis://:secret@host/x",
    ],
)
async def test_an_address_that_makes_no_sense_is_a_usage_error_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        await open_state(text, worker="w")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_missing_client_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("crawler.state.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(UsageError, match=r"pip install 'crawler\[redis\]'"):
        await open_state("redis://127.0.0.1/0", worker="w")


# ---------------------------------------------------------------- what is there


async def test_a_state_is_made_only_when_asked(redis_server: RedisServer) -> None:
    address = redis_server.address()
    with pytest.raises(StateMissing, match=name_of(address)):
        await open_state(address, worker="w")
    with direct(redis_server) as redis:
        assert keys(redis, address) == set()
    for create in (True, False):
        state = await open_state(address, worker="w", create=create)
        assert isinstance(state, RedisState)
        assert state.home == ""
        await state.close()


async def test_states_of_two_names_know_nothing_of_each_other(redis_server: RedisServer, make: Make) -> None:
    one = await make(redis_server.address())
    other = await RedisState.open(redis_server.address(), worker="w", create=True)
    assert await one.remember("name", b"1", 60)
    assert (await other.crawls(), await other.recall(["name"])) == ([], [None])
    await other.close()


async def test_a_state_of_another_version_is_left_alone(redis_server: RedisServer) -> None:
    address = redis_server.address()
    with direct(redis_server) as redis:
        redis.hset(f"{{{name_of(address)}}}:state", "schema", "1")
        with pytest.raises(StateMismatch, match="another version"):
            await RedisState.open(address, worker="w", create=True)
        assert redis.hgetall(f"{{{name_of(address)}}}:state") == {b"schema": b"1"}


async def test_another_program_s_key_is_left_alone(redis_server: RedisServer) -> None:
    address = redis_server.address()
    with direct(redis_server) as redis:
        redis.set(f"{{{name_of(address)}}}:state", "theirs")
        with pytest.raises(StateMismatch, match="name="):
            await RedisState.open(address, worker="w", create=True)
        assert redis.get(f"{{{name_of(address)}}}:state") == b"theirs"


async def test_settings_of_another_version_are_a_mismatch(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    state = await make(address)
    with direct(redis_server) as redis:
        redis.hset(f"{{{name_of(address)}}}:1:crawl", "settings", '{"rate": "fast"}')
    with pytest.raises(StateMismatch):
        await state.crawls()


async def test_a_server_that_is_not_there_is_unavailable_in_one_line(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    for address in (
        "redis://127.0.0.1:1/0",
        "redis://no-such-host.invalid/0",
        f"rediss://127.0.0.1:{redis_server.port}",
    ):
        with pytest.raises(StateUnavailable) as caught:
            await RedisState.open(address, worker="w")
        assert "\n" not in str(caught.value)


async def test_an_old_server_is_refused(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OLDEST", (99, 0))
    with pytest.raises(StateUnavailable, match=r"99\.0 or newer"):
        await RedisState.open(redis_server.address(), worker="w", create=True)


# ---------------------------------------------------------------- rights


async def test_a_wrong_password_is_told_at_once_and_not_shown(tmp_path: Path) -> None:
    with running(tmp_path / "redis", requirepass="right", appendonly="yes") as server:
        bare = server.address("x")
        for wrong in (bare, bare.replace("//", "//:wrong-one@")):
            with pytest.raises(StateUnavailable, match="refuses the user or the password") as caught:
                await RedisState.open(wrong, worker="w", create=True)
            assert "wrong-one" not in str(caught.value)
        await (await RedisState.open(bare.replace("//", "//:right@"), worker="w", create=True)).close()


async def test_a_user_who_may_not_see_the_configuration_may_crawl(redis_server: RedisServer) -> None:
    with direct(redis_server) as redis:
        redis.acl_setuser(
            "plain", enabled=True, passwords="+pw", keys="*", categories=["+@all"], commands=["-config"], reset=True
        )
    address = redis_server.address().replace("//", "//plain:pw@")
    await (await RedisState.open(address, worker="w", create=True)).close()


async def test_a_user_without_the_rights_is_told_so(redis_server: RedisServer) -> None:
    with direct(redis_server) as redis:
        redis.acl_setuser("reader", enabled=True, passwords="+pw", keys="*", categories=["+@read", "+@dangerous"])
    address = redis_server.address().replace("//", "//reader:pw@")
    with pytest.raises(StateUnavailable, match="not the right"):
        await RedisState.open(address, worker="w", create=True)


# ---------------------------------------------------------------- warnings


@pytest.mark.case("F17")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"save": ""}, ["appendonly yes"]),
        ({"save": "3600 1"}, []),
        ({"appendonly": "yes"}, []),
        ({"appendonly": "yes", "maxmemory_policy": "allkeys-lru"}, ["noeviction"]),
        ({"maxmemory_policy": "allkeys-random"}, ["appendonly yes", "noeviction"]),
    ],
)
async def test_a_server_that_could_forget_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str], words: list[str]
) -> None:
    caplog.set_level(logging.WARNING)
    with running(tmp_path / "redis", **options) as server:
        for _ in range(2):
            await (await RedisState.open(server.address("x"), worker="w", create=True)).close()
    assert len(caplog.messages) == len(words)
    for message, word in zip(caplog.messages, words, strict=True):
        assert word in message
        assert "\n" not in message
