"""What starts runs when nobody does: triggers that are armed, what they have started, and who drives them."""
