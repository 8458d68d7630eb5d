"""Files that follow from one layout: linker scripts, protection tables, pools, offline plans."""
