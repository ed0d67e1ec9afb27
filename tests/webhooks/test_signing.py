"""Secrets: signatures by the published vector, sealed secrets, rotations."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from coordinator.settings.sections.webhooks import is_secret
from coordinator.webhooks import signing
from coordinator.webhooks.signing import OVERLAP_SECONDS, headers, in_force, rotated
from tests.webhooks.receiver import SECRET

HOUR = 3_600_000
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()


def test_the_published_vector() -> None:
    """That of the specification's libraries."""
    made = headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        datetime.fromtimestamp(1614265330, UTC),
    )
    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_rotation_signs_with_both_for_a_day_and_then_with_the_new_one() -> None:
    first = rotated(SECRET, in_force(SECRET, "", "", 0), 1000)
    assert is_secret(first.secret)
    during = in_force(SECRET, first.sealed, first.earlier, 1000 + 23 * HOUR)
    after = in_force(SECRET, first.sealed, first.earlier, 1000 + OVERLAP_SECONDS * 1000)
    assert during.all == [first.secret, SECRET]
    assert after.all == [first.secret]
    signed = headers("a:1", '{"é": 1}'.encode(), during.all, datetime.now(UTC))
    for secret in during.all:
        Webhook(secret).verify('{"é": 1}', dict(signed))
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify('{"é": 1}', dict(signed))


def test_the_new_secret_may_move_into_the_settings_at_any_time() -> None:
    first = rotated(SECRET, in_force(SECRET, "", "", 0), 0)
    assert in_force(first.secret, first.sealed, first.earlier, HOUR).all == [first.secret, SECRET]
    second = rotated(first.secret, in_force(first.secret, first.sealed, first.earlier, HOUR), HOUR)
    assert in_force(first.secret, second.sealed, second.earlier, 2 * HOUR).all == [second.secret, first.secret, SECRET]
    assert in_force(first.secret, second.sealed, second.earlier, 24 * HOUR).all == [second.secret, first.secret]


def test_another_secret_in_the_settings_replaces_all() -> None:
    first = rotated(SECRET, in_force(SECRET, "", "", 0), 0)
    assert in_force(OTHER, first.sealed, first.earlier, HOUR).all == [OTHER]


def test_rotations_again_and_again_keep_few_signatures() -> None:
    held, sealed, earlier = in_force(SECRET, "", "", 0), "", ""
    for n in range(10):
        fresh = rotated(SECRET, held, n)
        sealed, earlier = fresh.sealed, fresh.earlier
        held = in_force(SECRET, sealed, earlier, n)
        assert held.present == fresh.secret
    assert len(held.all) == 1 + signing.MOST_EARLIER


def test_what_redis_has_says_nothing_of_any_secret() -> None:
    fresh = rotated(SECRET, in_force(SECRET, "", "", 0), 0)
    kept = fresh.sealed + fresh.earlier
    for secret in (SECRET, fresh.secret):
        assert secret.removeprefix("whsec_") not in kept
        assert secret not in repr(fresh) + repr(in_force(SECRET, fresh.sealed, fresh.earlier, 0))
    assert not in_force(OTHER, fresh.sealed, fresh.earlier, 0).earlier
    assert json.dumps(kept)


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        (SECRET, True),
        (SECRET.rstrip("="), True),
        ("whsec_" + base64.b64encode(b"x" * 24).decode(), True),
        ("whsec_" + base64.b64encode(b"x" * 64).decode(), True),
        ("whsec_" + base64.b64encode(b"x" * 23).decode(), False),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), False),
        (SECRET.removeprefix("whsec_"), False),
        ("whsec_", False),
        ("whsec_" + "a" * 33, False),
        ("whsec_" + "ä" * 32, False),
        (SECRET + "\n", False),
    ],
)
def test_what_a_secret_is(text: str, fine: bool) -> None:
    assert is_secret(text) is fine
