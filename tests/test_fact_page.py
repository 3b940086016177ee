"""The page of facts and the rules that read them."""

from __future__ import annotations

from docs.fact_page import facts_page, find_readers, list_facts
from envcheck.rules import RULES


def test_every_fact_stands_on_the_page_once() -> None:
    names = [name for name, _ in list_facts()]
    assert len(names) == len(set(names)) > 90
    assert [name for name in names if facts_page().count(f"| `{name}` |") != 1] == []


def test_rules_are_listed_at_the_facts_that_they_cannot_do_without() -> None:
    readers = find_readers()
    known = {name for name, _ in list_facts()}
    for rule in RULES:
        for name in set(rule.needs) & known:
            assert set(rule.ids) <= readers[name], (rule.ids, name)


def test_a_rule_is_listed_at_what_its_helpers_read_and_at_nothing_else() -> None:
    readers = find_readers()
    assert readers["driver.dkms"] == {"driver-missing"}  # read two calls below the rule
    assert readers["host.shm_bytes"] == {"os-limit"}
    assert readers["python.pip_version"] == {"pip-too-old"}
    assert readers["driver.smi_exit_code"] >= {"probe-failed"}  # named in a constant
    assert "host.memory_bytes" not in readers  # shown, and never judged
