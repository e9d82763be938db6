"""`python -m bkgen`."""

from bkgen.cli.entry import main

main()
