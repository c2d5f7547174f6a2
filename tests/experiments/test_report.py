"""The report is one file that needs nothing else and says what a reader must know."""

import base64
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents.statistics import Comparison, Verdict
from gatepilot.experiments import report as report_module
from gatepilot.experiments.files import OutputError
from gatepilot.experiments.plots import pareto_front
from gatepilot.experiments.report import render, write_report
from gatepilot.experiments.results import Pair, Results
from gatepilot.experiments.study import Study
from gatepilot.experiments.timeline import telling_windows
from gatepilot.experiments.wording import counted, short, spanned, verdict_line

pytestmark = pytest.mark.timeout(30)
RUN = "run:0123456789abcdef0123456789abcdef"


class Collector(HTMLParser):
    """Text, image sources and everything that could be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.images: list[str] = []
        self.fetched: list[str] = []
        self.open_tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img", "br", "link"):
            self.open_tags.append(tag)
        for name, value in attrs:
            if name == "src" and value is not None:
                self.images.append(value)
            if name in ("href", "srcset", "data", "action"):
                self.fetched.append(str(value))
        if tag in ("script", "link", "iframe"):
            self.fetched.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def html(study: Study) -> str:
    return render(study)


@pytest.fixture(scope="module")
def page(html: str) -> Collector:
    collector = Collector()
    collector.feed(html)
    collector.close()
    return collector


def test_nothing_is_fetched(html: str, page: Collector) -> None:
    assert page.fetched == []
    assert page.images
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.images)
    assert "url(" not in html
    assert "@import" not in html
    assert page.open_tags == []


def test_every_picture_is_sound_svg_without_links(page: Collector) -> None:
    for source in page.images:
        svg = base64.b64decode(source.split(",", 1)[1]).decode()
        root = ET.fromstring(svg)  # noqa: S314  # our own
        assert root.tag.endswith("svg")
        linked = re.findall(r'xlink:href="([^"]*)"', svg)
        assert all(link.startswith(("#", "data:")) for link in linked)


def test_figures_verdicts_and_provenance_are_in_it(study: Study, page: Collector) -> None:
    text = " ".join(" ".join(page.text).split())
    for row in study.results.summary:
        assert f"{row.return_mean:.1f}" in text
        assert spanned(row.return_ci95) in text
        assert short(row.policy) in text
    for pair in study.results.pairs_of_the_best():
        assert verdict_line(pair) in text
    for fact in (
        "8 windows of 60 ticks of 15 s",
        "60 ticks of 15 s. Returns are",
        "Note: the trace is not here",
        "gatepilot evaluate <x>",
        '"replicas": 8',
        "Windows that were set apart",
        "25.0",
    ):
        assert fact in text


def test_text_of_the_user_is_no_html(html: str) -> None:
    assert "gatepilot evaluate &lt;x&gt;" in html
    assert "evaluate <x>" not in html


def test_equal_results_give_equal_bytes(study: Study, html: str) -> None:
    assert render(study) == html


def test_a_study_without_a_single_window_still_gives_a_report(study: Study) -> None:
    (trial,) = study.trials
    nothing = Results((), (), {}, (), study.results.gated_out, {"notes": []})
    html = render(Study(nothing, (trial.keeping([False] * len(trial.windows)),), {}))
    assert "Windows that were set apart" in html


def test_a_single_policy_gives_a_report_without_pairs(study: Study) -> None:
    one = study.results.summary[:1]
    alone = replace(study.results, summary=one, by_scenario={"demo": one}, pairs=())
    html = render(replace(study, results=alone))
    assert "Pair by pair" not in html


def test_a_failure_leaves_what_was_there(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")

    def broken(*given: object) -> str:
        raise RuntimeError

    monkeypatch.setattr(report_module, "render", broken)
    with pytest.raises(RuntimeError):
        write_report(study, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(study: Study, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no/report\.html: the folder .*no does not exist"):
        write_report(study, tmp_path / "no" / "report.html")


def test_windows_worth_looking_at(study: Study) -> None:
    played = study.outcomes["demo", "hpa"]
    first = replace(played, returns=np.array([0.0, 1, 2, 3, 4, 5, 6, 7]))
    second = replace(played, returns=np.array([0.0, 1, 9, 3, 4, 5, 6, 7]))
    assert telling_windows({"a": first, "b": second}) == (2, 5)  # means 0 1 5.5 3 4 5 6 7


def test_the_front_holds_what_no_other_beats() -> None:
    points = [(2.0, 5.0), (1.0, 9.0), (3.0, 5.0), (4.0, 0.0), (2.0, 6.0)]
    assert pareto_front(points) == [1, 0, 3]


@pytest.mark.parametrize(
    ("ci95", "iqm", "windows", "verdict", "words"),
    [
        ((1.0, 3.0), 2.0, 8, "win", f"{short(RUN)} is better than hpa: mean difference +2.00"),
        ((-3.0, -1.0), -2.0, 8, "loss", f"{short(RUN)} is worse than hpa: "),
        ((-1.0, 3.0), 2.0, 8, "undecided", "undecided, the interval contains 0"),
        ((1.0, 3.0), -1.0, 8, "undecided", "undecided, mean and IQM do not agree"),
        ((1.0, 3.0), 2.0, 5, "too few windows", "too few windows to tell, at least 6"),
        (None, 2.0, 1, "too few windows", "in 75 % of 1 window."),
    ],
)
def test_verdicts_in_words(
    ci95: tuple[float, float] | None, iqm: float, windows: int, verdict: Verdict, words: str
) -> None:
    comparison = Comparison(2.0, ci95, iqm, None, 0.75, windows)
    assert comparison.verdict == verdict
    assert words in verdict_line(Pair(RUN, "hpa", comparison))


def test_small_words() -> None:
    assert short(f"{RUN},{'f' * 32}") == "run:01234567,ffffffff"
    assert spanned((-0.012, 0.5), 100, 1) == "-1.2 to 50.0"
    assert counted(1, "window") == "1 window"
    assert counted(0, "window") == "0 windows"
