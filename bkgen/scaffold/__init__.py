"""Files that bkgen writes into a repository: setup pages, the upload step to paste, new suites.

What an author wrote is never lost: of a page only what stands between markers is bkgen's, and a file that
bkgen did not write is not replaced.
"""
