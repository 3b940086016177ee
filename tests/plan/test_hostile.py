"""Whatever is written in place of a requirement: it is refused, or it is a plain word in one argument."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.cli.group import run
from envcheck.model import Plan, RequestError, UserError
from envcheck.plan.requests import check_folder, read_requests
from envcheck.render.plan import render_script
from envcheck.rules.described_machine import Description, check_description
from tests.plan.machines import machine, matrix, planned

HOSTILE = [
    "tensorflow; import os; os.system('x')",
    "tensorflow @ https://example.org/x.whl",
    "https://example.org/tensorflow.whl",
    "git+https://example.org/tensorflow",
    "tensorflow\n--index-url https://example.org",
    "tensorflow --index-url https://example.org",
    "--index-url=https://example.org",
    "-r requirements.txt",
    "./tensorflow",
    "../../tensorflow",
    "C:\\tensorflow",
    "tensorflow==2.15$(id)",
    "tensorflow==2.15`id`",
    "tensorflow[and-cuda;rm]",
    "tensorflow==2.15 --hash=sha256:00",
    "tensorflow\x00",
    "tensorflow\u202e==2.15",
    "tensorflow==2.15 # x",
    "tensorflow==2.15 && id",
    "tensorflow" + "0" * 300,
    "tensorflow; python_version<'4'",
    "",
    "nosuchframework",
    "tensorflow==not-a-version",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_requirements_are_the_users_error(text: str) -> None:
    with pytest.raises(UserError):
        run(["plan", "--platform", "linux_x86_64", "--python", "3.11", "--", text])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.text(max_size=40),
        st.text("tensorflow[]=<>!~.,*;@ \n'\"$`-+/\\&|0123456789", max_size=40),
    )
)
def test_what_is_not_refused_is_one_plain_word(tail: str) -> None:
    try:
        (request,) = read_requests((f"tensorflow{tail}",), matrix())
    except RequestError:
        return
    assert re.fullmatch(r"[a-z0-9.,<>=!~*+\[\]_-]+", request.text)
    assert shlex.split(shlex.quote(request.text)) == [request.text]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_regex(r"(==|>=|<|<=|!=|~=)2(\.[0-9]{1,2}){1,2}(\.\*)?", fullmatch=True))
def test_every_plain_specifier_is_planned_or_blocked(clause: str) -> None:
    try:
        plan = planned(f"tensorflow{clause}", on=machine())
    except RequestError:
        return
    assert isinstance(plan, Plan)
    assert plan.releases or not plan.steps
    for line in render_script(plan).splitlines() if plan.releases else ():
        shlex.split(line, comments=True)


@pytest.mark.parametrize(
    "folder", ["-rf", "a;b", "a\nb", "$(id)", "`id`", "a'b", 'a"b', "a&b", "a|b", "\u202e"]
)
def test_hostile_folders_are_refused(folder: str) -> None:
    with pytest.raises(RequestError):
        check_folder(folder)


@pytest.mark.parametrize(
    "folder", ["/", "//", "~", "~/", ".", "./", "..", "x/..", "C:\\", "C:", "\\", " ", "/ "]
)
def test_what_an_undo_must_never_remove_is_no_folder_for_an_environment(folder: str) -> None:
    with pytest.raises(RequestError, match="a folder of its own"):
        check_folder(folder)


@pytest.mark.parametrize("folder", ["", ".venv", "/srv/my env", "~/envs/tf", "C:\\envs\\tf"])
def test_sensible_folders_are_taken(folder: str) -> None:
    check_folder(folder)


@pytest.mark.parametrize(
    "described",
    [
        Description(python="3"),
        Description(python="2.7"),  # it has no venv
        Description(python="3.11; id"),
        Description(python="3.11\n"),
        Description(driver="five"),
        Description(driver="535.104\n"),
        Description(glibc="2"),
        Description(platform="linux"),
        Description(python="\u0663.\u0661"),
    ],
)
def test_descriptions_that_say_nothing_are_refused(described: Description) -> None:
    with pytest.raises(RequestError):
        check_description(described)


def test_a_framework_is_asked_for_once() -> None:
    with pytest.raises(RequestError, match="twice"):
        read_requests(("torch>=2", "torch<3"), matrix())
    with pytest.raises(
        RequestError, match="tensorflow and tensorflow-gpu are the same framework under two names"
    ):
        read_requests(("tensorflow", "tensorflow-gpu"), matrix())
    assert len(read_requests(("torch", "torch"), matrix())) == 1


@pytest.mark.parametrize("text", ["torch>=2.5,<2.4", "torch==2.4,==2.5", "torch==2.7.*,!=2.7.*"])
def test_clauses_that_no_version_can_meet_are_an_error_of_the_request(text: str) -> None:
    with pytest.raises(RequestError, match="no version satisfies"):
        read_requests((text,), matrix())
    with pytest.raises(RequestError, match="no version satisfies"):
        read_requests(("torch", text.replace("torch", "torchvision")), matrix())


@pytest.mark.parametrize("gpu", ["Voodoo 2", "$(id)", "GTX"])
def test_gpus_that_name_none_or_several_are_refused(gpu: str) -> None:
    with pytest.raises(RequestError, match="compute capability"):
        planned("torch", on=machine(gpu=gpu, driver="550.54.14"))
