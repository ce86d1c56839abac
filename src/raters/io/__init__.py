"""Files: codecs of masks and images, tables, whole files, and the journal of a folder."""
