"""What `measure` counts: each call as it is when the network is used, not as it is after somebody else's."""

import time

import pytest

from bayesprune.deploy.engines.measure import _medians


class Clock:
    """Seconds that pass as calls say: each takes longer right after another one's."""

    def __init__(self) -> None:
        self.now, self.last = 0.0, ""

    def call(self, name: str, seconds: float) -> None:
        self.now += seconds if self.last == name else 100 * seconds
        self.last = name


def test_a_call_is_timed_right_after_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    calls = {"quick": lambda: clock.call("quick", 1.0), "slow": lambda: clock.call("slow", 2.0)}
    assert _medians(calls, 3) == {"quick": 1.0, "slow": 2.0}


def test_contestants_take_turns() -> None:
    order: list[str] = []
    _medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "a", "b", "b", "a", "a", "b", "b"]
