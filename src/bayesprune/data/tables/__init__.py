"""Users' own files: columns by name, what they are found to be, and the numbers that a network takes."""
