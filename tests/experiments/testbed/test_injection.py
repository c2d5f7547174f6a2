"""Faults as they are written on the command line."""

import pytest

from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.testbed.injection import Injection, parse_injection


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:errors=0.6@30-90", Injection(1, "errors", 0.6, 30.0, 90.0)),
        ("0:slow=3@0.5", Injection(0, "slow", 3.0, 0.5, None)),
        ("2:hang@10-", Injection(2, "hang", None, 10.0, None)),
        ("2:kill@10", Injection(2, "kill", None, 10.0, None)),
    ],
)
def test_what_is_understood(text: str, expected: Injection) -> None:
    assert parse_injection(text, 3) == expected


def test_what_the_replica_is_told() -> None:
    fault = parse_injection("1:errors=0.6@30-90", 3)
    assert (fault.onset, fault.recovery) == ({"error_share": 0.6}, {"error_share": 0.0})
    hang = parse_injection("1:hang@30-90", 3)
    assert (hang.onset, hang.recovery) == ({"hang": True}, {"hang": False})
    slow = parse_injection("1:slow=2@30-90", 3)
    assert (slow.onset, slow.recovery) == ({"slow_factor": 2.0}, {"slow_factor": 1.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("errors", "expected REPLICA:errors=SHARE@FROM-TO"),
        ("1:errors=0.6", "expected REPLICA"),
        ("3:hang@10", "replica 3 is not one of 0 to 2"),
        ("1:errors@10", "need a value"),
        ("1:hang=2@10", "need a value"),
        ("1:errors=1.5@10", "a share is at most 1"),
        ("1:slow=0@10", "a factor above 0"),
        ("1:hang@10-10", "it must end after it begins"),
        ("1:kill@10-20", "a kill has no end"),
        ("1:hang@1.2.3", "could not convert"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message) as caught:
        parse_injection(text, 3)
    assert len(str(caught.value).splitlines()) == 1
