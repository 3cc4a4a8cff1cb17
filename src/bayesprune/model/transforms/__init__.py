"""What a program computes, changed from outside: weights that are noise, convolutions that are quick."""
