"""What a network learned, in numbers and pictures."""
