"""Eight devices give what one gives, to float32's rounding in the order of sums."""

import json

import pytest

from tests.infer.processes import output_of


@pytest.mark.slow
def test_eight_devices_train_as_one_does() -> None:
    told = json.loads(output_of("eight_devices.py", 8))
    assert told["devices"] == 8
    for mesh in ("eight", "four by two"):
        assert told[mesh]["masks"] and told[mesh]["cut"] and told[mesh]["apart"] < 2e-5, told
