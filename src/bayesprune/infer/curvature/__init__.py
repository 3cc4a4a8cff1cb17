"""Second derivatives of a trained network's loss: what each row adds, and the forms in which they are summed up."""
