"""Studies of the papers, one file each, that `bayesprune reproduce` runs cell by cell."""
