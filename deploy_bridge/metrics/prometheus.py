"""Readings from Prometheus: freshness first, one sample or none, one deadline for all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .answer import MalformedError, Verdict, judge, wrong_type
from .client import NoAnswerError, PrometheusClient, PrometheusParams
from .deadline import Deadline, LateError
from .hints import Hints
from .query import Query
from .report import ProbeEntry, ProbeState
from .source import Problem, Reading, Sample

NAME: Final = "prometheus"
_PROBE_PATIENCE: Final = 4.0
"""Times the deadline that the start-up report may take: it asks for more, and no tick waits."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What became of one query."""

    verdict: Verdict
    problems: tuple[Problem, ...]
    infos: tuple[str, ...] = ()
    ends_read: bool = False


class PrometheusSource:
    """Asks the catalogue, one query after the other over one connection.

    All queries of a read are evaluated at one instant: the server's own time of the first answer.

    Args:
        params: Where and how long.
        queries: The catalogue, checks of freshness first.
    """

    def __init__(self, params: PrometheusParams, queries: Sequence[Query]) -> None:
        self._params = params
        self._queries = tuple(queries)
        self._client = PrometheusClient(params)
        self._deadline = Deadline(NAME, params.deadline_s)
        self._probe_deadline = Deadline(f"{NAME}-probe", params.deadline_s * _PROBE_PATIENCE)

    def read(self, now_s: float) -> Reading:
        """Asks everything; once a check of freshness has failed, no field is asked for."""
        client = self._client
        try:
            return self._deadline.run(lambda given_up: self._read(client, now_s, given_up))
        except LateError as error:
            self._client = PrometheusClient(self._params)  # the thread may still use the old one
            return Reading({}, (Problem("deadline", NAME, str(error)),))

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        """Asks every query, whatever the others bring, with a hint where one brings nothing."""
        try:
            return self._probe_deadline.run(lambda given_up: self._probe(now_s, given_up))
        except LateError as error:
            return (ProbeEntry(NAME, NAME, "deadline", True, self._params.url, None, str(error)),)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def _read(self, client: PrometheusClient, now_s: float, given_up: threading.Event) -> Reading:
        values: dict[str, float] = {}
        problems: list[Problem] = []
        samples: list[Sample] = []
        at_s: float | None = None
        is_fresh = True
        for query in self._queries:
            if given_up.is_set() or (query.kind == "field" and not is_fresh):
                break
            asked = _ask(client, query, at_s)
            samples.append(Sample(query.name, query.text, asked.verdict.raw))
            problems += asked.problems
            if at_s is None and asked.verdict.at_s is not None:
                at_s = asked.verdict.at_s
                problems += self._clock(at_s, now_s)
            if query.kind == "freshness":
                is_fresh = not problems
            elif asked.verdict.value is not None:
                values[query.name] = asked.verdict.value
            if asked.ends_read:
                break
        return Reading(values, tuple(problems), tuple(samples))

    def _clock(self, at_s: float, now_s: float) -> list[Problem]:
        if abs(at_s - now_s) <= self._params.max_clock_skew_s:
            return []
        detail = (
            f"Prometheus' clock is {at_s - now_s:+.1f} s from this one, expected at most "
            f"{self._params.max_clock_skew_s:g} s; or the answer came out of a cache"
        )
        return [Problem("stale", "clock", detail)]

    def _probe(self, now_s: float, given_up: threading.Event) -> tuple[ProbeEntry, ...]:
        client = PrometheusClient(self._params)
        hints = Hints(client)
        entries: list[ProbeEntry] = []
        at_s: float | None = None
        for query in self._queries:
            if given_up.is_set():
                break
            asked = _ask(client, query, at_s)
            if at_s is None and asked.verdict.at_s is not None:
                at_s = asked.verdict.at_s
                entries += [
                    ProbeEntry(NAME, p.what, p.kind, True, "", at_s, p.detail)
                    for p in self._clock(at_s, now_s)
                ]
            entries.append(_entry(query, asked, hints))
            if asked.ends_read:
                break
        client.close()
        return tuple(entries)


def _ask(client: PrometheusClient, query: Query, at_s: float | None) -> _Asked:
    try:
        answer = client.ask(query.text, at_s)
        wrong = wrong_type(answer.result_type)
        if wrong:
            return _Asked(Verdict(), (Problem("refused", query.name, wrong),))
        verdict = judge(query, answer.result, at_s)
    except NoAnswerError as error:
        problem = Problem(error.kind, query.name, str(error))
        return _Asked(Verdict(), (problem,), ends_read=error.ends_read)
    except MalformedError as error:
        return _Asked(Verdict(), (Problem("unreachable", query.name, str(error)),))
    problems = [Problem("warning", query.name, warning) for warning in answer.warnings]
    if verdict.problem is not None:
        problems.append(Problem(verdict.problem, query.name, verdict.detail))
    return _Asked(verdict, tuple(problems), answer.infos)


def _entry(query: Query, asked: _Asked, hints: Hints) -> ProbeEntry:
    """The report's line: the problem that matters most, or the value."""
    verdict = asked.verdict
    state: ProbeState
    if asked.problems:
        worst = asked.problems[-1]  # warnings stand first
        state, hint = worst.kind, worst.detail
    else:
        state, hint = ("ok" if verdict.value is not None else "missing"), "; ".join(asked.infos)
    if state == "missing":
        hint = hints.missing(query) or hint
    return ProbeEntry(NAME, query.name, state, query.is_critical, query.text, verdict.raw, hint)
