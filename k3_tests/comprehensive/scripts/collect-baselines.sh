#!/usr/bin/env bash
# Fetches what the steps of this build measured and joins it into one file of baselines, which the build keeps
# as an artifact. A configuration without a result is an error: a baseline with a hole would pass for one.
#
# usage: k3_tests/comprehensive/scripts/collect-baselines.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command buildkite-agent python3
artifacts_directory comprehensive

group "Fetch the results of this build"
retry 3 5 buildkite-agent artifact download "$LOGS/result-*.json" .

group "Join them"
python3 - "$LOGS" k3_tests/comprehensive/configs/*.yaml <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
baselines, missing = {}, []
for config in (Path(name).stem for name in sys.argv[2:]):
    try:
        result = json.loads((folder / f"result-{config}.json").read_text(encoding="utf-8"))
        baselines[config] = {name: float(result[name]) for name in ("cold_seconds", "warm_seconds")}
    except (OSError, ValueError, LookupError, TypeError) as problem:
        missing.append(f"{config} ({type(problem).__name__})")
if missing:
    sys.exit("no result of: " + ", ".join(missing))
text = json.dumps(baselines, indent=2, sort_keys=True)
(folder / "baselines.json").write_text(text + "\n", encoding="utf-8")
print(text)
PYTHON
