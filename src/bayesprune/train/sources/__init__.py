"""Where a fit's minibatches come from when its data are not in the device's memory."""
