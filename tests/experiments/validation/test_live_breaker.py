"""The failure script against a real Envoy, now."""

import pytest

from gatepilot.experiments.testbed.binaries import find_binary
from gatepilot.experiments.testbed.errors import LaunchError
from gatepilot.experiments.validation import breaker
from gatepilot.experiments.validation.claim import ValidationContext


@pytest.mark.live
@pytest.mark.timeout(240)  # a minute; thrice as long where the machine is too busy
def test_the_engine_ejects_and_returns_whom_envoy_does() -> None:
    try:
        find_binary("envoy")
    except LaunchError as error:
        pytest.skip(str(error))
    section = breaker.run(ValidationContext(None, None, live=True))
    assert section.skipped is None
    assert [claim.note for claim in section.missed] == []
    events = [claim for claim in section.claims if claim.quantity.endswith(", Envoy")]
    assert sum(claim.measured for claim in events) > 150
