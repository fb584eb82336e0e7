"""Find wrong labels, odd pictures and duplicates: networks judge pictures that they do not know by heart."""
