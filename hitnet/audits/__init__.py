"""Find wrong labels, odd pictures and duplicates: networks judge pictures that they have not seen."""
