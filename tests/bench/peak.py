"""Run the command line given as arguments, then say the peak of this process's memory in kB."""

from __future__ import annotations

import resource
import sys

from bkgen.cli.entry import run

status = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(status)
