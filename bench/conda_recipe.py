"""Build the conda recipe, with its tests, from a small local channel; the only download is that of its requirements.

    python -m bench.conda_recipe

Needs `pip install py-rattler-build py-rattler conda-package-streaming` and Python 3.11 of pyenv.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rattler_build

from bench.conda_channel import add_pip, add_python, add_wheels, index

RECIPE = Path(__file__).parents[1] / ".ci" / "conda" / "recipe.yaml"
MINOR = "3.11"


def main() -> int:
    """Build and test the recipe; print what was built."""
    with tempfile.TemporaryDirectory() as name:
        channel, built = Path(name, "conda-forge"), Path(name, "built")
        recipe = rattler_build.Stage0Recipe.from_file(str(RECIPE))
        wanted = recipe.to_dict()["requirements"]
        names = {text.split()[0] for text in (*wanted["host"], *wanted["run"])} - {"python", "pip"}
        add_python(channel, MINOR)
        add_pip(channel)
        add_wheels(channel, MINOR, sorted(names))
        index(channel)
        tested = rattler_build.ToolConfiguration(test_strategy="native")
        for result in recipe.run_build(
            tool_config=tested, output_dir=built, channels=[channel.as_uri()]
        ):
            print(f"built and tested: {', '.join(Path(path).name for path in result.packages)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
