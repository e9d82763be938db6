"""Run the command line given as arguments, then say the peak of its memory in kB."""

from __future__ import annotations

import resource
import subprocess
import sys

done = subprocess.run([sys.executable, "-m", "bkgen", *sys.argv[1:]], check=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
