"""Plans for conda's environments that are there: what one installer brought goes before the other's comes."""

from __future__ import annotations

from envcheck.model import Distribution, Facts, FrameworkBuild, Known, Plan, Source, replace
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import matrix
from tests.plan.test_into import argv_of, into, plan_of

SEEN = Source("file", "composed")
NUMPY = Distribution("numpy", "1.26.4", installer="pip")
CONDAS_NUMPY = Distribution("numpy", "1.26.4", installer="conda", build="py311h64a7726_0")


def facts_of(*there: Distribution) -> Facts:
    """Return the facts of a conda environment with Python 3.11 that holds these distributions (composed)."""
    facts = snapshot_of("recorded-tensorflow-cpu-2.15").facts
    builds = tuple(
        FrameworkBuild(
            framework, item.name, item.version, cuda_build=Known(value=False, source=SEEN)
        )
        for item in there
        if (framework := matrix().framework_of(item.name))
        and item.name in ("tensorflow", "jaxlib", "torch")
    )
    python = replace(
        facts.python,
        kind=Known("conda", SEEN),
        distributions=Known(there, SEEN),
        frameworks=Known(builds, SEEN),
    )
    return replace(facts, python=python)


def condas(text: str, *there: Distribution) -> Plan:
    """Plan for such an environment."""
    return plan_of(into(facts_of(*there), text, expect="cpu", installer="conda"))


def test_what_pip_brought_goes_with_what_it_needs_before_condas_build_comes() -> None:
    jax = Distribution("jax", "0.5.3", installer="pip", requires=("jaxlib==0.5.3", "opt_einsum"))
    jaxlib = Distribution("jaxlib", "0.5.3", installer="pip", requires=("numpy>=1.25",))
    einsum, own = (
        Distribution("opt-einsum", "3.4.0", installer="uv"),
        Distribution("einops", "0.8", installer="pip"),
    )
    plan = condas("jax==0.6.2", jax, jaxlib, einsum, NUMPY, own)
    assert [step.id for step in plan.steps] == ["remove", "create-environment", "verify"]
    assert argv_of(plan, "remove")[1:] == (
        "-m",
        "pip",
        "uninstall",
        "-y",
        "jax",
        "jaxlib",
        "opt-einsum",
        "numpy",
    )


def test_what_conda_lists_itself_stays_for_conda_to_change() -> None:
    jaxlib = Distribution("jaxlib", "0.5.3", installer="pip", requires=("numpy>=1.25",))
    plan = condas("jax==0.6.2", jaxlib, CONDAS_NUMPY)
    assert argv_of(plan, "remove")[5:] == ("jaxlib",)


def test_condas_own_build_is_changed_by_conda_alone() -> None:
    there = Distribution("tensorflow", "2.15.0", installer="conda", build="cpu_py311h6aa969b_2")
    plan = condas("tensorflow==2.16.*", there, CONDAS_NUMPY)
    assert [step.id for step in plan.steps] == ["create-environment", "verify"]


def test_condas_build_goes_before_pips_comes() -> None:
    there = Distribution("tensorflow", "2.16.2", installer="conda", build="cpu_py311h0_0")
    base = replace(there, name="tensorflow-base", scope="conda")
    plan = condas("tensorflow==2.20.*", there, base, CONDAS_NUMPY)
    assert [step.id for step in plan.steps] == [
        "create-environment",
        "remove-conda",
        "install",
        "verify",
    ]
    told = ("conda", "remove", "-y", "-p", "./env", "--force", "tensorflow", "tensorflow-base")
    assert argv_of(plan, "remove-conda") == told


def test_a_build_that_pip_has_overwritten_goes_from_condas_list_too() -> None:
    pips = Distribution("torch", "2.9.0", installer="pip")
    listed = Distribution(
        "pytorch", "2.5.1", installer="conda", scope="conda", build="cpu_mkl_py311h0_0"
    )
    plan = condas("torch==2.5.1", pips, listed)
    assert argv_of(plan, "remove")[-1] == "torch"
    assert argv_of(plan, "remove-conda")[-1] == "pytorch"
    assert [step.id for step in plan.steps][:3] == ["remove", "remove-conda", "create-environment"]
