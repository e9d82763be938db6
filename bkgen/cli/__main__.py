"""`python -m bkgen.cli`."""

from bkgen.cli.entry import main

main()
