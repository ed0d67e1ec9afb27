"""Error replies and what they mean."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
import redis.exceptions

from coordinator.errors import ToolFailure
from coordinator.store import ScriptFailure, ServerError
from coordinator.store.link.replies import failure, lacks_function
from coordinator.store.scripts import decoded
from tests.store.calls import REFUSE


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "store_full"),
        ("OOM command not allowed when used memory > 'maxmemory'. script: 0a, on @user_function:1.", "store_full"),
        ("READONLY You can't write against a read only replica.", "store_unavailable"),
        ("LOADING Redis is loading the dataset in memory", "store_unavailable"),
        ("MASTERDOWN Link with MASTER is down", "store_unavailable"),
        ("MISCONF Errors writing to the AOF file: No space left on device", "store_unavailable"),
        ("CLUSTERDOWN The cluster is down", "store_unavailable"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "store_unavailable"),
        ("NOREPLICAS Not enough good replicas to write.", "store_unavailable"),
        ("BUSY Redis is busy running a script.", "store_unavailable"),
        ("NOPERM User fleet has no permissions to run the 'fcall' command", "store_unavailable"),
        (
            "ERR ACL failure in script: User fleet has no permissions to run the 'hdel' command script: on @a:1.",
            "store_unavailable",
        ),
    ],
)
@pytest.mark.parametrize("script", [REFUSE, None])
def test_errors_of_the_server_are_reported_with_a_retry_delay(reply: str, code: str, script: object) -> None:
    found = failure(ServerError(reply), script)  # type: ignore[arg-type]
    assert isinstance(found, ToolFailure)
    assert found.code == code
    assert found.kind == "shedding"
    assert found.retry_after_ms


@pytest.mark.parametrize(
    ("reply", "code", "detail"),
    [
        ("FLEET GONE", "GONE", ""),
        ("FLEET CONFLICT a b: c", "CONFLICT", "a b: c"),
        ("FLEET GONE for good script: on @user_function:1.", "GONE", "for good"),
        ("FLEET GONE for good script: 0123abcd, on @user_function:12.", "GONE", "for good"),
    ],
)
def test_a_declared_code_is_a_refusal(reply: str, code: str, detail: str) -> None:
    found = failure(ServerError(reply), REFUSE)
    assert isinstance(found, ScriptFailure)
    assert (found.code, found.detail) == (code, detail)


@pytest.mark.parametrize("reply", ["FLEET SURPRISE", "FLEET", "WRONGTYPE Operation", "ERR unknown command", "X"])
def test_everything_else_is_a_defect(reply: str) -> None:
    assert type(failure(ServerError(reply), REFUSE)) is ServerError
    assert type(failure(ServerError(reply))) is ServerError


@pytest.mark.parametrize("reply", [b"\xc1", b"\xa1\xff", b"\xa1a"])
def test_an_unreadable_reply_is_a_defect(reply: bytes) -> None:
    with pytest.raises(ServerError, match="cannot be read"):
        decoded(msgspec.msgpack.Decoder(int | Literal["b"]).decode, reply)


def test_a_missing_function_is_told_apart_from_other_errors() -> None:
    assert lacks_function(ServerError("ERR Function not found"))
    assert lacks_function(redis.exceptions.ResponseError("Function not found"))  # as redis-py has it
    assert not lacks_function(ServerError("ERR Library not found"))
    assert not lacks_function(ServerError("ERR user_function:3: Function not found"))
