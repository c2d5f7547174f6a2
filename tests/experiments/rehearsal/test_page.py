"""The report of a rehearsal: one file that needs nothing else, with what shadow cannot tell."""

import base64
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from gatepilot.experiments.files import OutputError
from gatepilot.experiments.page import Picture
from gatepilot.experiments.rehearsal.counterfactual import POLICY
from gatepilot.experiments.rehearsal.rehearsal import CANNOT_TELL, Rehearsal
from gatepilot.experiments.rehearsal.section import section_of, write_page
from gatepilot.experiments.rehearsal.wording import alone_notes, summary_line, tables
from gatepilot.experiments.report import render
from gatepilot.experiments.study import Study

from ..test_report import Collector

pytestmark = pytest.mark.timeout(30)  # a plot takes a busy machine seconds


@pytest.fixture(scope="module")
def html(rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "rehearsal.html"
    write_page(rehearsal, path)
    assert [p.name for p in path.parent.iterdir()] == ["rehearsal.html"]
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Collector:
    collector = Collector()
    collector.feed(html)
    collector.close()
    return collector


def texts_of(picture: Picture) -> str:
    """The words that stand beside a plot; those in it are drawn as paths."""
    return f"{picture.title} {picture.caption}"


def test_nothing_is_fetched_and_every_picture_is_sound(html: str, page: Collector) -> None:
    assert page.fetched == []
    assert page.open_tags == []
    assert len(page.images) == 2
    for source in page.images:
        kind, data = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert ET.fromstring(base64.b64decode(data)).tag.endswith("svg")  # noqa: S314  # our own
    assert "url(" not in html


def test_it_says_what_was_done_and_what_cannot_be_told(
    rehearsal: Rehearsal, page: Collector
) -> None:
    text = " ".join(" ".join(page.text).split())
    for line in CANNOT_TELL:
        assert line in text
    assert "importance sampling" in text
    assert "Rehearsed fault: source unreachable at ticks 10 to 13." in text
    assert "signature not checked" in text
    assert "SIMULATED" in text.upper()
    assert rehearsal.plan.artifact.digest in text
    assert rehearsal.shadow.head in text
    for table in tables(rehearsal.findings, "hpa"):
        assert table.title in text
        for name, value in table.rows:
            assert f"{name} {value}" in text


def test_the_course_says_that_it_is_no_run_of_the_policy(rehearsal: Rehearsal) -> None:
    section = section_of(rehearsal)
    assert "no run of the policy" in texts_of(section.course)
    assert "Simulated" in texts_of(section.alone_course)


def test_equal_rehearsals_give_equal_plots(rehearsal: Rehearsal) -> None:
    assert section_of(rehearsal) == section_of(rehearsal)


def test_the_counterfactual_stands_apart(rehearsal: Rehearsal) -> None:
    alone = rehearsal.counterfactual
    assert [episode.policy for episode in alone.episodes] == [POLICY, "hpa"]
    (told, *rest) = alone_notes(alone)
    assert "simulation of one window" in told
    assert rest == []
    hopeless = alone_notes(replace(alone, unkeepable_rate=0.25))
    assert "25.0 % of its ticks violate" in hopeless[1]


def test_the_evaluations_report_takes_it_as_a_section(study: Study, rehearsal: Rehearsal) -> None:
    plain = render(study)
    assert "Rehearsed in shadow" not in plain
    both = render(study, section_of(rehearsal))
    assert "Rehearsed in shadow" in both
    assert CANNOT_TELL[1] in both
    places = [both.index(text) for text in ("Rehearsed in shadow", "How it is judged")]
    assert places == sorted(places)
    assert len(re.findall("<img ", both)) == len(re.findall("<img ", plain)) + 2


def test_a_missing_folder_is_named(rehearsal: Rehearsal, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no/page\.html: the folder .*no does not exist"):
        write_page(rehearsal, tmp_path / "no" / "page.html")


def test_the_shadow_in_one_sentence(rehearsal: Rehearsal) -> None:
    found = rehearsal.findings
    line = summary_line(found, "hpa")
    assert f"{found.counted} of {found.ticks}" in line
    assert f"more replicas in {found.agreement.wants_more}" in line
