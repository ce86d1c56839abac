"""What every other package may use: errors, wording, array types, classes, geometry, progress."""
