"""The methods of a comparison, by when they cut; a new file is found by its ``ENTRIES``: name -> entry."""
