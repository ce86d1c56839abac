"""What a trained model says of images: windows, named maps, files of predictions."""
