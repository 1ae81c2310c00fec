"""What a fit knows of the data before it starts, and where clusters and objects start from it."""
