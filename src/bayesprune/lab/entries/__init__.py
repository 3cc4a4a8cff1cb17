"""The methods of a comparison, one file for each way to train; a new file is found by its ``ENTRIES``: name -> entry."""
