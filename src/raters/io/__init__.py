"""Files: codecs of masks and images, tables, files that are written whole, the journal of a folder."""
